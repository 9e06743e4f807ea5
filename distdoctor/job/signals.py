"""The signals of the process that stands in front of the job: each goes to the job, once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

SI_KERNEL = 0x80
"""Who sent it is the kernel: of SIGINT, SIGQUIT and SIGHUP the terminal, which sends them to the whole process group,
the job with it (sigaction(2), asm-generic/siginfo.h)."""
SAME_SECONDS = 0.02
_NOT_OURS = (
    "SIGKILL", "SIGSTOP", "SIGCHLD", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGCONT", "SIGPIPE", "SIGSEGV", "SIGBUS",
    "SIGFPE", "SIGILL", "SIGABRT", "SIGTRAP", "SIGSYS", "SIGSTKFLT", "SIGXFSZ", "SIGURG",
)  # fmt: skip
"""Those that cannot be caught, that stop and go on with the job (they are for the group), or that are this process'."""


def handed_on() -> set[signal.Signals | int]:
    """The signals that go to the job."""
    own = {getattr(signal, name) for name in _NOT_OURS if hasattr(signal, name)}
    return {number for number in signal.valid_signals() if number not in own}


class Signals:
    """From its making on, signals wait; from :meth:`start` on a thread hands them on."""

    def __init__(self) -> None:
        self._numbers = handed_on()
        self.before = signal.pthread_sigmask(signal.SIG_BLOCK, self._numbers | {signal.SIGCHLD})
        """What waited before: the job's own mask."""

    def start(self, job: subprocess.Popen[bytes], tell: Callable[[int], None], witness: int | None) -> None:
        """Hand them on to the job. ``tell`` is told each, also that a child has ended.

        What was sent to the whole process group has reached the job already. ``witness``: another process of the group,
        in which these signals are blocked: one that waits there, too, was not for this process alone.
        """

        def hand_on() -> None:
            while True:
                info = signal.sigwaitinfo(self._numbers | {signal.SIGCHLD})
                number = info.si_signo
                mine = number not in (signal.SIGCHLD, signal.SIGWINCH) and info.si_code != SI_KERNEL
                if mine and not (witness is not None and _waits(number, witness)):
                    job.send_signal(number)
                tell(number)

        threading.Thread(target=hand_on, name="signals", daemon=True).start()


def forget() -> None:
    """In the witness, now and then: what waits there is of the past."""
    while signal.sigtimedwait(handed_on(), 0) is not None:
        pass


def end_by(number: int) -> None:
    """End this process by a signal, as the job did; it returns where that does not end it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _waits(number: int, pid: int) -> bool:
    """Whether a signal waits in a process, to which it may be sent only a moment later than to this one."""
    time.sleep(SAME_SECONDS)
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    waiting = next((line.split()[1] for line in status.splitlines() if line.startswith("ShdPnd:")), "0")
    return bool(int(waiting, 16) >> (number - 1) & 1)
