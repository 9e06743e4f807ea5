"""Whether a process moved between two looks, and how: told from what /proc counted of it."""

from __future__ import annotations

from distdoctor.knowledge.job_stacks import joins, own_frame
from distdoctor.model.facts.job import JobProcess, JobThread

MUCH = 1 << 16
"""Bytes that a process reads and writes between two looks from which it moves."""
_MOVES = 3.0
"""Times a second that a main thread gave up the processor from which it moves: looking at it stops it once or twice."""
PATHS = 3
"""Different paths of its stack from which a process that computes gets about in its code: a loop that goes nowhere has
its own, and perhaps that of what it calls."""


def sleeps(thread: JobThread) -> bool:
    """Whether it sleeps for a time of its own."""
    return thread.call in ("clock_nanosleep", "nanosleep")


def switches_of(one: JobProcess) -> float:
    """How often in a second its main thread gave up the processor."""
    return one.moved.switches / max(one.moved.seconds, 0.1) if one.moved else 0.0


def looks_for_a_file(one: JobProcess) -> bool:
    """Whether it sleeps some ten times a second, as who waits for a lock file does (torch/utils/file_baton.py), and no
    stack tells for what."""
    return one.main is not None and not one.main.frames and sleeps(one.main) and 5 < switches_of(one) < 15


def works(one: JobProcess) -> bool:
    """Whether anything moved in the process between the looks."""
    moved = one.moved
    if moved is None or _only_looks_again(one):
        return False
    if one.main is not None and one.main.state == "R" and not one.main.call:
        return True  # it would run if others left it a processor
    return (
        moved.cpu >= max(0.02, 0.02 * moved.seconds)
        or moved.stack is True
        or moved.read + moved.written > MUCH
        or moved.switches > _MOVES * moved.seconds
    )


def is_stopped(one: JobProcess) -> bool:
    """Whether a signal or a debugger has stopped it. What only watches it (strace, py-spy record) stops it for moments,
    between which it moves."""
    return one.state == "T" or (one.state == "t" and not works(one))


def gets_about(one: JobProcess) -> bool:
    """Whether its stack was seen on so many paths that it is not in one loop alone."""
    return one.moved is not None and (one.moved.paths or 0) >= PATHS


def gets_data(one: JobProcess) -> bool:
    """Whether a thread of it beside its main one waits for data, and got some; or it waits for one that is seen to
    read or write now and then, which what goes by a socket is not."""
    if one.moved is None:
        return False
    return one.moved.fed > 0 or (awaits_thread(one) and one.moved.read + one.moved.written > 0)


def awaits_thread(one: JobProcess) -> bool:
    """Whether its main thread waits for the end of another that ran meanwhile, as one that sends slowly does, or one
    that looks again and again for something: there is no further one in code of the job's own."""
    if one.moved is None or one.main is None or not joins(one.main):
        return False
    others = [thread.tid for thread in one.threads[1:] if own_frame(thread) is not None]
    return len(others) == 1 and others[0] in one.moved.woke


def ran_programs(one: JobProcess) -> bool:
    """Whether programs below it have ended, for which it may have waited: it has begun something else since. Who waits
    for a file or for an answer did not: another thread may run one after the other, to watch the GPUs."""
    if one.moved is None or not one.moved.ended:
        return False
    return one.main is None or not (one.main.reads.startswith("socket:") or awaits_file(one.main))


def awaits_file(thread: JobThread) -> bool:
    """Whether it waits for a file, or for nothing but a signal."""
    return thread.reads.startswith("/") or thread.call in ("openat", "flock", "pause")


def still_for(one: JobProcess) -> float | None:
    """For how many seconds its main thread had not run when it was looked at last; None where that is not known."""
    if one.moved is not None and ran_programs(one):
        return one.moved.seconds
    if one.idle is None:
        return None
    return one.idle + (one.moved.seconds if one.moved and one.moved.switches == 0 else 0.0)


def polls(one: JobProcess) -> bool:
    """Whether it sleeps for a moment again and again, and reads and writes nothing meanwhile: it does no step of its
    work between, for a collective of the smallest size writes to its peers."""
    asleep = one.moved is not None and one.main is not None and sleeps(one.main)
    return asleep and switches_of(one) > 1 and _reads_nothing(one)


def _only_looks_again(one: JobProcess) -> bool:
    """Whether it sleeps, at the same line as before as far as that is known, and reads and writes nothing: it looks
    every now and then whether something has come, which is no progress."""
    moved, main = one.moved, one.main
    if moved is None or main is None or moved.stack or not sleeps(main):
        return False
    return _reads_nothing(one) and moved.cpu < 0.02 * moved.seconds


def _reads_nothing(one: JobProcess) -> bool:
    """Whether it reads and writes nothing, but for who has the lock for which it waits: filelock reads that in the file
    each time it looks (SoftFileLock: a line up to 3.x, with what /proc tells of the owner some 2 KB since 4.0)."""
    moved, main = one.moved, one.main
    if moved is None or moved.written:
        return False
    most = MUCH * max(1.0, moved.seconds) if main is not None and main.lock is not None else 0
    return moved.read <= most
