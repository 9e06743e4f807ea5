"""The table: one rank is elsewhere while all others wait for it, and groups in whose order ranks differ.

What is to be said of each was written down before it was first looked at.
"""

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH


def awaited(what: str, step: str, *ranks: int, busy: bool = False) -> Job:
    """Three ranks on one host, of which these move, and the others wait for them."""
    look = Look(0, waits_for=ranks)
    row = Row(f"elsewhere: {what}", step, (look,), before=late(8.0), busy=busy, last=True)
    return Job(f"elsewhere: {what}", ("init", row), hosts=1, nproc=3)


def differs(what: str, step: str, *ranks: int, number: int = 3) -> Job:
    """Ranks on one host, of which these call something else than the others."""
    row = Row(f"elsewhere: {what}", step, (Look(0, MISMATCH, ranks, ("host0",)),), before=late(8.0), last=True)
    return Job(f"elsewhere: {what}", ("init", row), hosts=1, nproc=number)


def healthy(what: str, step: str, seconds: float) -> Job:
    """Three ranks on one host, of which one takes long."""
    row = Row(f"elsewhere: {what}", step, (Look(0),), before=late(seconds), moves=True)
    return Job(f"elsewhere: {what}", ("init", row), hosts=1, nproc=3)


ELSEWHERE = (
    awaited("rank 1 fetches from a server that is slow", "fetch@1", 1),
    awaited("threads of rank 1 fetch from a server that is slow", "fetch-pool@1", 1),
    awaited("rank 2 waits for a lock that another process has", "lock-of-another@2", 2),
    awaited("rank 1 waits for the build of an extension", "build-of-another@1", 1),
    awaited("rank 1 computes in one call of torch", "long-call@1", 1, busy=True),
    awaited("rank 0 computes in one call of numpy", "numpy-call@0", 0, busy=True),
    awaited("rank 1 looks for a file in an event loop", "event-loop@1", 1),
    awaited("rank 2 waits for an event with a time limit", "timed-waits@2", 2),
    awaited("a worker of rank 1's data loader looks for a file", "worker-polls@1", 1),
    awaited("rank 0 looks whether its program has ended", "program-lasts@0", 0),
    awaited("two of three ranks look for a file", "event-loop@0,2", 0, 2),
    # Rank 1 waits for 3, which is ahead in the barrier and waits for 1: nothing tells which of them is right.
    differs("rank 1 reduces where the others shard", "sharded-mesh@1", 1, 3, number=4),
    differs("a thread of rank 1 saves before the others'", "threads-order@1", 1),
    differs("stage 1 leaves out a receive", "stage-without@1", 1),
    differs("rank 1 reduces beside a monitored barrier", "monitored-else@1", 1),
    healthy("rank 1 fetches byte by byte", "byte-by-byte@1:k", 8.0),
    healthy("rank 0 fills a cache for which the others look", "warms-cache@0:k", 8.0),
)
"""All of them."""
