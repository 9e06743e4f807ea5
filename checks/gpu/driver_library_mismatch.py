"""The driver's library and kernel module differ.

What you see
------------
`Failed to initialize NVML: Driver/library version mismatch`.

Why it happens
--------------
The driver package was upgraded under a running kernel module.

Fix
---
Reboot, or unload and load the nvidia modules; hold the package.

When it is harmless
-------------------
Never.

See also
--------
nccl/driver-too-old, gpu/none-visible
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line(
        "Driver/library version mismatch",
    ),
    Line(
        "API mismatch: the client has the version",
        shows="cause",
    ),
)
