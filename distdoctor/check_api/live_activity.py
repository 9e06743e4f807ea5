"""What a rank of a job that runs now does where it is, in a clause."""

from __future__ import annotations

from collections.abc import Sequence

from distdoctor.knowledge import job_places
from distdoctor.knowledge.job_movement import MUCH, awaits_thread, gets_about, polls, ran_programs, switches_of
from distdoctor.knowledge.job_stacks import own_frame
from distdoctor.knowledge.job_threads import serves, waiting, who_has
from distdoctor.knowledge.live_awaited import busy_children, called_thread, outside_peer
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_rank import LiveRank
from distdoctor.model.durations import age_said


def where(ranks: Sequence[LiveRank]) -> str:
    """``in all_reduce at job.py:6``: where these ranks wait, those at the most places first."""
    places = [rank.place.said(len(ranks) > 1) for rank in ranks]
    said = sorted(dict.fromkeys(places), key=lambda place: -places.count(place))[:3]
    return " or ".join(place if place.startswith("in ") else f"({place})" for place in said)


def does(job: LiveJob, rank: LiveRank) -> str:
    """``polls at job.py:5 (...)``: what the rank does, where, and why, as far as that is known."""
    verb, reason = _activity(job, rank)
    frame = rank.place.frame
    if rank.waits and (thread := called_thread(rank)) is not None:
        verb, reason, frame = "has not ended what they called", f"in a thread; {waiting(thread)}", own_frame(thread)
    at = f" at {frame.file}:{frame.line}" if frame is not None else ""
    return f"{verb}{at}{f' ({reason})' if reason else ''}"


def _activity(job: LiveJob, rank: LiveRank) -> tuple[str, str]:
    """The verb, and the reason; that is empty where the verb says it all."""
    one, lock = rank.process, rank.lock
    if lock is not None:
        return "waits for a lock", f"{lock.path}{who_has(lock)}"
    if peer := outside_peer(job, rank):
        asks = rank.answerer
        who = f", pid {asks.pid} ({asks.name})" if asks is not None else ""
        still = f"; none for {age_said(rank.still)} so far" if rank.still else ""
        return "waits for an answer", f"from {peer}{who}{still}"
    if rank.asleep is not None and rank.asleep >= 1.0 and not polls(one):
        return "sleeps", f"for {age_said(rank.asleep)} more"
    if polls(one):
        # What it looks for is in its own code; only a lock or a build is seen.
        again = f"it sleeps and checks {switches_of(one):.0f} times a second; only its code shows what for"
        builds = rank.place.kind == job_places.LOCK
        return "polls", "for the lock file of an extension build" if builds else again
    if rank.place.kind in (job_places.SAVING, job_places.COMPILING, job_places.STARTING, job_places.LOADER):
        return f"is {rank.place.kind}", _moves(rank)
    wakes = f"it wakes up {switches_of(one):.1f} times a second; only its code shows why"
    if rank.works:
        idle = one.moved is not None and one.moved.cpu < 0.1 * one.moved.seconds and not _moves(rank)
        return ("polls", wakes) if idle and switches_of(one) > 1 else (_works(rank), _moves(rank) or _stays(rank))
    if rank.gets_data:
        return "waits for data", "a thread or process of it gets some now and then"
    if awaits_thread(one):
        return "waits for a thread of its own", "that runs for a moment now and then"
    if ran_programs(one):
        return "runs one program after the other", ""
    if one.main is not None and serves(one.main):
        return "waits", f"for {one.main.reads}; whether a client is to come is unknown"
    if rank.answerer is not None:
        return "waits for an answer", f"of pid {rank.answerer.pid} ({rank.answerer.name})"
    if switches_of(one) > 1:
        return "polls", wakes
    seconds = rank.still or 0.0
    still = f"has not moved for {age_said(seconds)}" if seconds >= 1.0 else "does not move"
    return "is in its own code", f"{rank.place.why}; {still}" if rank.place.why else still


def _works(rank: LiveRank) -> str:
    moved = rank.process.moved
    return "computes" if moved is not None and moved.cpu > 0.5 * moved.seconds else "works"


def _moves(rank: LiveRank) -> str:
    """What moves in it, or below it."""
    moved = rank.process.moved
    if moved is None:
        return ""
    if moved.cpu < 0.1 * moved.seconds and (children := busy_children(rank)):
        return f"pid {children[0].pid} ({children[0].name}) below it works"
    if moved.read + moved.written > MUCH:
        return f"it reads and writes {(moved.read + moved.written) / 1e6 / max(moved.seconds, 0.1):.1f} MB/s"
    if gets_about(rank.process):
        return f"its stack was seen on {moved.paths} different paths"
    return ""


def _stays(rank: LiveRank) -> str:
    moved = rank.process.moved
    if moved is None or not (moved.stack is False or moved.paths):
        return ""
    return f"for the {moved.seconds:.1f} s of the look it stayed in this function"
