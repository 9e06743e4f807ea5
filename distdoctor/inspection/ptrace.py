"""Which permission this process lacks to read the stacks of others, and the line that grants it.

Sources: Linux' kernel/ptrace.c (``__ptrace_may_access``), security/yama/yama_lsm.c, Documentation/admin-guide/LSM/Yama.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys

from distdoctor.inspection import proc_files

SECONDS = 5.0
CAP_SYS_PTRACE = 19
_SEIZE = 0x4206
_SLEEPS = "print(os.getpid(), flush=True)\ntime.sleep(20)"
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_IN_CONTAINER = (
    "start the container with --cap-add SYS_PTRACE (docker, podman), or with "
    'securityContext: {capabilities: {add: ["SYS_PTRACE"]}} (Kubernetes)'
)


def missing(pid: int) -> str:
    """Return which permission is missing to trace the process, and what grants it; empty where none is."""
    owner, able = proc_files.owner(pid), _has_capability()
    if owner is not None and owner != os.geteuid() and not able:
        return f"process {pid} belongs to user id {owner}, this runs as {os.geteuid()}: run it as that user, or as root"
    if may_trace():
        return ""
    scope = _yama_scope()
    if scope == 3:
        return "kernel.yama.ptrace_scope is 3: nobody may trace a process until this node is started again without it"
    if scope in (1, 2) and not able:
        line = "sudo sysctl -w kernel.yama.ptrace_scope=0"
        if in_container():
            return f"kernel.yama.ptrace_scope is {scope}, and CAP_SYS_PTRACE is missing: {_IN_CONTAINER}; or {line}"
        return f"kernel.yama.ptrace_scope is {scope}: run this as root, or allow it: {line}"
    if _status("Seccomp") == "2":
        return (
            "a seccomp filter forbids ptrace(2): start the container with --security-opt seccomp=unconfined (docker, "
            "podman), or with securityContext: {seccompProfile: {type: Unconfined}} (Kubernetes)"
        )
    if not able:
        return f"CAP_SYS_PTRACE is missing: {_IN_CONTAINER}" if in_container() else "run this as root"
    return "the kernel refuses ptrace(2), by a security module as SELinux: see its log (journalctl -k, ausearch -m avc)"


def may_trace() -> bool:
    """Return whether this process may trace another of the same user that is no child of it, tried on one of its
    own."""
    # Its parent ends at once: kernel.yama.ptrace_scope = 1 lets everyone trace their own children.
    command = [sys.executable, "-S", "-c", f"import os,time\nif os.fork(): os._exit(0)\n{_SLEEPS}\n"]
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as started:
            pid = int((started.stdout.readline() if started.stdout else "") or 0)
            started.wait(SECONDS)
            if pid <= 0:
                return False
            allowed = bool(ctypes.CDLL(None).ptrace(_SEIZE, pid, None, None) == 0)
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
            if allowed:
                with contextlib.suppress(OSError):
                    os.waitpid(pid, getattr(os, "__WALL", 0x40000000))
            return allowed
    except (OSError, ValueError, AttributeError, subprocess.SubprocessError):
        return False


def in_container() -> bool:
    """Return whether this process runs in a container, as docker, podman and Kubernetes mark theirs."""
    return any(map(os.path.exists, _CONTAINER_FILES)) or "KUBERNETES_SERVICE_HOST" in os.environ


def _has_capability() -> bool:
    return bool(int(_status("CapEff") or "0", 16) >> CAP_SYS_PTRACE & 1)


def _yama_scope() -> int:
    text = (proc_files.text("sys", "kernel/yama/ptrace_scope", 16) or "").strip()
    return int(text) if text.isdecimal() else 0


def _status(name: str) -> str:
    """Return a field of this process's status; of this thread's, where they differ."""
    for line in (proc_files.text("thread-self", "status") or "").splitlines():
        word, _, rest = line.partition(":")
        if word == name:
            return rest.strip()
    return ""
