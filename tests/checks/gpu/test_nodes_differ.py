"""gpu/nodes-differ: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone, root
from tests.clusters.gpu_nodes import MEMORY, several, several_of_amd, visible

CHECK = "gpu/nodes-differ"

OLDER = {"driver": {"module": "535.1.2"}}
OTHER_MODEL = {"devices": {n: {"name": "NVIDIA A100", "memory": MEMORY // 2, "capability": "8.0"} for n in range(8)}}

ROWS = [
    Row("seven of eight", lambda: several({}, {}, {"count": 7}), ("host2",), severity="warn", together=True),
    Row("another driver", lambda: several({}, {}, OLDER), ("host2",), severity="warn", together=True),
    Row("another model", lambda: several({}, {}, OTHER_MODEL), ("host2",), severity="warn", together=True),
    Row("MIG", lambda: several({}, {"devices": {0: {"mig": True}}}, {}), ("host1",), severity="warn", together=True),
    Row(
        "AMD's, another driver",
        lambda: several_of_amd({}, {}, {"module": "6.7"}),
        ("host2",),
        severity="warn",
        together=True,
    ),
    Row("AMD's, seven of eight", lambda: several_of_amd({}, {"devices": 7}, {}), ("host1",), "warn", together=True),
    Row(
        "ECC, of two",
        lambda: several({}, {"devices": {0: {"ecc": False}}}),
        ("host0", "host1"),
        "warn",
        "one-of",
        together=True,
    ),
]

NEWER = {"cuda": "13.0", "driver": {"module": "580.65.06", "cuda": "13.0"}}
UNTOLD = {"devices": {n: {"memory": None, "memory_used": None} for n in range(8)}}
"""As of a GPU that shares the processor's memory, or one that nvidia-smi has no word of."""
A_PART = {"torch": {"visible": tuple(visible(n, 1, uuid="") for n in range(4))}}
"""Of a torch before 2.4: which of the devices these are is not known."""
TOO_OLD = {
    "cuda": "13.0",
    "driver": {"module": "570.86.10", "cuda": "12.8"},
    "torch": {"visible": (), "reason": "The NVIDIA driver on your system is too old (found version 12080)"},
}
LOOK_ALIKES = [
    LookAlike("a part that is not told apart", lambda: several({}, A_PART, {})),
    LookAlike("memory that one node is not told of", lambda: several({}, UNTOLD)),
    LookAlike("a mode that is not told of one device", lambda: several({}, {"devices": {3: {"ecc": None}}})),
    LookAlike("AMD's, all alike", lambda: several_of_amd({}, {}, {})),
    LookAlike(
        "AMD's, one without the command", lambda: several_of_amd({}, {}, {"source": "", "module": "", "name": ""})
    ),
    LookAlike("all alike", lambda: several({}, {}, {})),
    LookAlike("not asked on one", lambda: several({}, {}, {"driver": {"source": "", "devices": ()}})),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_another_driver_follows_from_one_that_is_too_old_for_torch() -> None:
    assert root(*several(TOO_OLD, NEWER, NEWER)).check == "nccl/driver-too-old"
