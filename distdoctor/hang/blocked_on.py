"""Counterpart that a blocked process waits for: data on other threads, a TCP or pipe peer, a file lock, the end of a
sleep.

Threads beside the main one may get or send data slowly, such as a download that the rank waits for: received bytes do
not count as read in /proc/PID/io, and slow ones cost no processor time.
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
"""Beginnings of the names of torch's, CUDA's, NCCL's and gRPC's own threads, which wake up without any data."""
_BY_SOCKET = frozenset(["recvfrom", "recvmsg", "read", "sendto", "sendmsg", "write"])


def context_switches(pid: int) -> dict[int, int]:
    """Return the number of voluntary context switches of each thread but the main one."""
    found = {}
    for name in proc.list_names(pid, "task")[:MOST_THREADS]:
        text = proc.read_text(f"{pid}/task/{name}", "status", 4096) or ""
        word, _, rest = text.rpartition("\nvoluntary_ctxt_switches:")
        if name != str(pid) and word:
            found[int(name)] = int(rest.split()[0])
    return found


def woken_threads(pid: int, before: Mapping[int, int], after: Mapping[int, int]) -> dict[int, int]:
    """Return the number of wake-ups of each thread between the two counts, without torch's own and the like."""
    names = proc.thread_names(pid)
    found = {tid: now - before.get(tid, now) for tid, now in after.items()}
    ours = {tid for tid, name in names.items() if name == proc.UNNAMED_THREAD or not name.startswith(_NOT_THEIRS)}
    return {tid: times for tid, times in found.items() if times > 0 and tid in ours}


def fed_descriptors(pid: int, awake: Mapping[int, int], seconds: float) -> int:
    """Return how many of the woken threads wait to receive or send data and do so: they woke more often than their
    timeouts explain."""
    count = 0
    for tid, times in awake.items():
        call = proc.blocked_call(pid, tid)
        limit = proc.limit_of(call)
        if call and call[0] in _BY_SOCKET:
            link = proc.read_link(pid, f"fd/{int(call[1], 16)}") or ""
            count += link.startswith("socket:")
        elif limit is not None:
            by_itself = 0.0 if limit < 0 else 1 + seconds * 1000 / max(1, limit)
            # Clients wake a server, such as a store or an exporter of metrics. This program may be one of them.
            count += times > by_itself and not proc.listens(pid, call)
    return count


# Local process at the other end of a TCP connection that a rank, or a process below it, waits at, and whether it works.
# It need not belong to the job: a server that generates or scores data, a manager of multiprocessing. A process on
# another host is not seen.


WATCHED = 0.3
"""Seconds for which these processes are watched."""
_SEARCHED = 2.0
"""Most seconds for finding the other ends of connections."""
_ASK = ("rank", "loader", "child")


def with_answerers(processes: Sequence[JobProcess], tables: SocketTables) -> list[JobProcess]:
    """Return the processes, each with the local process that its main thread waits for."""
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
    """Return the inode of the other end of the connection that the main thread waits at.

    Empty if it waits at none, or in torch, which waits for its store and its peers.
    """
    main = one.main
    if main is None or not main.call or (main.frames and main.frames[0].file.startswith("torch/")):
        return ""
    call = proc.blocked_call(one.pid, one.main.tid if one.main else one.pid)
    mine = proc.connection_of_call(one.pid, call, tables) if call else None
    return tables.other_end(one.pid, mine) if mine is not None else ""


def _holders_of_inodes(wanted: Collection[str]) -> dict[str, frozenset[int]]:
    """Return the processes that have each inode open."""
    found: dict[str, set[int]] = {}
    end = time.monotonic() + _SEARCHED
    for pid in proc.all_pids():
        for inode in set(inodes(pid)) & set(wanted):
            found.setdefault(inode, set()).add(pid)
        if time.monotonic() > end:
            break
    return {inode: frozenset(pids) for inode, pids in found.items()}


def _used(groups: Collection[frozenset[int]]) -> dict[frozenset[int], float]:
    """Return the processor time that each group of processes used or waited for, including everything below them."""
    began, before = time.monotonic(), {pids: _spent(pids) for pids in groups}
    time.sleep(WATCHED)
    seconds = time.monotonic() - began
    return {pids: round(max(0.0, _spent(pids) - spent) / seconds, 2) for pids, spent in before.items()}


def _spent(pids: Collection[int]) -> float:
    """Return the seconds of processor time that these processes and those below them used or waited for."""
    stats = {pid: one for pid in proc.all_pids() if (one := proc.stat(pid)) is not None}
    wanted = set(pids)
    while True:
        below = {pid for pid, one in stats.items() if one.parent in wanted} - wanted
        if not below:
            break
        wanted |= below
    return sum(stats[pid].cpu + waited(pid) for pid in wanted if pid in stats)


# Process of the job at the other end of a pipe that a rank waits at: proc_pid_fd(5), proc_pid_fdinfo(5).


_OTHER = {"read": (os.O_WRONLY, os.O_RDWR), "readv": (os.O_WRONLY, os.O_RDWR),
          "write": (os.O_RDONLY, os.O_RDWR), "writev": (os.O_RDONLY, os.O_RDWR)}  # fmt: skip
"""Open modes of the other end, by the call in which a process waits."""


def with_pipe_peers(processes: Sequence[JobProcess]) -> list[JobProcess]:
    """Return the processes; a rank whose main thread waits at a pipe gets the processes that have the other end
    open."""
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
    """Return the pipe, or named pipe, that the thread waits at, as a link in /proc/PID/fd; empty if none.

    No file is touched, as it may be on a server that does not answer: the kernel's wait channel identifies a pipe.
    """
    if main.call not in _OTHER:
        return ""
    if main.reads.startswith("pipe:"):
        return main.reads.partition(" ")[0]
    return main.reads if "pipe" in main.waits_in else ""


def _modes(pid: int, path: str) -> Iterator[int]:
    """Yield the mode of each descriptor that the process has for it: O_RDONLY, O_WRONLY or O_RDWR."""
    for number in proc.list_names(pid, "fd"):
        if proc.read_link(pid, f"fd/{number}") == path:
            for line in (proc.read_text(pid, f"fdinfo/{number}", 4096) or "").splitlines():
                word, _, value = line.partition(":")
                if word == "flags":
                    yield int(value, 8) & os.O_ACCMODE


# File lock that a process waits for, and its holder, from the kernel's list /proc/locks (proc_locks(5)).


_CALLS = ("flock", "fcntl")
"""Calls that wait for a lock; a process that polls for one is recognized by its stack."""


def with_lock(one: JobProcess) -> JobProcess:
    """Return the process with the lock for which its main thread waits."""
    main = one.main
    found = _waited_for(one.pid, main) if main is not None else None
    return one if main is None or found is None else replace(one, threads=(replace(main, lock=found), *one.threads[1:]))


def _waited_for(pid: int, main: JobThread) -> FileLock | None:
    """Return the lock that the thread waits for.

    No file is touched that may be on a server which does not answer: a process inside flock(2) is on the kernel's list,
    and one that sleeps between two tries has just opened the file.
    """
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
    """Return the holders, with their names, of these locks, or of those that keep these waiting."""
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


# Rest of a thread's sleep: the kernel shows where in its memory the timeout is.


_ABSOLUTE = 1
"""TIMER_ABSTIME (clock_nanosleep(2)): the time is that of the wake-up."""
_CLOCKS = {0: time.CLOCK_REALTIME, 1: time.CLOCK_MONOTONIC}
_PLACES = {"clock_nanosleep": 2, "nanosleep": 0, "select": 4, "pselect6": 4}
"""Index of the argument with the address of the time, a struct timespec; a struct timeval for select."""
EVENTS = frozenset(["epoll_wait", "epoll_pwait"])
"""Calls in which an event loop sleeps until its next task is due, or something comes; the limit is in milliseconds."""
_LONGEST = 4e9
"""Seconds from which a value is no time; those since 1970 are less."""


def sleep_left(pid: int, words: Sequence[str], idle: float | None) -> float | None:
    """Return the seconds that a process has left to sleep, None if unknown.

    ``words``: of /proc/PID/syscall; ``idle``: the seconds since it sleeps, used only if it gave a length of time.
    """
    name = plain_name_of(words[0]) if words else ""
    if name in EVENTS and len(words) > 4:
        limit = int(words[4], 16) & 0xFFFFFFFF
        return round(max(0.0, limit / 1000 - idle), 1) if idle is not None and limit < 1 << 31 else None
    if name not in _PLACES or len(words) < 7:
        return None
    until = _time_at(pid, int(words[1 + _PLACES[name]], 16), 1e6 if name == "select" else 1e9)
    if until is None:
        return None
    if name == "clock_nanosleep" and int(words[2], 16) & _ABSOLUTE:
        clock = _CLOCKS.get(int(words[1], 16))
        # In a time namespace of its own (time_namespaces(7)) the process has another clock.
        if clock is None or proc.read_link(pid, "ns/time") != proc.read_link("self", "ns/time"):
            return None
        return round(max(0.0, until - time.clock_gettime(clock)), 1)
    return round(max(0.0, until - idle), 1) if idle is not None else None


def _time_at(pid: int, address: int, parts: float) -> float | None:
    """Return the seconds at an address of a process, stored as two numbers.

    It is read without stopping the process, with the rights for tracing it (proc_pid_mem(5)).
    """
    try:
        file = os.open(f"/proc/{pid}/mem", os.O_RDONLY)
        try:
            seconds, fraction = struct.unpack("=qq", os.pread(file, 16, address))
        finally:
            os.close(file)
    except (OSError, OverflowError, struct.error):
        return None
    time = seconds + fraction / parts
    return time if 0 <= fraction < parts and 0 <= time < _LONGEST else None
