"""The table: what goes wrong every day.

What is to be said of each was written down before it was first looked at.
"""

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.reported_further import held, one_host, slow
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, MISSING, USER_CODE
from tests.lab.hang.trainers_table import once

IDS = "environment/rendezvous-id-mismatch"


def moves(what: str, step: str, seconds: float) -> Job:
    """Two hosts of one rank, that get on together."""
    row = Row(f"everyday: {what}", step, (Look(0), Look(1)), before=late(seconds), moves=True)
    return Job(f"everyday: {what}", ("init", row), nproc=1)


def may_be_idle(what: str, step: str, look: Look) -> Job:
    """Three ranks on one host, of which it cannot be known whether anything is to come for them."""
    row = Row(f"everyday: {what}", step, (look,), before=late(8.0), last=True)
    return Job(f"everyday: {what}", ("init", row), hosts=1, nproc=3)


EVERYDAY = (
    Job(
        "a rank that is done early",
        (
            "leave@1",
            Row(
                "everyday: rank 1 is done before it meets the others",
                "init",
                (Look(0, MISSING, (1,), ("host0",)),),
                held=(0, 2),
                gone=(1,),
                last=True,
            ),
        ),
        launcher="static",
        hosts=1,
        nproc=3,
    ),
    Job(
        "different ids",
        (
            Row(
                "everyday: each node has an id of its own",
                "init",
                tuple(Look(host, IDS, (), ("host0", "host1")) for host in (0, 1)),
                held=(),
                before=late(14.0),
                last=True,
            ),
        ),
        launcher="c10d",
        nproc=1,
        ids=("monday", "tuesday"),
    ),
    one_host("rank 1 exchanges where the others gather", "exchange@1", 1),
    one_host("all ranks send first", "send-first", 0, 1, 2),
    one_host("rank 0 sends to another than the one that waits", "other-receiver", 0, 2),
    one_host("rank 2 receives and does not send", "half-exchange@2", 0),
    once("workers of the data loaders meet", "worker-meets", Look(0, USER_CODE, (0, 1, 2), ("host0",)), seconds=8.0),
    once("rank 0 of two gathers figures", "evaluate@0", Look(0, MISMATCH, (0, 1), ("host0",)), ranks=2),
    once("a rank has ended, and left a fork", "leaves-fork@1", Look(0, "process/gone", (1,), ("host0",)), gone=(1,)),
    once("ranks of hundreds of threads", "among-threads@2", Look(0, USER_CODE, (2,), ("host0",)), seconds=8.0),
    Job(
        "everyday: rank 0 serves, and nobody asks",
        (
            "init",
            Row(
                "everyday: rank 0 serves, and nobody asks",
                "serves@0",
                (Look(0, waits_for=(0,)),),
                before=late(8.0),
                last=True,
            ),
        ),
        hosts=1,
        nproc=3,
    ),
    may_be_idle("all wait for orders", "orders@0", Look(0, ask=("workers that wait for requests",))),
    may_be_idle("a store of its own waits for one more", "own-store@0", Look(0, "store/nodes-missing", (), late=True)),
    held("a breakpoint of one rank", "dist-breakpoint@1", 1),
    held("a worker of the data loader sleeps", "sleepy-worker@1", 1),
    held("a lock that is taken twice", "lock-twice@1", 1),
    Job(
        "a barrier inside of a lock",
        (
            "init",
            Row(
                "everyday: rank 0 has a lock and waits in a barrier",
                "lock-over-barrier@0",
                (Look(0, USER_CODE, (0, 1, 2), ("host0",)),),
                before=late(10.0),
                last=True,
            ),
        ),
        hosts=1,
        nproc=3,
    ),
    held("an import that waits for itself", "import@1", 1),
    held("a script has ended, and its output is open", "output-held@1", 1),
    held("the process that fills a queue has ended", "producer-gone@1", 1),
    moves("all ranks compute for seconds", "long-steps@0:k", 6.0),
    slow("rank 0 saves while the others wait in a barrier", "saves-in-barrier@0:k", 0, 12.0),
    slow("rank 0 runs one program after the other", "programs@0:k", 0, 8.0),
    moves("all ranks compile", "dynamo@0,1:k", 6.0),
)
"""All of them."""
