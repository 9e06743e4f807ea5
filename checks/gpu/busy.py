"""A GPU is taken by another process.

What you see
------------
`CUDA error: all CUDA-capable devices are busy or unavailable`.

Why it happens
--------------
Exclusive compute mode, or somebody else's process has the device.

Fix
---
nvidia-smi shows the mode and the processes; nvidia-smi -c DEFAULT, one process per GPU, or another GPU.

When it is harmless
-------------------
Never.

See also
--------
gpu/shared-device, host/leftover-processes
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "yes"
LOG = (
    Line(
        "busy or unavailable",
        r"devices?(?:\(s\))? (?:is/)?are busy or unavailable",
    ),
)
