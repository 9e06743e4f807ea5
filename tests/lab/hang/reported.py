"""The table, further: hangs as people reported them, each put down from its report before anything was looked at."""

# ruff: noqa: E501 - a row is a line, however long

from __future__ import annotations

from tests.lab.hang.acts import begin, late
from tests.lab.hang.row import Job, Look, Row
from tests.lab.hang.table_words import MISMATCH, MISSING, NODES, REFUSED, TWICE, USER_CODE

REPORTED = (
    Job(
        "EleutherAI/sparsify#5",
        ("init", Row("reported: rank 0 alone saves, with a barrier", "save@0", (Look(0, MISMATCH, (0,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "huggingface/accelerate#157",
        ("init", Row("reported: rank 0 alone gathers figures", "evaluate@0", (Look(0, MISMATCH, (0,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "rwth-i6/returnn#1484",
        ("init", Row("reported: rank 1 failed, and waits for its helper", "fail@1", (Look(1, USER_CODE, (1,), ("host1",)), Look(0, ask=("host1",))), last=True)),
        nproc=1,
    ),
    Job(
        "ultralytics/ultralytics#26085",
        ("init", Row("reported: a data worker was forked with a lock held", "forked@1", (Look(0, USER_CODE, (1,), ("host0",)),), last=True)),
        hosts=1,
    ),
    Job(
        "pytorch/pytorch#39570",
        ("init", Row("reported: rank 1 joins a worker that does not end", "join@1", (Look(1, USER_CODE, (1,), ("host1",)), Look(0, ask=("host1",))), last=True)),
        nproc=1,
    ),
    Job(
        "pytorch/pytorch#106365",
        (Row("reported: rank 0 meets elsewhere", "store:host0", (Look(1, REFUSED, (), ("host0",), late=True), Look(0, NODES, (1,), late=True)), together=Look(0, REFUSED, (), ("host0",)), last=True),),
        nproc=1,
    ),
    Job(
        "pytorch/pytorch#30375",
        (Row("reported: ranks 0, 1 and 1, 2", "init", (Look(0, TWICE, (1,), ("host0", "host1")), Look(1, MISSING, (3,), late=True)), before=begin(1), held=(0, 1), last=True),),
        late=(1,),
        numbers=(0, 1, 1, 2),
    ),
    Job(
        "pytorch/pytorch#33148",
        ("init", Row("reported: rank 0 has a batch more, wrapped", "batches@0", (Look(0, MISMATCH, (0,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "pytorch/pytorch#54059",
        ("init", Row("reported: rank 0 alone evaluates the wrapped model", "wrapped@0", (Look(0, MISMATCH, (0,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "a message of nobody",
        ("init", Row("rank 0 receives what nobody sends", "nobody@0", (Look(0, MISMATCH, (0, 1), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "KempnerInstitute/KempnerForge#104",
        ("init", Row("reported: a thread of rank 1 saves meanwhile", "saver@1", (Look(0, MISMATCH, (1,), ("host0",)),), last=True)),
        hosts=1,
        nproc=3,
    ),
    Job(
        "srama2512/PONI#18",
        ("init", Row("reported: rank 1 looks for a path without end", "path@1", (Look(0, waits_for=(1,)),), before=late(65.0), busy=True, last=True)),
        hosts=1,
    ),
    Job(
        "Lightning-AI/pytorch-lightning#6106",
        ("init", Row("reported: rank 1 ends a queue that nobody empties", "queue@1", (Look(1, USER_CODE, (1,), ("host1",)), Look(0, ask=("host1",))), last=True)),
        nproc=1,
    ),
)  # fmt: skip
"""All of them; the names are those of the repositories and issues."""
