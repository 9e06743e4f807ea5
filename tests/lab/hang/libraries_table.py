"""The table: mistakes by way of torch's own libraries, file systems that do not answer, and starters beside torchrun.

What is to be said of each was written down before it was first looked at.
"""

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.reported_further import held, one_host, slow
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, STALLED, USER_CODE
from tests.lab.hang.trainers_table import once


def moves(what: str, step: str) -> Job:
    """Two hosts of one rank, that get on together."""
    row = Row(f"library: {what}", step, (Look(0), Look(1)), before=late(3.0), moves=True)
    return Job(f"library: {what}", ("init", row), nproc=1)


def stalled(what: str, step: str) -> Job:
    """Two hosts of one rank, of which rank 1 waits for a file server."""
    looks = (Look(1, STALLED, (1,), ("host1",)), Look(0, ask=("host1",)))
    row = Row(f"kernel: {what}", step, looks, together=Look(0, STALLED, (1,), ("host1",)), before=late(22.0), last=True)
    return Job(f"kernel: {what}", ("init", row), nproc=1)


def forked(what: str, step: str, look: Look, *, busy: bool = False) -> Job:
    """Three ranks that one process forks, so that they share what multiprocessing gave it."""
    row = Row(f"library: {what}", step, (look,), before=late(10.0), busy=busy, last=True)
    return Job(f"library: {what}", ("init:tcp://host0:29500", row), launcher="fork", hosts=1, nproc=3)


LIBRARIES = (
    one_host("rank 0 alone puts a tensor together", "whole@0", 0),
    one_host("rank 1 makes a group of all, locally", "local-group@1", 1),
    one_host("rank 1 skips a step that failed", "caught@1", 1),
    one_host("rank 1 gathers an object less", "gathers@1", 1),
    once("stages that wait for each other", "crossed@1", Look(0, MISMATCH, (1, 2), ("host0",))),
    once("rank 2 does not come to a checkpoint of all", "save-without@2", Look(0, USER_CODE, (2,), ("host0",))),
    once("three kinds of groups, and rank 1 reads", "three-ways@1", Look(0, USER_CODE, (1,), ("host0",)), ranks=4),
    once("a child of rank 1 reduces", "child-reduces@1", Look(0, USER_CODE, (1,), ("host0",))),
    once("rank 1 calls what does not come back", "call@1", Look(0, waits_for=(0,))),
    once("rank 1 does not set its key", "keys@1", Look(0, USER_CODE, (1,), ("host0",))),
    once("an index that rank 0 does not write", "index@0", Look(0, waits_for=(1, 2)), seconds=65.0),
    forked("ranks take turns, and rank 1 works", "turns@1", Look(0, waits_for=(1,)), busy=True),
    forked("rank 1 prepares what the others read", "told@1", Look(0, waits_for=(1,)), busy=True),
    forked("a barrier in a lock of all", "shared-lock@1", Look(0, USER_CODE, (0, 2), ("host0",))),
    held("a thread that ended by an exception", "condition@1", 1),
    held("a pipe of its own", "own-pipe@1", 1),
    held("a file whose server fell silent", "server-silent@1", 1),
    stalled("a file on a dead server", "server-dead@1"),
    stalled("a program on a dead server", "program-on-server@1"),
    stalled("a data loader on a dead server", "loader-on-server@1"),
    Job(
        "mp.spawn",
        ("init", Row("spawn: rank 1 sleeps", "sleep@1:s", (Look(0, USER_CODE, (1,), ("host0",)),))),
        launcher="spawn",
        hosts=1,
    ),
    Job(
        "accelerate",
        (
            "init",
            Row("accelerate: rank 1 sleeps", "sleep@1:s", (Look(0, USER_CODE, (1,), ("host0",)),)),
            Row("accelerate: it trains", "train:t", (Look(0),), moves=True),
        ),
        launcher="accelerate",
        hosts=1,
    ),
    moves("rank 1 has more data, and the others shadow it", "uneven@1:k"),
    moves("a large object is sent again and again", "large@1:k"),
    moves("all save a checkpoint together", "saves@0:k"),
    slow("a file server that takes its time", "slow-server@1:k", 1, 8.0),
    Job(
        "mp.spawn, trains",
        ("init", Row("spawn: it trains", "train:t", (Look(0),), moves=True)),
        launcher="spawn",
        hosts=1,
        nproc=4,
    ),
)
"""All of them."""
