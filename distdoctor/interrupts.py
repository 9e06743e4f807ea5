"""Signals that end a run, from the first moment on: remembered, or delivered at once.

Imports next to nothing, so that ``__main__`` can call it before anything else is imported.
"""

from __future__ import annotations

import os
import signal
import time
from types import FrameType

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Of these, one that is ignored from the start (``nohup``, a script's ``&``) stays ignored."""

TOGETHER_SECONDS = 2.0
"""What comes so soon after the first signal is the same event told again, and nobody's impatience: when a job's time is
up, SLURM sends SIGTERM to its processes and once more to those of each step; below torchrun a rank gets what is sent to
all, and then what its agent hands on."""


class Interrupted(BaseException):
    """A signal asked this process to end. Not an Exception: no ``except Exception`` on the way may stop it."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def within(err: BaseException) -> BaseException | None:
    """The signal that ``err`` is, None where it is none: Python up to 3.11 makes a RuntimeError of what is raised while
    the attributes of a new class get their names (``__set_name__``), as in an import."""
    return next((one for one in (err, err.__cause__) if isinstance(one, (Interrupted, KeyboardInterrupt))), None)


class _State:
    numbers: tuple[int, ...] = ()
    """Those of ENDING that are answered; none where this process only uses this package (a test)."""
    pending: int | None = None
    since = 0.0
    """When that came, on the clock of ``time.monotonic``."""


def begin() -> None:
    """From now on no signal ends this process without a word: it is remembered until :func:`deliver`."""
    if signal.getsignal(signal.SIGCHLD) == signal.SIG_IGN:
        # Who ignores it hands that on (a shell's trap '' CHLD): then how a child ended could not be asked.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _State.numbers = tuple(number for number in ENDING if signal.getsignal(number) != signal.SIG_IGN)
    hold()


def hold() -> None:
    """Remember the first signal and go on; another one, later than TOGETHER_SECONDS, ends the process at once."""
    for number in _State.numbers:
        signal.signal(number, _remember)


def deliver() -> None:
    """Raise Interrupted for a signal that came before, and for each that comes from now on."""
    for number in _State.numbers:
        signal.signal(number, _raise)
    if _State.pending is not None:
        raise Interrupted(_State.pending)


def over() -> None:
    """All was told: a signal that comes now is too late to change the status. Python, while it ends, would let it; and
    a launcher that ends all processes with the first that fails (srun -K, mpirun) sends one to those that still leave.
    """
    for number in _State.numbers:
        signal.signal(number, signal.SIG_IGN)
    _State.numbers = ()


def pending() -> int | None:
    """The signal that came while they were held, None without one."""
    return _State.pending


def status_after(status: int) -> int:
    """``status``, or 128+n where a signal came that nobody has answered yet."""
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
