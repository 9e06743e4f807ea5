"""nccl/init-failed: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, LookAlike, Row, found, left_alone
from tests.facts_builder import failing, healthy, with_gpus, with_plan

CHECK = "nccl/init-failed"


ROWS = [
    Row(
        "nccl, planned",
        lambda: tuple(failing(with_gpus(one, 2), "nccl", "NCCL error") for one in healthy(2)),
        BOTH,
        together=True,
    ),
    Row(
        "nccl, not planned",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "nccl", "NCCL error") for one in healthy(2)
        ),
        BOTH,
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike(
        "gloo failed",
        lambda: tuple(
            failing(with_plan(with_gpus(one, 2), backend="gloo"), "gloo", "some error") for one in healthy(2)
        ),
        "gloo/init-failed",
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
