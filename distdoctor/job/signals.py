"""The signals of the process that stands in front of the job: each goes to the job, once."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

SI_KERNEL = 0x80
"""Who sent it is the kernel: of SIGINT, SIGQUIT and SIGHUP the terminal, which sends them to the whole process group,
the job with it (sigaction(2), asm-generic/siginfo.h)."""
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

    def start(self, job: subprocess.Popen[bytes], tell: Callable[[int], None]) -> None:
        """Hand them on to the job. ``tell`` is told each, also that a child has ended."""

        def hand_on() -> None:
            while True:
                info = signal.sigwaitinfo(self._numbers | {signal.SIGCHLD})
                number = info.si_signo
                to_all = info.si_code == SI_KERNEL or _comes_from(info.si_pid, job.pid)
                if number not in (signal.SIGCHLD, signal.SIGWINCH) and not to_all:
                    job.send_signal(number)
                tell(number)

        threading.Thread(target=hand_on, name="signals", daemon=True).start()


def end_by(number: int) -> None:
    """End this process by a signal, as the job did; it returns where that does not end it."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {number})
    os.kill(os.getpid(), number)


def _comes_from(sender: int, job: int) -> bool:
    """Whether the job itself sent it, to its whole group (``trap 'kill 0' EXIT`` in a script)."""
    return sender == job or job in _above(sender)


def _above(pid: int) -> Iterable[int]:
    for _ in range(64):
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):
            return
        if pid <= 1:
            return
        yield pid
