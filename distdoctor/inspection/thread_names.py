"""What the threads of a process are called; those of torch and gloo also where they have no names of their own.

gloo's threads and those that run its collectives got names after torch 2.9, the stores' with 2.6, and 2.4 called all
threads of a process alike (seen in runs of 2.2.2, 2.4.1, 2.6.0, 2.9.1 and 2.13). Where they have none they are told by
what they do: gloo's waits in epoll for at most 64 events and 10 ms (gloo/transport/tcp/loop.cc: ``Loop::run``);
``ProcessGroupGloo`` begins two that run its collectives, once its group is whole; and a store serves its port in a
thread that waits for ever in poll, or in epoll for 1024 events (libuv's ``uv__io_poll``).
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Iterator, Sequence

from distdoctor.inspection import proc_files
from distdoctor.inspection.sockets import SocketTables
from distdoctor.inspection.syscalls import plain_name_of
from distdoctor.model.facts import Socket

LOOP, RUNS, STORE = "gloo_tcp_loop", "pt_gloo_runloop", "pt_tcpstore"
ALL_ALIKE = "pt_main_thread"
"""What torch 2.4 called every thread of a rank."""
_NAMED = ("gloo_", "pt_gloo")
_RUN_LOOPS = 2
_LOOP_WAITS, _UV_EVENTS, _NO_LIMIT = (64, 10), 1024, 0xFFFFFFFF
_MOST_THREADS, _MOST_FILES = 512, 4096
_TIMES, _APART = 8, 0.005
_RECEIVES = frozenset(["read", "readv", "recvfrom", "recvmsg"])


def names_of(pid: int) -> dict[int, str]:
    """The name of each thread, by its number."""
    tids = sorted(int(name) for name in proc_files.names(pid, "task"))
    names = {tid: (proc_files.text(pid, f"task/{tid}/comm", 64) or "").strip() for tid in tids}
    alike = [tid for tid in tids if tid != pid and names[tid] == names.get(pid)][:_MOST_THREADS]
    if not alike or any(name.startswith(_NAMED) for name in names.values()):
        return names
    calls = _calls(pid, alike)
    loops = [tid for tid, call in calls.items() if _is_loop(call)]
    names |= dict.fromkeys(_running(alike, loops), RUNS) | dict.fromkeys(loops, LOOP)
    stores = (tid for tid in calls if _may_serve(calls[tid]) and listens(pid, calls[tid]))
    return names | dict.fromkeys(stores, STORE)


def call_of(pid: int, tid: int) -> tuple[str, ...]:
    """The name of the system call in which a thread is, and its arguments in hex; empty where that is not known."""
    words = (proc_files.text(pid, f"task/{tid}/syscall", 400) or "").split()
    return (plain_name_of(words[0]), *words[1:]) if len(words) > 6 and words[0].lstrip("-").isdecimal() else ()


def limit_of(call: Sequence[str]) -> int | None:
    """For how many milliseconds a call waits at most that waits for several files; -1: for ever; None: it does not."""
    place = {"poll": 3, "epoll_wait": 4, "epoll_pwait": 4}.get(call[0]) if call else None
    if place is None:
        return None
    limit = int(call[place], 16) & _NO_LIMIT
    return -1 if limit >= 1 << 31 else limit


def listens(pid: int, call: Sequence[str]) -> bool:
    """Whether a port is among what a thread waits for in such a call: it is a server's, and clients wake it."""
    return port_served(pid, call, SocketTables()) is not None


def port_served(pid: int, call: Sequence[str], tables: SocketTables) -> int | None:
    """The TCP port at which a thread waits in such a call for somebody to connect; None where it waits at none."""
    for number in _waited_for(pid, call):
        link = proc_files.link(pid, f"fd/{number}") or ""
        found = tables.at(pid, link[len("socket:[") : -1]) if link.startswith("socket:[") else None
        if found is not None and found.state == "LISTEN":
            return found.local_port
    return None


def asked_by(pid: int, call: Sequence[str], tables: SocketTables) -> Socket | None:
    """The only TCP connection at which a thread waits in such a call, or by which it receives; None of any other."""
    numbers = (
        [int(call[1], 16)] if call[0] in _RECEIVES else _waited_for(pid, call) if limit_of(call) is not None else ()
    )
    links = [proc_files.link(pid, f"fd/{number}") or "" for number in numbers]
    found = tables.at(pid, links[0][len("socket:[") : -1]) if len(links) == 1 else None
    return found if found is not None and found.remote_port else None


def _calls(pid: int, tids: Sequence[int]) -> dict[int, tuple[str, ...]]:
    """The calls in which these threads are. One that runs just now is in none: gloo's does every 10 ms, longer where
    it has to wait for a processor; so it is looked for some times."""
    found: dict[int, tuple[str, ...]] = {}
    for _ in range(_TIMES):
        found |= {tid: call for tid in tids if tid not in found and (call := call_of(pid, tid))}
        if len(found) == len(tids) or any(map(_is_loop, found.values())):
            break
        time.sleep(_APART)
    return found


def _is_loop(call: Sequence[str]) -> bool:
    return call[0].startswith("epoll_") and (int(call[3], 16), limit_of(call)) == _LOOP_WAITS


def _may_serve(call: Sequence[str]) -> bool:
    return limit_of(call) == -1 and (call[0] == "poll" or int(call[3], 16) == _UV_EVENTS)


def _running(alike: Sequence[int], loops: Sequence[int]) -> Iterator[int]:
    """The threads that run gloo's collectives: of each of its loops the next that were begun after it."""
    for loop in loops:
        after = [tid for tid in alike if tid > loop][:_RUN_LOOPS]
        if len(after) == _RUN_LOOPS and not any(one in loops for one in after):
            yield from after


def _waited_for(pid: int, call: Sequence[str]) -> list[int]:
    """The files for which it waits: the kernel tells those of epoll, those of poll lie in the memory of the process."""
    if call[0] == "accept":
        return [int(call[1], 16)]
    if call[0] not in ("poll", "ppoll"):
        lines = (proc_files.text(pid, f"fdinfo/{int(call[1], 16)}", 1 << 18) or "").splitlines()
        return [int(line.split()[1]) for line in lines if line.startswith("tfd:")][:_MOST_FILES]
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            count = min(int(call[2], 16), _MOST_FILES)
            return [entry[0] for entry in struct.iter_unpack("=ihh", os.pread(file, 8 * count, int(call[1], 16)))]
        finally:
            os.close(file)
    except (OSError, OverflowError, struct.error):
        return []
