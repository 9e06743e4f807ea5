"""Signals that end a run, from its first moment on: remembered, or delivered at once.

Imports next to nothing, so that ``__main__`` can call it before anything else is imported.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals that end a run. One that is ignored from the start (``nohup``, a script's ``&``) stays ignored."""

TOGETHER_SECONDS = 2.0
"""Seconds in which a further signal is the same event, not impatience.

At the end of a job's time, SLURM sends SIGTERM to its processes, and again to those of each step. Below torchrun a rank
gets the signal that is sent to all, and then the one that its agent passes on."""


class Interrupted(BaseException):
    """A signal asked this process to end. Not an Exception: no ``except Exception`` on the way may stop it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def interrupted_in(err: BaseException) -> BaseException | None:
    """Return the signal that ``err`` is, None if it is none: Python up to 3.11 makes a RuntimeError of an exception
    while the attributes of a new class get their names (``__set_name__``), as in an import."""
    return next((one for one in (err, err.__cause__) if isinstance(one, (Interrupted, KeyboardInterrupt))), None)


class _State:
    numbers: tuple[int, ...] = ()
    """Signals of ENDING that are handled; none if this process only uses this package (a test)."""
    pending: int | None = None
    since = 0.0
    """Time of its arrival, by ``time.monotonic``."""


def begin() -> None:
    """Remember signals until :func:`deliver`: from now on none ends this process silently."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        # An ignored SIGCHLD is inherited (a shell's trap '' CHLD): then a child's status could not be read.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _State.numbers = tuple(number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN)
    hold()


def hold() -> None:
    """Remember the first signal and go on; another one, later than TOGETHER_SECONDS, ends the process at once."""
    for number in _State.numbers:
        signal.signal(number, _remember)


def deliver() -> None:
    """Raise Interrupted for a remembered signal, and for each further one."""
    for number in _State.numbers:
        signal.signal(number, _raise)
    if _State.pending is not None:
        raise Interrupted(_State.pending)


def ignore_further() -> None:
    """Ignore further signals: the report is printed, and it is too late to change the status. Python, while it ends,
    would let them; and a launcher that ends all processes with the first that fails (srun -K, mpirun) sends one to
    those that still leave."""
    for number in _State.numbers:
        signal.signal(number, signal.SIG_IGN)
    _State.numbers = ()


def pending() -> int | None:
    """Return the signal that arrived while they were held, None without one."""
    return _State.pending


def status_after(status: int) -> int:
    """Return ``status``, or 128+n for an unhandled signal."""
    return status if _State.pending is None or status > 128 else 128 + _State.pending


def _remember(number: int, _frame: FrameType | None) -> None:
    if _State.pending is None:
        _State.pending, _State.since = number, time.monotonic()
    elif time.monotonic() - _State.since > TOGETHER_SECONDS:
        os._exit(128 + number)


def _raise(number: int, _frame: FrameType | None) -> None:
    hold()
    _State.pending, _State.since = number, time.monotonic()
    raise Interrupted(number)
