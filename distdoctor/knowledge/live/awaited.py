"""For which ranks of a job the others wait: of its process groups, the members that wait against those elsewhere.

A collective ends once every member of its group has called it (ProcessGroupGloo.cpp; NCCL's kernels). So whoever is
elsewhere while the others wait is waited for, whatever keeps it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distdoctor.knowledge.live import places, stacks, waits
from distdoctor.knowledge.live.job import LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import in_flight, is_futex, is_stopped, polls, sleeps
from distdoctor.model.facts import JobProcess, JobThread

_ELSEWHERE = (*places.OWN, places.LOCK)
_CLIENTS = ("http/client.py", "urllib3/", "/ssl.py", "aiohttp/", "httpx/", "httpcore/", "requests/", "botocore/")
"""Parts of the names of files in which a thread waits for the answer of a server."""
OPENING = ("wait_for_partner", "fifo_open")
"""Where the kernel waits for the other end of a named pipe to be opened (fs/pipe.c)."""


@dataclass(frozen=True)
class Awaited:
    """Ranks that are elsewhere, and those that wait meanwhile."""

    ranks: tuple[LiveRank, ...]
    waiting: tuple[LiveRank, ...]
    sure: bool
    """Whether those wait in calls that end only when these have made them, too. Else they look for a file, or wait for
    a lock, which these may let them have."""


def awaited(job: LiveJob) -> Awaited | None:
    """For whom the ranks that are here wait; None where they wait for nobody who is here, or that is not certain."""
    apart = [rank for rank in job.ranks if not rank.waits]
    if job.ranks and not apart:
        callers = [rank for rank in job.ranks if rank.place.kind == places.REMOTE]
        called = [rank for rank in job.ranks if rank not in callers and called_thread(rank) is not None]
        return Awaited(tuple(called), tuple(callers), sure=True) if callers and called else None
    if not apart or any(rank.place.kind not in _ELSEWHERE or may_wait_too(rank) for rank in apart):
        return None
    if all(rank.may_spin for rank in apart):
        return None  # so looks a wait for a GPU, and for a collective of NCCL
    starts = job.young and all(rank.place.kind == places.STARTING for rank in apart)
    if starts or (_left_locks(job) and any(rank.place.kind == places.LOCK for rank in apart)):
        return None
    hosts_store = any(rank.number in (0, None) for rank in apart)
    inside = [rank for rank in job.waiting if rank.place.kind != places.MASTER or hosts_store]
    asks = [rank for rank in apart if awaits_rank(rank) or pipe_peers(rank) or polls(rank.process)]
    if not inside:
        others = [rank for rank in apart if rank not in asks]
        if asks and others and all(rank.works for rank in others):
            return Awaited(tuple(others), tuple(asks), sure=False)
        # The others are on nodes that are not seen here, and may wait.
        asking = [rank for rank in apart if len(job.numbers) < (job.world or 0) and outside_peer(job, rank)]
        return Awaited(tuple(asking), (), sure=False) if asking and not any(rank.works for rank in apart) else None
    reached = waits.waited_for(job, inside)
    named = [rank for rank in apart if reached is None or rank in reached]
    first = [rank for rank in named if not (awaits_rank(rank) or pipe_peers(rank))]
    return Awaited(tuple(first or named), tuple(inside), sure=True) if named else None


def may_wait_too(rank: LiveRank) -> bool:
    """Return whether it may itself wait in a collective, or for a message, of which no stack tells."""
    main = rank.process.main
    if main is None or main.frames or rank.place.sure:
        return main is None
    return in_flight(rank.process) or not sleeps(main)


def called_thread(rank: LiveRank) -> JobThread | None:
    """The thread of it that does what another rank has called, and has not ended."""
    threads = rank.process.threads[1:]
    return next((one for one in threads if stacks.was_called(one) and not stacks.calls_on(one)), None)


def _left_locks(job: LiveJob) -> bool:
    """Return whether builds of extensions have left their locks, and nobody here builds."""
    locks = [lock for _, facts in job.facts for lock in facts.locks]
    return bool(locks) and not any(lock.building for lock in locks)


# -- whom a rank waits for that is elsewhere ------------------------------------------------------------------------


def awaits_rank(rank: LiveRank) -> bool:
    """Return whether another rank may be the one for which it waits: in a lock, an event or a queue of
    multiprocessing, and so in any lock where no stack tells which; at a socket of which no other side is seen, as
    one of Unix; or until somebody opens the other end of a named pipe."""
    main = rank.process.main
    if main is None:
        return False
    lock = not main.frames and main.call == "futex"
    unseen = lock or main.waits_in in OPENING or (main.reads.startswith("socket:") and " to " not in main.reads)
    return rank.place.kind == places.CODE and (unseen or stacks.awaits_process(main))


def pipe_peers(rank: LiveRank) -> tuple[int, ...]:
    """The processes that have the other end of the pipe at which it waits."""
    main = rank.process.main
    return main.other_ends if main is not None else ()


def outside_peer(job: LiveJob, rank: LiveRank) -> str:
    """``10.0.0.9:80``: whom a rank waits for by TCP, itself or in what it waits for, that may answer yet: no other rank
    of this job that has one thread alone, nor a process below it that is stopped; empty where it waits for none."""
    others = [one for one in job.ranks if one is not rank and not _has_threads(one)]
    ours = {one.process.pid for one in others if one.node is rank.node}
    ours |= {one.pid for one in rank.below if is_stopped(one)}
    ports = {(s.local, s.local_port) for one in others for s in one.process.sockets or ()}
    for thread in _waiting_threads(rank):
        peer = thread.reads.partition(" to ")[2] if thread.reads.startswith("socket:") else ""
        host, _, port = peer.rpartition(":")
        if not port.isdecimal() or int(port) in job.master_ports or (host.strip("[]"), int(port)) in ports:
            continue
        if thread.asks is None or thread.asks.pid not in ours:
            return peer
    return ""


def _has_threads(rank: LiveRank) -> bool:
    """Return whether threads of it beside the main one are in Python, and may serve others while that waits."""
    return any(thread.frames for thread in rank.process.threads[1:])


def _waiting_threads(rank: LiveRank) -> Sequence[JobThread]:
    """Its main thread; or the threads for which that waits at a lock of Python's own, as those of a pool; and the main
    threads of processes for which it waits."""
    main = rank.process.main
    found = [one.main for one in (rank.process, *rank.watched) if one.main is not None]
    if main is not None and main.frames and is_futex(main):
        found += [thread for thread in rank.process.threads[1:] if _asks_a_server(thread)]
    return found


def _asks_a_server(thread: JobThread) -> bool:
    return any(frame.own or any(part in frame.file for part in _CLIENTS) for frame in thread.frames)


def busy_children(rank: LiveRank) -> list[JobProcess]:
    """The processes below it that moved meanwhile, those that used the processor most first."""
    moved = [one for one in rank.below if one.moved is not None and one.moved.cpu > 0.02]
    return sorted(moved, key=lambda one: -(one.moved.cpu if one.moved else 0.0))
