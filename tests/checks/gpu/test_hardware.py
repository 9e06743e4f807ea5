"""gpu/hardware: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several

CHECK = "gpu/hardware"

REMAP = {3: {"remap_pending": True}}
LOST = {3: {"error": "GPU is lost", "uuid": "", "name": ""}}

ROWS = [
    Row("computes wrong results", lambda: one(gpus={3: {"computed": "wrong"}}), ("host0",)),
    Row("no row left", lambda: one(devices={3: {"remap_failed": True}}), ("host0",)),
    Row("a reset is due", lambda: one(devices=REMAP), ("host0",), severity="warn"),
    Row("pages to retire", lambda: one(devices={3: {"retired_pending": True}}), ("host0",), severity="warn"),
    Row("ECC errors", lambda: one(devices={3: {"ecc_uncorrected": 2}}), ("host0",), severity="warn"),
    Row("the driver wants a reset", lambda: one(devices={3: {"recovery": "reset"}}), ("host0",), severity="warn"),
    Row("lost, and not used", lambda: several({"devices": LOST}), ("host0",), severity="warn"),
    Row("by auto", lambda: one("auto", devices=REMAP), ("host0",), severity="warn"),
]

LOOK_ALIKES = [
    LookAlike("a healthy node of eight", one),
    LookAlike("a job without GPUs on it", lambda: one("gloo", devices=REMAP)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
