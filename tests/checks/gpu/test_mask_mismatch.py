"""gpu/mask-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several, visible

CHECK = "gpu/mask-mismatch"

TWO = tuple(visible(n) for n in range(2))

ROWS = [
    Row("beyond the last", lambda: several({"torch": {"visible": TWO[:1], "cuda_visible_devices": "0,9"}}), ("host0",)),
    Row("twice the same", lambda: one(torch={"visible": (), "cuda_visible_devices": "0,0"}), ("host0",)),
    Row("hides all", lambda: one(torch={"visible": (), "cuda_visible_devices": ""}), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike("two of eight", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "0,1"}})),
    LookAlike(
        "hidden on purpose, for a job on processors",
        lambda: one("gloo", torch={"visible": (), "cuda_visible_devices": ""}),
    ),
    LookAlike("by UUID", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "GPU-0-0,GPU-0-1"}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
