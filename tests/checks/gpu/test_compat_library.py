"""gpu/compat-library: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import one

CHECK = "gpu/compat-library"

COMPAT = "/usr/local/cuda-12.4/compat/libcuda.so.550.54.15"
REFUSED = (
    "Unexpected error from cudaGetDeviceCount(). Error 804: forward compatibility was attempted on non supported HW"
)

ROWS = [Row("on a GeForce", lambda: one(torch={"visible": (), "reason": REFUSED, "library": COMPAT}), ("host0",))]

LOOK_ALIKES = [LookAlike("where it goes with the driver", lambda: one(torch={"library": COMPAT}))]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
