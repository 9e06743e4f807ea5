"""Whether threads of a process beside its main one still get or send data, however slowly: a download, or an upload,
that the rank waits for.

What is received on a socket does not count as read in /proc/PID/io, and where it comes slowly it costs no time.
"""

from __future__ import annotations

from collections.abc import Mapping

from distdoctor.inspection import proc_files, thread_names

MOST_THREADS = 256
_NOT_THEIRS = ("pt_", "gloo", "cuda", "nccl", "NCCL", "grpc")
"""How the names of threads begin that torch, CUDA, NCCL and gRPC have for themselves: they wake up without any data."""
_BY_SOCKET = frozenset(["recvfrom", "recvmsg", "read", "sendto", "sendmsg", "write"])


def switches(pid: int) -> dict[int, int]:
    """How often each of its other threads has given up the processor to wait."""
    found = {}
    for name in proc_files.names(pid, "task")[:MOST_THREADS]:
        text = proc_files.text(f"{pid}/task/{name}", "status", 4096) or ""
        word, _, rest = text.rpartition("\nvoluntary_ctxt_switches:")
        if name != str(pid) and word:
            found[int(name)] = int(rest.split()[0])
    return found


def woke(pid: int, before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    """How often each of them woke up meanwhile that did, but for torch's own and the like."""
    names = thread_names.names_of(pid)
    found = {tid: now - before.get(tid, now) for tid, now in after.items()}
    ours = {tid for tid, name in names.items() if name == thread_names.ALL_ALIKE or not name.startswith(_NOT_THEIRS)}
    return {tid: times for tid, times in found.items() if times > 0 and tid in ours}


def fed(pid: int, awake: Mapping[int, int], seconds: float) -> int:
    """How many of those that woke up wait for data, or to send some, and do so: they woke more often than their time
    limits tell."""
    count = 0
    for tid, times in awake.items():
        call = thread_names.call_of(pid, tid)
        limit = thread_names.limit_of(call)
        if call and call[0] in _BY_SOCKET:
            link = proc_files.link(pid, f"fd/{int(call[1], 16)}") or ""
            count += link.startswith("socket:")
        elif limit is not None:
            by_itself = 0.0 if limit < 0 else 1 + seconds * 1000 / max(1, limit)
            # Clients wake a server: a store, or one that tells figures. This program may be one of them.
            count += times > by_itself and not thread_names.listens(pid, call)
    return count
