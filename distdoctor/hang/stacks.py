"""Python stacks of other processes, by py-spy if it is installed and the kernel allows it.

py-spy stops a running process while it reads it (some milliseconds; with native frames about 30), and changes nothing.
A process of which no thread runs is read without being stopped: stopping would wake it and reset the kernel's count of
its idle time.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import distdoctor
from distdoctor.hang import proc
from distdoctor.hang.jobs import DISTRIBUTED
from distdoctor.hang.ray import TITLE
from distdoctor.model.facts import CallArguments, Frame
from distdoctor.model.text import clean, encodable

SECONDS = 5.0
"""Most seconds for one stack; without native frames it takes milliseconds, on a busy machine more."""
NATIVE_SECONDS = 4.0
"""Most seconds for native frames in all: py-spy reads the symbols of torch's libraries for each process."""
LOCALS_SECONDS = 4.0
"""Most seconds for a stack with local variables, which not every py-spy can read."""
TRIES, BETWEEN = 3, 0.015
"""Tries, and seconds between them, to find a running process idle."""
MOST_FRAMES = 60
_C10D, _RENDEZVOUS = "torch/distributed/distributed_c10d.py", "torch/distributed/rendezvous.py"
_FILELOCK = ("filelock/_api.py", "filelock/_core/_acquire.py")
"""Files of filelock that wait for a lock: up to 3.x, and from 4.0 on."""
_AWAITED = r"<(?:\w+\.)*(Work|R?[Ll]ock|(?:File|Hash|Prefix)Store) at "
"""Text of py-spy for a variable that can be waited for; other libraries have classes for stores, too. A client of a
TCPStore waits at its socket, and is seen there."""
_MOST_BYTES = 4 << 20
Stack = dict[int, tuple[Frame, ...]]
"""Frames by thread id, the innermost first."""


def program() -> str | None:
    """Return py-spy's path: next to this Python, or next to this package if it was installed apart; else on PATH."""
    folders = [
        Path(sys.executable).parent,
        Path(sysconfig.get_path("scripts")),
        Path(distdoctor.__file__).parents[1] / "bin",  # pip install --target, and distdoctor.pyz
        Path(sysconfig.get_path("scripts", f"{os.name}_user")),
    ]
    paths = (folder / "py-spy" for folder in folders)
    return next((str(path) for path in paths if os.access(path, os.X_OK)), None) or shutil.which("py-spy")


def why_not(pids: Collection[int] = ()) -> str:
    """Return the reason why these processes' stacks are unavailable, with the fix; empty if they are available."""
    if program() is None:
        return f"no Python stacks: py-spy is missing here: {sys.executable} -m pip install py-spy"
    pid = next(iter(pids), os.getpid())
    lacks = missing(pid)
    return f"no Python stacks, so code lines are unknown: {lacks}" if lacks else ""


def read(pids: Iterable[int], native: bool = False, given: bool = False) -> dict[int, tuple[Stack, str]]:
    """Return the frames of each process's threads, or the reason why there are none.

    ``native``: with C++ frames, within NATIVE_SECONDS, first for one process per place. ``given``: with the arguments
    of torch.distributed's functions, for processes that need not be stopped.
    """
    path, wanted = program(), list(pids)
    if path is None or not wanted:
        return {}
    end = time.monotonic() + NATIVE_SECONDS
    with ThreadPoolExecutor(max(2, min(len(wanted), os.cpu_count() or 2, 16))) as pool:
        found = dict(zip(wanted, pool.map(lambda pid: _python(path, pid, given), wanted), strict=True))
        if native:
            first = odd_ones_first(found)
            dumped = pool.map(lambda pid: _dump(path, pid, end - time.monotonic(), "--native"), first)
            found |= {
                pid: (_keep_given(found[pid][0], stack), error)
                for pid, (stack, error) in zip(first, dumped, strict=True)
                if stack
            }
    return found


def _keep_given(before: Stack, now: Stack) -> Stack:
    """Return the new stacks with the arguments that were seen before."""
    given = {tid: {frame: frame.given for frame in frames if frame.given} for tid, frames in before.items()}
    return {
        tid: tuple(replace(frame, given=given.get(tid, {}).get(frame)) for frame in frames)
        for tid, frames in now.items()
    }


def odd_ones_first(found: dict[int, tuple[Stack, str]]) -> Sequence[int]:
    """Return the processes with stacks: the first at each place, places with the fewest processes first."""
    places: dict[tuple[Frame, ...], list[int]] = {}
    for pid, (stack, _) in found.items():
        if stack:
            places.setdefault(stack.get(pid, ()), []).append(pid)
    return [pid for _, pid in sorted((turn * len(found) + len(pids), pid) for pids in places.values()
                                     for turn, pid in enumerate(pids))]  # fmt: skip


def _python(path: str, pid: int, given: bool) -> tuple[Stack, str]:
    """Return the Python frames of a process.

    It is stopped only if it runs, or if its frames are otherwise unavailable. A polling process runs for a moment in
    each try.
    """
    for _ in range(TRIES if given else 0):
        if not _runs(pid):
            break
        time.sleep(BETWEEN)
    if not _runs(pid):
        stack, error = _dump(path, pid, LOCALS_SECONDS, "--nonblocking", "--locals", "--locals") if given else ({}, "")
        if not stack.get(pid):
            stack, error = _dump(path, pid, SECONDS, "--nonblocking")
        if stack.get(pid):
            return stack, error
    return _dump(path, pid, SECONDS)


def _runs(pid: int) -> bool:
    """Return whether a thread runs that may be in Python: torch.distributed's own never are."""
    tids = proc.list_names(pid, "task")
    running = (tid for tid in tids if (one := proc.stat(f"{pid}/task/{tid}")) is not None and one.state == "R")
    return any(not (proc.read_text(pid, f"task/{tid}/comm", 64) or "").startswith(DISTRIBUTED) for tid in running)


def failed(found: dict[int, tuple[Stack, str]]) -> list[str]:
    """Return a note on the processes without a stack, with the reason, if another one may have a stack."""
    reasons: dict[str, list[int]] = {}
    for pid, (stack, error) in sorted(found.items()):
        if error and not stack:
            reasons.setdefault(error, []).append(pid)
    return [f"no Python stack of process {', '.join(map(str, pids[:8]))}: {why}" for why, pids in reasons.items()][:4]


def _dump(path: str, pid: int, seconds: float, *flags: str) -> tuple[Stack, str]:
    if seconds <= 0:
        return {}, "there was no time for it"
    command = [path, "dump", "--json", "--pid", str(pid), *flags]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, stdin=subprocess.DEVNULL, check=False)
    except subprocess.TimeoutExpired:
        return {}, f"py-spy gave no stack within {seconds:g} s"
    except OSError as err:
        return {}, f"py-spy cannot be run: {err.strerror or err}"
    if done.returncode:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        reason = next((line for line in lines if "ermission" in line or line.startswith("Error")), "no reason given")
        return {}, f"py-spy: {clean(reason)[:200]}"
    try:
        return _threads(json.loads(done.stdout[:_MOST_BYTES])), ""
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return {}, "py-spy's answer makes no sense"


def _threads(document: Any) -> Stack:
    found = {}
    for thread in document:
        tid = thread.get("os_thread_id") or thread.get("thread_id")
        if isinstance(tid, int):
            found[tid] = tuple(_frame(frame) for frame in thread["frames"][:MOST_FRAMES])
    return found


def _frame(frame: dict[str, Any]) -> Frame:
    whole = str(frame.get("filename") or "")
    line = frame.get("line")
    own = whole.endswith(".py") and "/site-packages/" not in whole and "/dist-packages/" not in whole
    own = own and not whole.startswith("<") and "/lib/python3" not in whole
    short = str(frame.get("short_filename") or whole)
    own = own and not short.startswith("torch/")  # in any folder, as where it was built
    given = None
    if short.endswith(_C10D):
        given = _given(frame.get("locals"))
    elif short.endswith(_RENDEZVOUS):
        size = _texts(frame.get("locals")).get("world_size", "")
        given = CallArguments(world_size=int(size)) if re.fullmatch(r"\d{1,7}", size) else None
    elif short.endswith(_FILELOCK):
        given = _given_lock(frame.get("locals"))
    elif own:
        given = _given_work(frame.get("locals"))
    name = clean(frame.get("name") or "?")[:120]
    return encodable(Frame(name, clean(short)[-200:], line if isinstance(line, int) else 0, own, given))


def _given(found: Any) -> CallArguments | None:
    """Return the peers among a function's variables; all other variables are dropped.

    ``_new_process_group_helper``, ``recv`` and ``broadcast`` in distributed_c10d.py have the same names in 2.2 to 2.13.
    """
    texts = _texts(found)
    group = re.fullmatch(r'"([^"]{1,64})"', texts.get("group_name", ""))
    ranks = re.fullmatch(r"\[(\d{1,7}(?:, \d{1,7})*)\]", texts.get("global_ranks_in_group", ""))
    peer = next((int(texts[name]) for name in ("src", "dst") if re.fullmatch(r"\d{1,7}", texts.get(name, ""))), None)
    method = re.fullmatch(r'"((?:tcp|file)://[^"]{1,500})"', texts.get("init_method", ""))
    if not (group and ranks) and peer is None and method is None:
        return None
    return CallArguments(
        clean(group[1]) if group and ranks else "",
        tuple(map(int, ranks[1].split(", "))) if group and ranks else (),
        peer,
        clean(method[1]) if method and not method[1].endswith("...") else "",
    )


def _given_lock(found: Any) -> CallArguments | None:
    """Return the file of a filelock lock, None if unknown: py-spy cuts long values.

    ``acquire`` up to 3.20, and later a function that it calls, hold it as ``lock_filename`` (all up to 4.3).
    """
    texts = _texts(found)
    path = re.fullmatch(r'"([^"]{1,4096})"', texts.get("lock_filename", ""))
    if path is None or path[1].endswith("..."):
        return None
    return CallArguments(lock=clean(path[1]), soft=texts.get("self", "").startswith("<SoftFileLock"))


def _given_work(found: Any) -> CallArguments | None:
    """Return the object among a function's variables that C or C++ can wait for: a ``Work``, a lock of Python's, a
    store."""
    named = (re.match(_AWAITED, text) for text in _texts(found).values())
    kinds = {match[1] for match in named if match}
    locks = {kind for kind in kinds if kind.lower().endswith("lock")}
    if "Work" in kinds:
        return CallArguments(has="either" if locks else "work")
    return CallArguments(has="lock" if locks else "store") if kinds else None


def _texts(found: Any) -> dict[str, str]:
    """Return the variables of a function by name, as py-spy prints them."""
    if not isinstance(found, list):
        return {}
    return {one["name"]: one["repr"] for one in found if isinstance(one.get("repr"), str)}


# Permission that this process lacks for reading the stacks of others, and the command that grants it. Sources: Linux'
# kernel/ptrace.c (``__ptrace_may_access``), security/yama/yama_lsm.c, Documentation/admin-guide/LSM/Yama.


CAP_SYS_PTRACE = 19
_SEIZE = 0x4206
_SLEEPS = "print(os.getpid(), flush=True)\ntime.sleep(20)"
_CONTAINER_FILES = ("/.dockerenv", "/run/.containerenv")
_IN_CONTAINER = (
    "start the container with --cap-add SYS_PTRACE (docker, podman), or with "
    'securityContext: {capabilities: {add: ["SYS_PTRACE"]}} (Kubernetes)'
)


def missing(pid: int) -> str:
    """Return the missing permission to trace the process, with the fix; empty if none is missing."""
    owner, able = proc.owner(pid), _has_capability()
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
    """Return whether this process may trace another of the same user that is not its child, tried on one of its own."""
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
    """Return whether this process runs in a container, by the marks of docker, podman and Kubernetes."""
    return any(map(os.path.exists, _CONTAINER_FILES)) or "KUBERNETES_SERVICE_HOST" in os.environ


def _has_capability() -> bool:
    return bool(int(_status("CapEff") or "0", 16) >> CAP_SYS_PTRACE & 1)


def _yama_scope() -> int:
    text = (proc.read_text("sys", "kernel/yama/ptrace_scope", 16) or "").strip()
    return int(text) if text.isdecimal() else 0


def _status(name: str) -> str:
    """Return a field of this process's status; of this thread's, if they differ."""
    for line in (proc.read_text("thread-self", "status") or "").splitlines():
        word, _, rest = line.partition(":")
        if word == name:
            return rest.strip()
    return ""


# Thread in which a worker of Ray Train runs the job's code: not its main one, which only waits for requests.


_WORKER = "ray/_private/workers/default_worker.py"
_RUNNERS = (
    "ray/air/_internal/util.py",
    "ray/train/_internal/session.py",
    "ray/train/v2/_internal/execution/worker_group/thread_runner.py",
)
"""First frame of such a thread: ``RunnerThread.run``, and ``ThreadRunner`` of Ray Train's second version."""
_WAITERS = ("get_next", "_monitor_target")
"""Functions of these files that wait for that thread's results and errors; Python 3.11 and later give their class,
too."""


def training_thread(pid: int, stack: dict[int, tuple[Frame, ...]]) -> int:
    """Return the thread that runs the training function of the process, the main one if there is none."""
    main = stack.get(pid, ())
    if not main or not main[-1].file.endswith(_WORKER) or any(frame.own for frame in main):
        return pid
    runs = {
        tid: [frame.function.rpartition(".")[2] for frame in frames if frame.file.endswith(_RUNNERS)]
        for tid, frames in stack.items()
        if tid != pid
    }
    found = [tid for tid, names in runs.items() if names and not {*names} & {*_WAITERS}]
    return found[0] if len(found) == 1 else pid


def may_have_training_thread(command: tuple[str, ...]) -> bool:
    """Return whether the process is a worker of Ray."""
    return bool(command) and command[0].startswith(TITLE)
