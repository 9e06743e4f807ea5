"""gpu/out-of-memory: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Device, DeviceProcess
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import of_amd, one, several

CHECK = "gpu/out-of-memory"

TAKEN = {"memory_used": 70 << 30, "processes": (DeviceProcess(4242, "python", "eve", 70 << 30),)}
DISPLAY = {"memory": 4 << 30, "memory_used": 900 << 20, "memory_drawn": 700 << 20}
OURS = {"memory_used": 9 << 30, "processes": (DeviceProcess(4242, "distdoctor:gpu", "eve", 9 << 30),)}

ROWS = [
    Row("somebody has most of it", lambda: one(devices={2: TAKEN}), ("host0",), severity="warn"),
    Row("somebody not to be seen", lambda: one(devices={2: {"memory_used": 70 << 30}}), ("host0",), severity="warn"),
    Row("AMD's", lambda: of_amd(Device(3, memory=192 << 30, memory_used=90 << 30)), ("host0",), severity="warn"),
    Row(
        "torch found none left",
        lambda: one(devices={2: TAKEN}, gpus={2: {"computed": "", "error": "CUDA error: out of memory"}}),
        ("host0",),
    ),
]

LOOK_ALIKES = [
    LookAlike("a display and the driver's reserve", lambda: one(devices={0: {"memory_used": 600 << 20}})),
    LookAlike("a small card's display", lambda: one(devices={0: DISPLAY})),
    LookAlike("of one that no rank takes", lambda: several({"devices": {5: TAKEN}})),
    LookAlike("what the check itself has", lambda: one(devices={2: OURS})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
