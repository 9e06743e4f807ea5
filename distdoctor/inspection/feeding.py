"""Whether threads of a process beside its main one still get data, however slowly: a download that the rank waits for.

What is received on a socket does not count as read in /proc/PID/io, and where it comes slowly it costs no time.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.inspection import proc_files
from distdoctor.inspection.syscalls import plain_name_of

MOST_THREADS = 256
_NOT_THEIRS = ("pt_", "gloo", "cuda", "nccl", "NCCL", "grpc")
"""How the names of threads begin that torch, CUDA, NCCL and gRPC have for themselves: they wake up without any data."""
_RECEIVES = frozenset(["recvfrom", "recvmsg", "read"])
_POLLS = {"poll": 2, "epoll_wait": 3, "epoll_pwait": 3}
"""Calls that wait for data, and which of their arguments is the limit in milliseconds."""


def switches(pid: int) -> dict[int, int]:
    """How often each of its other threads has given up the processor to wait."""
    found = {}
    for name in proc_files.names(pid, "task")[:MOST_THREADS]:
        text = proc_files.text(f"{pid}/task/{name}", "status", 4096) or ""
        if name == str(pid) or text.startswith(tuple(f"Name:\t{one}" for one in _NOT_THEIRS)):
            continue
        word, _, rest = text.rpartition("\nvoluntary_ctxt_switches:")
        if word:
            found[int(name)] = int(rest.split()[0])
    return found


def fed(pid: int, before: Mapping[int, int], after: Mapping[int, int], seconds: float) -> int:
    """How many of them wait for data, and got some meanwhile: they woke up more often than their time limits tell."""
    count = 0
    for tid, now in after.items():
        woke = now - before.get(tid, now)
        words = (proc_files.text(f"{pid}/task/{tid}", "syscall", 400) or "").split()
        if woke <= 0 or len(words) < 7:
            continue
        name = plain_name_of(words[0])
        if name in _RECEIVES:
            link = proc_files.link(pid, f"fd/{int(words[1], 16)}") or ""
            count += link.startswith("socket:")
        elif name in _POLLS:
            limit = int(words[1 + _POLLS[name]], 16) & 0xFFFFFFFF
            by_itself = 0.0 if limit >= 1 << 31 else 1 + seconds * 1000 / max(1, limit)
            count += woke > by_itself
    return count
