"""The table: inference engines, whose workers wait for orders in a queue in shared memory."""

from __future__ import annotations

from tests.lab.hang.acts import late
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import USER_CODE

ENGINES = (
    Job(
        "engine: a core and three workers",
        (
            "init:tcp://host0:29500",
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
)
"""All of them."""
