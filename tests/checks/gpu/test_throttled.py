"""gpu/throttled: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import Device
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import of_amd, one, several
from tests.facts_builder import judged

CHECK = "gpu/throttled"

CAPPED = {"devices": {n: {"power_limit": 500} for n in range(8)}}

ROWS = [
    Row("too hot", lambda: one(devices={5: {"slowed": ("hardware", "hardware-thermal")}}), ("host0",), severity="warn"),
    Row("AMD's", lambda: of_amd(Device(3, slowed=("hardware-thermal",))), ("host0",), severity="warn"),
    Row("a whole node told so", lambda: several({}, CAPPED, {}), ("host1",), severity="warn", together=True),
    Row("told to take less", lambda: one(devices={5: {"power_limit": 350}}), ("host0",), severity="warn"),
]

LOOK_ALIKES = [
    LookAlike("a healthy node of eight", one),
    LookAlike("told so on all", lambda: one(devices={n: {"power_limit": 350} for n in range(8)})),
    LookAlike("by a little", lambda: one(devices={5: {"power_limit": 690}})),
    LookAlike("one that no rank takes", lambda: several({}, {"devices": {5: {"slowed": ("hardware-thermal",)}}})),
    LookAlike("of two nodes neither", lambda: several({}, {})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_whole_node_is_told_once_and_one_command_mends_it() -> None:
    (told,) = judged(*several({}, CAPPED, {})).roots
    assert told.fixes[0].commands == ("nvidia-smi -i 0,1,2,3,4,5,6,7 -pl 700",)
