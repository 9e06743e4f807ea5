"""nccl/driver-too-old: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one

CHECK = "nccl/driver-too-old"

OLD = "The NVIDIA driver on your system is too old (found version 11040)"
NONE = {"visible": (), "reason": OLD}

ROWS = [Row("torch says so", lambda: one(driver={"cuda": "11.4"}, torch=NONE), ("host0",))]

LOOK_ALIKES = [
    LookAlike("an older minor version", lambda: one(driver={"cuda": "12.2"})),
    LookAlike("it works all the same", lambda: one(driver={"cuda": "11.8"})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
