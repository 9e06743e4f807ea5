"""How the zygote is started: as the job's Python would be, but for what keeps it in the hands of its parent."""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import subprocess
import sys

from distdoctor.own_path import package_parent

PR_SET_PDEATHSIG = 1
_START = """
import sys, time
words = sys.argv[1:]
del sys.argv[1:]
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
"""What the zygote runs. Arguments: its control socket's number, the folder that distdoctor lies in, sys.path.

torch comes first, so that it is the job's: from where a script in the working folder would import it, after nothing but
what Python itself has loaded (``sys`` and ``time`` are built in, and no file can hide them). What the zygote needs for
itself comes from its parent's sys.path, also where a file of the user's hides a module of the standard library.
"""
_libc = ctypes.CDLL(None)


def start(control: socket.socket, output: int) -> subprocess.Popen[bytes]:
    """The zygote's process, with its end of the control socket and the file for what it prints."""
    # With -c the working folder comes first on sys.path, as the script's folder does with python SCRIPT: most scripts
    # are started from the folder they lie in. With python -m it is the working folder, too. The interpreter's own flags
    # (-E, -s, -P, -O ...) are passed on.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    parent = os.getpid()
    return subprocess.Popen(
        [sys.executable, *flags, "-c", _START, str(control.fileno()), package_parent(), *sys.path],
        pass_fds=[control.fileno()],
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        preexec_fn=lambda: _prepare(parent),  # noqa: PLW1509 - three system calls, which take no lock
    )


def _prepare(parent: int) -> None:
    """In the new process before it is Python: it dies with its parent, which alone decides what a signal means."""
    _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    if os.getppid() != parent:
        os._exit(1)
