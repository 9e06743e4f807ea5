"""The table, further still: programs of which people reported that they hang, or that they are slow.

What is to be said of each was written down before it was first looked at.
"""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from tests.lab.hang.acts import freeze, late, thaw
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, MISSING, STOPPED, USER_CODE


def one_host(what: str, step: str, *blamed: int) -> Job:
    """Three ranks on one host, of which some are in another collective than the others."""
    return Job(
        f"reported: {what}",
        (
            "init",
            Row(f"reported: {what}", step, (Look(0, MISMATCH, blamed, ("host0",)),), before=late(15.0), last=True),
        ),
        hosts=1,
        nproc=3,
    )


def held(what: str, step: str, rank: int) -> Job:
    """Two hosts of one rank, of which one is in code of its own for ever."""
    mine, other = f"host{rank}", f"host{1 - rank}"
    looks = (Look(rank, USER_CODE, (rank,), (mine,)), Look(1 - rank, ask=(mine,)))
    assert other != mine
    return Job(
        f"reported: {what}",
        ("init", Row(f"reported: {what}", step, looks, together=Look(0, USER_CODE, (rank,), (mine,)), last=True)),
        nproc=1,
    )


def slow(what: str, step: str, rank: int, seconds: float = 0.0) -> Job:
    """Two hosts of one rank, of which one takes long, and moves."""
    looks = (Look(rank), Look(1 - rank, ask=(f"host{rank}",)))
    row = Row(f"reported: {what}", step, looks, together=Look(0), before=late(seconds), moves=True)
    return Job(f"reported: {what}", ("init", row), nproc=1)


FURTHER = (
    one_host("a branch that depends on the data", "branch@1", 1),
    one_host("the state of a sharded model", "summon@0", 0),
    one_host("a distributed checkpoint of one rank", "dcp@0", 0),
    one_host("rank 0 forgets the barrier after its download", "download@0", 0),
    one_host("a file that one rank does not see", "flag@2", 2),
    one_host("a group that one rank does not make", "half-made@2", 2),
    one_host("two groups, asynchronously", "async@1", 1),
    Job(
        "reported: the wrong partner",
        ("init", Row("reported: the last stage listens to the wrong one", "partner", (Look(0, MISMATCH, (0, 2), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "reported: a key that nobody sets",
        ("init", Row("reported: a key that nobody sets", "key@1", (Look(1, ask=("host0",)), Look(0, ask=("host1",))), together=Look(0, USER_CODE, (1,), ("host1",)), last=True)),
        nproc=1,
    ),
    held("a pool that was forked with a lock held", "pool@1", 1),
    held("a breakpoint that was left", "pdb@1", 1),
    Job(
        "reported: a server that says nothing",
        ("init", Row("reported: a server that says nothing", "upload@0", (Look(0, waits_for=(0,)), Look(1, ask=("host0",))), together=Look(0, waits_for=(0,)), last=True)),
        nproc=1,
    ),
    held("a pipe that is full", "full@1", 1),
    held("a pool that waits for itself", "futures@1", 1),
    held("an exit handler that waits", "atexit@1", 1),
    held("a program of its own that is stopped", "child-stopped@1", 1),
    Job(
        "reported: a data set's lock file",
        ("init", Row("reported: a data set's lock file", "dataset@1", (Look(1, ask=("rank 1", "lock")), Look(0, ask=("host1",))), together=Look(0, waits_for=(1,)), last=True)),
        nproc=1,
    ),
    Job(
        "a rank in a frozen container",
        ("init", Row("a rank in a frozen container", "train:t", (Look(1, STOPPED, (1,), ("host1",)), Look(0, ask=("host1",))), together=Look(0, STOPPED, (1,), ("host1",)), before=freeze(1), after=thaw())),
        nproc=1,
    ),
    Job(
        "a rank that failed and is not reaped",
        ("raise@1", Row("a rank that failed and is not reaped", "init:tcp://host0:29500", (Look(0, MISSING, (1,)), Look(1, MISSING, (1,), late=True)), held=(0, 2, 3), gone=(1,), last=True)),
        launcher="fork",
    ),
    slow("rank 0 evaluates a model for long", "evaluation@0:k", 0, 65.0),
    slow("rank 1 pauses in each step", "pauses@1:k", 1),
    slow("the data of rank 1 comes slowly", "slow@1:k", 1),
    slow("rank 0 compiles its model", "dynamo@0:k", 0),
)  # fmt: skip
"""All of them."""
