"""gpu/driver-library-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one

CHECK = "gpu/driver-library-mismatch"

DIFFER = {"source": "", "devices": (), "library": "550.90.07", "error": "Driver/library version mismatch"}
BY_COMMAND = {
    **DIFFER,
    "library": None,
    "error": "Failed to initialize NVML: Driver/library version mismatch NVML library version: 570.133",
}
NO_NVML = {"source": "", "devices": (), "library": None, "error": "libnvidia-ml.so.1: cannot open shared object file"}
NONE = {"visible": (), "reason": "No CUDA GPUs are available"}

ROWS = [
    Row("upgraded under the module", lambda: one(driver=DIFFER, torch=NONE), ("host0",)),
    Row("CUDA works", lambda: one(driver=DIFFER), ("host0",), severity="warn"),
    Row("by nvidia-smi, no version known", lambda: one(driver=BY_COMMAND, torch=NONE), ("host0",)),
    Row(
        "by the files alone",
        lambda: one(driver={**DIFFER, "error": "nvidia-ml-py is not installed"}, torch=NONE),
        ("host0",),
    ),
]

LOOK_ALIKES = [
    LookAlike("a library under another name that answers", lambda: one(driver={"library": "535.1.2"})),
    LookAlike("no library", lambda: one(driver=NO_NVML)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
