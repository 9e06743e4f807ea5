"""Whether threads of a process beside its main one still get or send data, however slowly: a download, or an upload,
that the rank waits for.

What is received on a socket does not count as read in /proc/PID/io, and where it comes slowly it costs no time.
"""

from __future__ import annotations

import os
import struct
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from distdoctor.hang import proc
from distdoctor.hang.proc import SLEEP, SocketTables, plain_name_of
from distdoctor.model.facts import Answerer, FileLock, JobProcess, JobThread
from distdoctor.model.text import clean
from distdoctor.probes.host.proc import inodes, waited

MOST_THREADS = 256
_NOT_THEIRS = ("pt_", "gloo", "cuda", "nccl", "NCCL", "grpc")
"""How the names of threads begin that torch, CUDA, NCCL and gRPC have for themselves: they wake up without any data."""
_BY_SOCKET = frozenset(["recvfrom", "recvmsg", "read", "sendto", "sendmsg", "write"])


def context_switches(pid: int) -> dict[int, int]:
    """Return how often each of its other threads has given up the processor to wait."""
    found = {}
    for name in proc.list_names(pid, "task")[:MOST_THREADS]:
        text = proc.read_text(f"{pid}/task/{name}", "status", 4096) or ""
        word, _, rest = text.rpartition("\nvoluntary_ctxt_switches:")
        if name != str(pid) and word:
            found[int(name)] = int(rest.split()[0])
    return found


def woken_threads(pid: int, before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    """Return how often each of them woke up meanwhile that did, but for torch's own and the like."""
    names = proc.thread_names(pid)
    found = {tid: now - before.get(tid, now) for tid, now in after.items()}
    ours = {tid for tid, name in names.items() if name == proc.ALL_ALIKE or not name.startswith(_NOT_THEIRS)}
    return {tid: times for tid, times in found.items() if times > 0 and tid in ours}


def fed_descriptors(pid: int, awake: Mapping[int, int], seconds: float) -> int:
    """Return how many of those that woke up wait for data, or to send some, and do so: they woke more often than
    their time limits tell."""
    count = 0
    for tid, times in awake.items():
        call = proc.blocked_call(pid, tid)
        limit = proc.limit_of(call)
        if call and call[0] in _BY_SOCKET:
            link = proc.read_link(pid, f"fd/{int(call[1], 16)}") or ""
            count += link.startswith("socket:")
        elif limit is not None:
            by_itself = 0.0 if limit < 0 else 1 + seconds * 1000 / max(1, limit)
            # Clients wake a server: a store, or one that tells figures. This program may be one of them.
            count += times > by_itself and not proc.listens(pid, call)
    return count


# Who of this host is to answer a rank, or what runs below one, that waits at a TCP connection: and whether that
# works.
#
# It need not belong to the job: a program that generates, or scores, what the job learns from; a manager of
# multiprocessing. One on another host is not seen.


WATCHED = 0.3
"""Seconds for which they are watched."""
_SEARCHED = 2.0
"""Seconds for which it is looked for who has the other ends."""
_ASK = ("rank", "loader", "child")


def with_answerers(processes: Sequence[JobProcess], tables: SocketTables) -> list[JobProcess]:
    """The processes, with who is to answer their main threads."""
    wanted = {}
    for one in processes:
        if one.role in _ASK and (inode := _other_end(one, tables)):
            wanted[one.pid] = inode
    if not wanted:
        return [*processes]
    holders = _holders_of_inodes(set(wanted.values()))
    used = _used(holders.values())
    found = {
        pid: Answerer(min(holders[inode]), _name(min(holders[inode])), used[holders[inode]])
        for pid, inode in wanted.items()
        if inode in holders
    }
    return [_with(one, found[one.pid]) if one.pid in found else one for one in processes]


def _with(one: JobProcess, asks: Answerer) -> JobProcess:
    return replace(one, threads=(replace(one.threads[0], asks=asks), *one.threads[1:]))


def _name(pid: int) -> str:
    return clean((proc.read_text(pid, "comm", 64) or "").strip())


def _other_end(one: JobProcess, tables: SocketTables) -> str:
    """The inode of the other end of the connection at which its main thread waits; empty where it is in torch, which
    asks its store and its peers, or waits at none."""
    main = one.main
    if main is None or not main.call or (main.frames and main.frames[0].file.startswith("torch/")):
        return ""
    call = proc.blocked_call(one.pid, one.main.tid if one.main else one.pid)
    mine = proc.connection_of_call(one.pid, call, tables) if call else None
    return tables.other_end(one.pid, mine) if mine is not None else ""


def _holders_of_inodes(wanted: Collection[str]) -> dict[str, frozenset[int]]:
    """Inode -> the processes that have it open."""
    found: dict[str, set[int]] = {}
    end = time.monotonic() + _SEARCHED
    for pid in proc.all_pids():
        for inode in inodes(pid) & set(wanted):
            found.setdefault(inode, set()).add(pid)
        if time.monotonic() > end:
            break
    return {inode: frozenset(pids) for inode, pids in found.items()}


def _used(groups: Collection[frozenset[int]]) -> dict[frozenset[int], float]:
    """Return how much of a processor each of these groups of processes used, or waited for, with all that runs below
    them."""
    began, before = time.monotonic(), {pids: _spent(pids) for pids in groups}
    time.sleep(WATCHED)
    seconds = time.monotonic() - began
    return {pids: round(max(0.0, _spent(pids) - spent) / seconds, 2) for pids, spent in before.items()}


def _spent(pids: Collection[int]) -> float:
    """Seconds for which these, and what runs below them, had a processor or would have used one."""
    seen = {pid: one for pid in proc.all_pids() if (one := proc.stat(pid)) is not None}
    those = set(pids)
    while True:
        below = {pid for pid, one in seen.items() if one.parent in those} - those
        if not below:
            break
        those |= below
    return sum(seen[pid].cpu + waited(pid) for pid in those if pid in seen)


# Who of a job has the other end of a pipe at which a rank waits: proc_pid_fd(5), proc_pid_fdinfo(5).


_OTHER = {"read": (os.O_WRONLY, os.O_RDWR), "readv": (os.O_WRONLY, os.O_RDWR),
          "write": (os.O_RDONLY, os.O_RDWR), "writev": (os.O_RDONLY, os.O_RDWR)}  # fmt: skip
"""How its other end is open, by the call in which a process waits."""


def with_pipe_peers(processes: Sequence[JobProcess]) -> list[JobProcess]:
    """The processes; of a rank whose main thread waits at a pipe also who else of these has its other end open."""
    return [_with_other_ends(one, processes) if one.role == "rank" else one for one in processes]


def _with_other_ends(one: JobProcess, processes: Iterable[JobProcess]) -> JobProcess:
    main = one.main
    path = _pipe(main) if main is not None else ""
    if main is None or not path:
        return one
    modes = _OTHER[main.call]
    others = (other.pid for other in processes if other is not one)
    found = tuple(pid for pid in others if any(mode in modes for mode in _modes(pid, path)))
    return replace(one, threads=(replace(main, other_ends=found), *one.threads[1:]))


def _pipe(main: JobThread) -> str:
    """The pipe, or the named one, at which it waits, as the links in /proc/PID/fd say; empty where it waits at none. No
    file is touched, which may be on a server that does not answer: the kernel tells what is a pipe by where it waits.
    """
    if main.call not in _OTHER:
        return ""
    if main.reads.startswith("pipe:"):
        return main.reads.partition(" ")[0]
    return main.reads if "pipe" in main.waits_in else ""


def _modes(pid: int, path: str) -> Iterator[int]:
    """Return how a process has it open: O_RDONLY, O_WRONLY or O_RDWR, of each descriptor."""
    for number in proc.list_names(pid, "fd"):
        if proc.read_link(pid, f"fd/{number}") == path:
            for line in (proc.read_text(pid, f"fdinfo/{number}", 4096) or "").splitlines():
                word, _, value = line.partition(":")
                if word == "flags":
                    yield int(value, 8) & os.O_ACCMODE


# Which lock on a file a process waits for, and who has it: /proc/locks (proc_locks(5)) tells of the kernel's own.


_CALLS = ("flock", "fcntl")
"""Those in which a process waits for a lock; its stack tells of one who asks again and again."""


def with_lock(one: JobProcess) -> JobProcess:
    """The process with the lock for which its main thread waits."""
    main = one.main
    found = _waited_for(one.pid, main) if main is not None else None
    return one if main is None or found is None else replace(one, threads=(replace(main, lock=found), *one.threads[1:]))


def _waited_for(pid: int, main: JobThread) -> FileLock | None:
    """The lock. No file is touched that may be on a server which does not answer: who is inside of flock(2) is told by
    the kernel's list, and who sleeps between two tries has just opened the file."""
    if main.call in _CALLS and main.reads.startswith("/"):
        return FileLock(main.reads, _holders_of_locks(lambda waiting, lock: waiting and lock.pid == pid))
    given = next((frame.given for frame in main.frames if frame.given is not None and frame.given.lock), None)
    if given is None or main.call != SLEEP:
        return None
    path = os.path.join(proc.read_link(pid, "cwd") or "/", given.lock)
    try:
        found = os.stat(f"/proc/{pid}/root{path}")
    except OSError:
        return None if given.soft else FileLock(path)
    if given.soft:
        return FileLock(path, age=round(max(0.0, time.time() - found.st_mtime), 1))
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return FileLock(path, _holders_of_locks(lambda waiting, lock: not waiting and lock.place == place))


@dataclass(frozen=True)
class _Lock:
    number: str
    pid: int
    place: str


def _holders_of_locks(meant: Callable[[bool, _Lock], bool]) -> dict[int, str]:
    """The processes that have a lock, with their names, of those that are meant, or that keep these waiting."""
    held, numbers = [], set()
    for line in (proc.read_text("self", "../locks") or "").splitlines():
        words = line.split()
        waiting = words[1:2] == ["->"]
        words = [words[0], *words[2:]] if waiting else words
        if len(words) < 6 or not words[4].isdecimal():
            continue
        lock = _Lock(words[0], int(words[4]), words[5])
        held += [] if waiting else [lock]
        numbers |= {lock.number} if meant(waiting, lock) else set()
    pids = dict.fromkeys(lock.pid for lock in held if lock.number in numbers and lock.pid > 0)
    return {pid: (proc.read_text(pid, "comm", 64) or "").strip() for pid in pids}


# How long a thread that sleeps will sleep yet: the kernel shows where in its memory the time is that it gave.


_ABSOLUTE = 1
"""TIMER_ABSTIME (clock_nanosleep(2)): the time is that at which it wakes up."""
_CLOCKS = {0: time.CLOCK_REALTIME, 1: time.CLOCK_MONOTONIC}
_PLACES = {"clock_nanosleep": 2, "nanosleep": 0, "select": 4, "pselect6": 4}
"""Which of the arguments is the address of the time, a struct timespec; a struct timeval for select."""
EVENTS = frozenset(["epoll_wait", "epoll_pwait"])
"""An event loop sleeps there until its next task is due, or something comes; the limit is in milliseconds."""
_LONGEST = 4e9
"""Seconds from which it is no time at all; those since 1970 are less."""


def sleep_left(pid: int, words: Sequence[str], idle: float | None) -> float | None:
    """Seconds that a process sleeps yet; None where that cannot be known. ``words``: of /proc/PID/syscall; ``idle``:
    since when it sleeps, which matters only where it gave a length of time."""
    name = plain_name_of(words[0]) if words else ""
    if name in EVENTS and len(words) > 4:
        limit = int(words[4], 16) & 0xFFFFFFFF
        return round(max(0.0, limit / 1000 - idle), 1) if idle is not None and limit < 1 << 31 else None
    if name not in _PLACES or len(words) < 7:
        return None
    told = _time_at(pid, int(words[1 + _PLACES[name]], 16), 1e6 if name == "select" else 1e9)
    if told is None:
        return None
    if name == "clock_nanosleep" and int(words[2], 16) & _ABSOLUTE:
        clock = _CLOCKS.get(int(words[1], 16))
        # In a time namespace of its own (time_namespaces(7)) its clock is another one.
        if clock is None or proc.read_link(pid, "ns/time") != proc.read_link("self", "ns/time"):
            return None
        return round(max(0.0, told - time.clock_gettime(clock)), 1)
    return round(max(0.0, told - idle), 1) if idle is not None else None


def _time_at(pid: int, address: int, parts: float) -> float | None:
    """The seconds that lie at an address of a process, as two numbers; read without stopping it, with the rights that
    tracing it needs (proc_pid_mem(5))."""
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            seconds, fraction = struct.unpack("=qq", os.pread(file, 16, address))
        finally:
            os.close(file)
    except (OSError, OverflowError, struct.error):
        return None
    told = seconds + fraction / parts
    return told if 0 <= fraction < parts and 0 <= told < _LONGEST else None
