"""Ranks that the others wait for: in each process group, the members outside the call in which the others wait.

A collective ends once every member of its group has called it (ProcessGroupGloo.cpp; NCCL's kernels). So a member
elsewhere is waited for, whatever keeps it there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from distdoctor.knowledge.live import places, stacks, waits
from distdoctor.knowledge.live.job import PAUSE, LiveJob, LiveRank
from distdoctor.knowledge.live.stacks import in_flight, is_futex, is_stopped, polls, sleeps
from distdoctor.model.facts import JobProcess, JobThread

_OUTSIDE = (*places.OWN, places.LOCK)
"""Places outside the calls in which ranks wait for each other."""
_CLIENTS = ("http/client.py", "urllib3/", "/ssl.py", "aiohttp/", "httpx/", "httpcore/", "requests/", "botocore/")
"""Parts of file names in which a thread waits for a server's answer."""
OPENING = ("wait_for_partner", "fifo_open")
"""Wait channels of opening a named pipe, until the other end is opened (fs/pipe.c)."""


@dataclass(frozen=True)
class Awaited:
    """Ranks outside a call, and those that wait in it meanwhile."""

    ranks: tuple[LiveRank, ...]
    waiting: tuple[LiveRank, ...]
    sure: bool
    """True if the wait ends only when these ranks make the same call. Else the others wait for a file or a lock that
    these may hold."""


def awaited(job: LiveJob) -> Awaited | None:
    """Return the ranks that the ranks here wait for, None if there are none here, or if it is uncertain."""
    outside = [rank for rank in job.ranks if not rank.waits]
    if not outside:
        return _in_remote_calls(job)
    if _may_be_harmless(job, outside):
        return None
    hosts_store = any(rank.number in (0, None) for rank in outside)
    inside = [rank for rank in job.waiting if rank.place.kind != places.MASTER or hosts_store]
    return _in_collective(job, outside, inside) if inside else _in_own_code(job, outside)


def _may_be_harmless(job: LiveJob, outside: Sequence[LiveRank]) -> bool:
    """Return whether ranks outside a call may wait themselves, have no request, or continue in a moment."""
    kinds = {rank.place.kind for rank in outside}
    return (
        not kinds.issubset(_OUTSIDE)
        or any(map(may_wait_too, outside))
        or any(rank.place.kind == places.QUEUE and rank.works for rank in outside)  # looks for a request between steps
        or all(rank.may_spin for rank in outside)  # a wait for a GPU, and for a collective of NCCL, looks the same
        or (job.young and kinds == {places.STARTING})
        or (places.LOCK in kinds and _left_locks(job))
    )


def _in_remote_calls(job: LiveJob) -> Awaited | None:
    """Return the ranks that work on calls from other ranks, which wait for the results."""
    callers = tuple(rank for rank in job.ranks if rank.place.kind == places.REMOTE)
    called = tuple(rank for rank in job.ranks if rank not in callers and called_thread(rank) is not None)
    return Awaited(called, callers, sure=True) if callers and called else None


def _in_collective(job: LiveJob, outside: Sequence[LiveRank], inside: Sequence[LiveRank]) -> Awaited | None:
    """Return the ranks that are missing from the calls of those ``inside``, first those that wait for no rank."""
    reached = waits.waited_for(job, inside)
    missing = [rank for rank in outside if reached is None or rank in reached]
    first = [rank for rank in missing if not _asks_a_process(rank)]
    return Awaited(tuple(first or missing), tuple(inside), sure=True) if missing else None


def _in_own_code(job: LiveJob, outside: Sequence[LiveRank]) -> Awaited | None:
    """Return the ranks for which others outside any collective may wait: on this node, else on nodes without facts."""
    asking = [rank for rank in outside if _asks_a_process(rank) or polls(rank.process)]
    others = [rank for rank in outside if rank not in asking]
    if asking and others and all(rank.works for rank in others):
        return Awaited(tuple(others), tuple(asking), sure=False)
    if len(job.numbers) >= (job.world or 0) or any(rank.works for rank in outside):
        return None
    asking = [rank for rank in outside if outside_peer(job, rank)]
    return Awaited(tuple(asking), (), sure=False) if asking else None


def may_wait_too(rank: LiveRank) -> bool:
    """Return whether the rank may itself wait in a collective, or for a message, which no stack shows."""
    main = rank.process.main
    if main is None or main.frames or rank.place.sure:
        return main is None
    return in_flight(rank.process) or not sleeps(main)


def called_thread(rank: LiveRank) -> JobThread | None:
    """Return its thread with an unfinished call from another rank."""
    threads = rank.process.threads[1:]
    return next(
        (one for one in threads if stacks.serves_remote_call(one) and not stacks.awaits_further_rank(one)), None
    )


def _left_locks(job: LiveJob) -> bool:
    """Return whether builds of extensions left their locks, and no process here builds."""
    locks = [lock for _, facts in job.facts for lock in facts.locks]
    return bool(locks) and not any(lock.building for lock in locks)


# -- peers of waits outside collectives ----------------------------------------------------------------------------


def awaits_rank(rank: LiveRank) -> bool:
    """Return whether it may wait for another rank.

    That is in a lock, event or queue of multiprocessing (so in any lock without a stack), at a socket without a visible
    other side, such as one of Unix, or while it opens a named pipe.
    """
    main = rank.process.main
    if main is None:
        return False
    lock = not main.frames and main.call == "futex"
    unseen = lock or main.waits_in in OPENING or (main.reads.startswith("socket:") and " to " not in main.reads)
    return rank.place.kind == places.CODE and (unseen or stacks.awaits_process(main))


def may_be_taken(job: LiveJob, rank: LiveRank) -> bool:
    """Return whether a process that works, or that is unknown here, may take the message that a rank waits to send."""
    takers = job.takers_of(rank)
    ends = [peer for peer in rank.process.peers or () if peer.sockets]
    ports = {s.local_port for one in job.ranks for s in one.process.sockets or ()} | job.master_ports
    by_tcp = any(s.state == "ESTABLISHED" and s.remote_port not in ports for s in rank.process.sockets or ())
    return rank.process.peers is None or by_tcp or len(ends) > len(takers) or any(one.works for one in takers)


def just_asked(rank: LiveRank) -> bool:
    """Return whether it waits for so short a time that an answer may be on its way."""
    idle = rank.process.idle
    return idle is not None and idle < PAUSE and not polls(rank.process)


def _asks_a_process(rank: LiveRank) -> bool:
    return awaits_rank(rank) or bool(pipe_peers(rank))


def pipe_peers(rank: LiveRank) -> tuple[int, ...]:
    """Return the processes with the other end of the pipe that it waits at."""
    main = rank.process.main
    return main.other_ends if main is not None else ()


def outside_peer(job: LiveJob, rank: LiveRank) -> str:
    """Return the peer that a rank, or a process it waits for, waits for by TCP and that may still answer:
    ``10.0.0.9:80``.

    Not another rank of this job with a single thread, nor a stopped process below it. Empty if there is none.
    """
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
    """Return whether threads beside the main one are in Python, and may serve others while that waits."""
    return any(thread.frames for thread in rank.process.threads[1:])


def _waiting_threads(rank: LiveRank) -> Sequence[JobThread]:
    """Return its main thread, or the threads that it waits for at a lock of Python's, such as those of a pool; and the
    main threads of processes that it waits for."""
    main = rank.process.main
    found = [one.main for one in (rank.process, *rank.watched) if one.main is not None]
    if main is not None and main.frames and is_futex(main):
        found += [thread for thread in rank.process.threads[1:] if _asks_a_server(thread)]
    return found


def _asks_a_server(thread: JobThread) -> bool:
    return any(frame.own or any(part in frame.file for part in _CLIENTS) for frame in thread.frames)


def busy_children(rank: LiveRank) -> list[JobProcess]:
    """Return the processes below it that were active, the busiest first."""
    moved = [one for one in rank.below if one.moved is not None and one.moved.cpu > 0.02]
    return sorted(moved, key=lambda one: -(one.moved.cpu if one.moved else 0.0))
