"""The table: inference engines, whose workers wait for orders in a queue in shared memory, and trainers beside them.

What is to be said of each was written down before it was first looked at.
"""

from __future__ import annotations

from tests.lab.hang.acts import late, start
from tests.lab.hang.row import Job, Launcher, Look, Row
from tests.lab.hang.table_words import MISMATCH, NODES, USER_CODE

INIT = "init:tcp://host0:29500"


def once(launcher: Launcher, what: str, step: str, *looks: Look, number: int = 3, gone: tuple[int, ...] = ()) -> Job:
    """Ranks on one host, looked at once."""
    row = Row(f"engine: {what}", step, looks, before=late(8.0), busy=True, last=True, gone=gone)
    return Job(f"engine: {what}", (INIT, row), launcher=launcher, hosts=1, nproc=number)


ENGINES = (
    Job(
        "engine: a core and three workers",
        (
            INIT,
            Row("engine: it waits for requests", "serve:q1", (Look(0),), before=late(8.0), moves=True),
            Row(
                "engine: worker 1 did not get an order",
                "lost@1:q2",
                (Look(0, USER_CODE, (1,), ("host0",)),),
                before=late(8.0),
                busy=True,
            ),
            Row("engine: it serves", "train:t1", (Look(0),), moves=True),
            Row(
                "engine: the core waits for worker 2, which reads",
                "answer@2:k",
                (Look(0, USER_CODE, (2,), ("host0",)),),
                before=late(8.0),
                busy=True,
            ),
            Row("engine: worker 0 reads, and the others reduce", "pipe@0:p", (Look(0, USER_CODE, (0,), ("host0",)),)),
        ),
        launcher="engine",
        hosts=1,
        nproc=3,
    ),
    Job(
        "engine: a core for each of two workers",
        (
            INIT,
            Row("engine: no core has a request", "serve:q1", (Look(0),), before=late(8.0), moves=True),
            Row(
                "engine: core 1 leaves out the dummy step",
                "dummy@1:q2",
                (Look(0, USER_CODE, (1,), ("host0",)),),
                before=late(8.0),
                busy=True,
            ),
        ),
        launcher="cores",
        hosts=1,
    ),
    Job(
        "engine: a frontend, and cores on two nodes",
        (
            Row(
                "engine: the cores of node 1 did not start",
                "meet:tcp://host0:29550",
                (Look(0, NODES, (1,), late=True),),
                held=(0,),
                after=start(1),
            ),
            INIT,
        ),
        launcher="frontend",
        nproc=1,
        late=(1,),
    ),
    Job(
        "engine: schedulers",
        (
            INIT,
            Row("engine: schedulers without requests", "requests-loop:r", (Look(0),), before=late(4.0), moves=True),
            Row("engine: scheduler 2 compiles", "grammar@2:g", (Look(0, USER_CODE, (2,), ("host0",)),)),
        ),
        launcher="schedulers",
        hosts=1,
        nproc=3,
    ),
    once("engine", "stage 0 has no order", "micro-order@0:q", Look(0, USER_CODE, (0,), ("host0",))),
    once("engine", "worker 2 gathers logits", "logits@2", Look(0, MISMATCH, (2,), ("host0",))),
    once(
        "engine",
        "the core waits for worker 1, which has ended",
        "ended@1",
        Look(0, "process/gone", (1,), ("host0",)),
        gone=(1,),
    ),
    once("engine", "the trainer does not join for its weights", "weights", Look(0, NODES, (), late=True)),
    once("actors", "rank 2 is in the rollout's group", "rollout@2", Look(0, MISMATCH, (2,), ("host0",))),
)  # fmt: skip
"""All of them."""
