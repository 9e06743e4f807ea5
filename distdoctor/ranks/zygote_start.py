"""Start of the zygote: as the job's Python would start, except for what ties it to its parent.

It may start ahead: a run waits for nothing as long as for the import of torch, so a command line that will need it
starts it before it loads anything of its own.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field

from distdoctor.model.launch_settings import VARIABLE
from distdoctor.own_path import package_parent

PR_SET_PDEATHSIG = 1
KILLED_SECONDS = 1.0
"""Seconds to wait for the end of a killed process: one that reads from a hung disk ends later."""
_START = """
import gc, sys, time
words = sys.argv[1:]
del sys.argv[1:]
gc.disable()
began, error = time.monotonic(), None
try:
    import torch, torch.distributed
except BaseException as err:
    error = err
seconds = time.monotonic() - began
job, sys.path = sys.path, words[1:]
import distdoctor
sys.path = words[2:]
from distdoctor.own_path import hiding
hidden = hiding()
for name in hidden:
    del sys.modules[name]
from distdoctor.ranks.zygote import main
sys.modules.update(hidden)
main(int(words[0]), seconds, error, job)
"""
"""Program of the zygote. Arguments: its control socket's number, the folder that contains distdoctor, sys.path.

torch comes first, so that it is the job's: from where a script in the working folder would import it, after nothing but
what Python itself has loaded (``gc``, ``sys`` and ``time`` are built in, and no file can hide them). Imported objects
stay: garbage collection meanwhile would be a sixth of the import's time. The zygote's own imports come from its
parent's sys.path, also if a file of the user's hides a module of the standard library.
"""
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Started:
    """Process of a zygote, with its parent's ends."""

    process: subprocess.Popen[bytes]
    control: socket.socket
    output_fd: int
    """Nameless file for its output: no pipe that fills, nothing left behind."""
    env: dict[str, str]
    folder: str | None
    """Working folder of its start; None if that is gone."""
    at: float = field(default_factory=time.monotonic)

    def kill(self) -> None:
        """End it at once, whatever it does."""
        self.process.kill()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(KILLED_SECONDS)
        self.control.close()
        os.close(self.output_fd)


_ahead: list[Started] = []


def begin() -> None:
    """Start a zygote now, for the run that will :func:`take` it; if that fails, the run will report why. One that was
    started for the same job already is kept."""
    with suppress(Exception):
        while _ahead and not _fits(_ahead[-1]):
            _ahead.pop().kill()
        if not _ahead:
            _ahead.append(start())


def take() -> Started:
    """Return the zygote that was started; a new one if there is none, or if the job has changed since.

    Raises OSError.
    """
    while _ahead:
        begun = _ahead.pop()
        if _fits(begun):
            return begun
        begun.kill()
    return start()


def _fits(begun: Started) -> bool:
    """Return whether the job is still the one that it was started for."""
    return (begun.env, begun.folder) == (_environment(), _folder())


def abandon() -> None:
    """End the one that was started and not taken."""
    while _ahead:
        _ahead.pop().kill()


def start() -> Started:
    """Return a new zygote. Raises OSError."""
    # With -c the working folder comes first on sys.path, as the script's folder does with python SCRIPT: most scripts
    # are started from their own folder. With python -m it is the working folder, too. The interpreter's own flags (-E,
    # -s, -P, -O ...) are passed on.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    parent, env = os.getpid(), _environment()
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    output = nameless_file("distdoctor-zygote")
    try:
        process = subprocess.Popen(
            [sys.executable, *flags, "-c", _START, str(theirs.fileno()), package_parent(), *sys.path],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=env,
            preexec_fn=lambda: _prepare(parent),  # noqa: PLW1509 - three system calls, which take no lock
        )
    except BaseException:
        ours.close()
        os.close(output)
        raise
    finally:
        theirs.close()
    ours.setblocking(False)
    return Started(process, ours, output, env, _folder())


def nameless_file(name: str) -> int:
    """Return a nameless file for a process's output: no pipe that fills, nothing left behind. Raises OSError."""
    try:
        return os.memfd_create(name)
    except OSError:  # a sandbox that forbids it
        import tempfile

        with tempfile.TemporaryFile() as file:
            return os.dup(file.fileno())


def _environment() -> dict[str, str]:
    """Return the job's environment: no process of ours needs to inherit the token."""
    return {name: value for name, value in os.environ.items() if name != VARIABLE}


def _folder() -> str | None:
    try:
        return os.getcwd()
    except OSError:
        return None


def _prepare(parent: int) -> None:
    """Set up the new process before it is Python: it dies with its parent, which alone decides what a signal means."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.getppid() != parent:
        os._exit(1)
