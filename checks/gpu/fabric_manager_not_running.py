"""The NVSwitch fabric is not up.

What you see
------------
`Error 802: system not yet initialized`, NCCL tests: `Test CUDA failure ... 'system not yet initialized'`.

Why it happens
--------------
A machine with NVSwitch needs nvidia-fabricmanager of the driver's own version; it is not running, or of another
version.

Fix
---
systemctl enable --now nvidia-fabricmanager, in the version of the driver; then nvidia-smi -q | grep -A2 Fabric.

When it is harmless
-------------------
Never.

See also
--------
nccl/nvls-fabric-manager
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line(
        "system not yet initialized",
    ),
)
