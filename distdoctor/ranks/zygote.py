"""Zygote: one process per node that imports torch once and forks every process that uses it.

It stays single-threaded and never calls c10d or torch.cuda itself, so that its children start as if they had imported
torch themselves, in a hundredth of the time. torch is imported before anything of distdoctor's, from where the job
would import it (``distdoctor.ranks.supervisor``). It is driven over a SOCK_SEQPACKET socket (one JSON object a
message):

    in   {"spawn": ID, "name": "distdoctor:r0", "env": {...}} with two file descriptors: the child's channel, its output
    in   {"kill": ID}
    out  {"ready": true, "torch": VERSION, "path": FOLDER, "seconds": SECONDS, "cuda": VERSION or null, ...}
         or  {"ready": false, "error": TEXT, "seconds": SECONDS, "failure": {...}}
    out  {"spawned": ID, "pid": PID}
    out  {"exited": ID, "status": exit status, negative: the signal}

It ends, and takes its children with it, when that socket closes or its parent dies.
"""

from __future__ import annotations

import ctypes
import gc
import json
import os
import select
import signal
import socket
import sys
import traceback
import warnings
from typing import Any

from distdoctor.ranks import child
from distdoctor.ranks.torch_failure import describe, loaded_version

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
MAX_MESSAGE = 1 << 17


def main(control_fd: int, seconds: float, error: BaseException | None, path: list[str]) -> None:
    """Run as the zygote; it ends the process.

    ``error`` is the exception of torch's import after ``seconds``, ``path`` the job's sys.path.
    """
    name_process("distdoctor:zyg")
    control = socket.socket(fileno=control_fd)
    control.set_inheritable(False)
    answer: dict[str, Any] = {"ready": False}
    if error is None:
        answer, error = _torch()
    if error is not None:
        answer = {"ready": False, "error": _error_text(error), "failure": describe(error, path)}
    gc.freeze()  # no child scans the shared objects, which would copy them (https://docs.python.org/3/library/gc.html)
    gc.enable()
    sys.path[:] = path  # torch's later imports are the job's
    _Zygote(control).run({**answer, "seconds": round(seconds, 3)})
    os._exit(0)  # to take a whole torch apart costs as much as a third of its import, and a run's end waits for it


def die_with(parent: int) -> None:
    """Ask the kernel to kill this process when its parent dies; leave at once if it already has."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def name_process(name: str) -> None:
    """Set the name that ps and top show (at most 15 bytes)."""
    ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15])


class _Zygote:
    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.children: dict[int, int] = {}  # pid -> id

    def run(self, answer: dict[str, Any]) -> None:
        """Send the result of the import, then serve requests. Ends when the control socket closes."""
        self.send(answer)
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        os.set_blocking(read_end, False)
        signal.set_wakeup_fd(write_end)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.wakeup = (read_end, write_end)
        while True:
            ready: list[int] = select.select([self.control.fileno(), read_end], [], [])[0]
            if read_end in ready:
                self.drain(read_end)
                self.reap()
            if self.control.fileno() in ready and not self.command():
                break
        self.kill_all()
        for pid in self.children:
            os.waitpid(pid, 0)  # reaped here: a container's init may not do it

    def command(self) -> bool:
        try:
            data, fds, _, _ = socket.recv_fds(self.control, MAX_MESSAGE, 2)
        except OSError:
            return False
        if not data:
            return False
        message = json.loads(data)
        if "spawn" in message:
            self.spawn(message, fds)
        elif "kill" in message:
            for pid, number in self.children.items():
                if number == message["kill"]:
                    os.kill(pid, signal.SIGKILL)
        return True

    def spawn(self, message: dict[str, Any], fds: list[int]) -> None:
        me = os.getpid()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # numpy's BLAS may have threads; it handles fork itself
            pid = os.fork()
        if pid:
            for fd in fds:
                os.close(fd)
            self.children[pid] = message["spawn"]
            self.send({"spawned": message["spawn"], "pid": pid})
            return
        try:
            die_with(me)
            name_process(message["name"])
            self.become_child(message, fds)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(70)

    def become_child(self, message: dict[str, Any], fds: list[int]) -> None:
        channel_fd, output_fd = fds
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        self.control.close()
        for fd in self.wakeup:
            os.close(fd)
        os.dup2(output_fd, 1)
        os.dup2(output_fd, 2)
        os.close(output_fd)
        for name, value in message["env"].items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
        child.main(socket.socket(fileno=channel_fd))
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)

    def reap(self) -> None:
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            number = self.children.pop(pid, None)
            if number is not None:
                self.send({"exited": number, "status": os.waitstatus_to_exitcode(status)})

    def send(self, message: dict[str, Any]) -> None:
        try:
            self.control.send(json.dumps(message).encode())
        except OSError:
            self.kill_all()
            os._exit(0)

    def kill_all(self) -> None:
        for pid in self.children:
            os.kill(pid, signal.SIGKILL)

    @staticmethod
    def drain(fd: int) -> None:
        try:
            while os.read(fd, 4096):
                pass
        except BlockingIOError:
            pass


def _torch() -> tuple[dict[str, Any], Exception | None]:
    """Return the facts of the imported torch, or the error if it is no whole torch."""
    try:
        import torch
        import torch.distributed as dist

        version, origin = str(torch.__version__), str(torch.__file__)
        if not dist.is_available():
            return {}, ImportError(f"torch {version} was built without torch.distributed")
        nccl = dist.is_nccl_available()
        backends = ["gloo"] if dist.is_gloo_available() else []
        backends += ["nccl"] if nccl else []
        backends += [name for name in ("mpi", "ucc", "xccl") if getattr(dist, f"is_{name}_available", bool)()]
        of_nccl = (loaded_version() or torch.cuda.nccl.version()) if nccl else ()  # type: ignore[no-untyped-call]
        cuda = torch.version.cuda
        answer = {
            "ready": True,
            "torch": version[:100],
            "path": os.path.dirname(origin),
            "cuda": None if cuda is None else str(cuda)[:100],
            "backends": backends,
            "nccl": ".".join(map(str, of_nccl)) or None,
            "cpus": len(os.sched_getaffinity(0)),
        }
        return answer, None
    except Exception as err:  # a module of that name that is none
        return {}, err


def _error_text(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:500]
    except Exception:
        return type(error).__name__
