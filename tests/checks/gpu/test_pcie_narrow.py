"""gpu/pcie-narrow: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one, several
from tests.facts_builder import judged

CHECK = "gpu/pcie-narrow"

NARROW = {"devices": {0: {"pcie_width": 8}}}
OLDER_SLOTS = {"devices": {n: {"pcie_generation": 3, "pcie_generation_max": 3} for n in range(8)}}
RESTS = {"pcie_generation": 1, "performance": 8}

ROWS = [
    Row("one of eight", lambda: one(devices={5: {"pcie_width": 4}}), ("host0",), severity="warn"),
    Row("on the second node", lambda: several({}, NARROW), ("host1",), severity="warn", together=True),
    Row("an older generation", lambda: one(devices={5: {"pcie_generation": 1}}), ("host0",), severity="warn"),
    Row(
        "held to an older generation by its slot",
        lambda: one(devices={5: {**RESTS, "pcie_generation_max": 3}}),
        ("host0",),
        severity="warn",
    ),
    Row("a whole node's slots", lambda: several({}, OLDER_SLOTS, {}), ("host1",), severity="warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("all alike", lambda: one(devices={n: {"pcie_width": 8} for n in range(8)})),
    LookAlike("half of them", lambda: one(devices={n: {"pcie_width": 8} for n in range(4)})),
    LookAlike("all rest", lambda: one(devices=dict.fromkeys(range(8), RESTS))),
    LookAlike("one rests", lambda: one(devices={5: RESTS})),
    LookAlike("all but one rest", lambda: one(devices={n: RESTS for n in range(8) if n != 5})),
    LookAlike("half are in an older machine", lambda: one(devices={n: {"pcie_generation": 4} for n in range(4)})),
    LookAlike("facts of before", lambda: one(devices={5: {"pcie_generation": 1, "performance": None}})),
    LookAlike("not known", lambda: one(devices={5: {"pcie_width": None}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_whole_node_is_told_once() -> None:
    (told,) = judged(*several({}, OLDER_SLOTS, {})).roots
    assert "GPU 0 (" in told.summary and "6 more" in told.summary and len(told.evidence) == 8
