"""gpu/throttled: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Device
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import of_amd, one, several

CHECK = "gpu/throttled"

ROWS = [
    Row("too hot", lambda: one(devices={5: {"slowed": ("hardware", "hardware-thermal")}}), ("host0",), severity="warn"),
    Row("AMD's", lambda: of_amd(Device(3, slowed=("hardware-thermal",))), ("host0",), severity="warn"),
    Row("told to take less", lambda: one(devices={5: {"power_limit": 350}}), ("host0",), severity="warn"),
]

LOOK_ALIKES = [
    LookAlike("a healthy node of eight", one),
    LookAlike("told so on all", lambda: one(devices={n: {"power_limit": 350} for n in range(8)})),
    LookAlike("by a little", lambda: one(devices={5: {"power_limit": 690}})),
    LookAlike("of two nodes neither", lambda: several({}, {})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
