"""gpu/fabric-manager-not-running: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one

CHECK = "gpu/fabric-manager-not-running"

WAITING = {n: {"fabric": "in-progress"} for n in range(8)}
WITHOUT_UUID = {n: {"uuid": ""} for n in range(8)}
REFUSED = "RuntimeError: CUDA error 802: system not yet initialized"

ROWS = [
    Row("not started", lambda: one(devices=WAITING, torch={"visible": (), "reason": REFUSED}), ("host0",)),
    Row(
        "as torch alone says it",
        lambda: one(driver={"devices": ()}, torch={"visible": (), "reason": REFUSED}),
        ("host0",),
    ),
]

LOOK_ALIKES = [
    LookAlike("no NVSwitch", lambda: one(devices={n: {"fabric": ""} for n in range(8)})),
    LookAlike("a state that does no harm", lambda: one(devices=WAITING)),
    LookAlike("the same, of a torch that gives no UUID", lambda: one(devices=WAITING, gpus=WITHOUT_UUID)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
