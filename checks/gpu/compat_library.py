"""A compatibility libcuda that this GPU or driver cannot use.

What you see
------------
`Error 804: forward compatibility was attempted on non supported HW`, `Error 803: system has unsupported display driver
/ cuda driver combination`.

Why it happens
--------------
The image's /usr/local/cuda/compat/libcuda.so.1 is loaded on a GeForce, or beside a driver it does not go with.

Fix
---
Take /usr/local/cuda/compat out of LD_LIBRARY_PATH, and update the host's driver.

When it is harmless
-------------------
Never.

See also
--------
nccl/driver-too-old
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "forward compatibility was attempted on non supported HW",
    ),
    Line(
        "unsupported display driver / cuda driver combination",
    ),
)
