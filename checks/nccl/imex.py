"""NCCL cannot share memory over the NVLink domain.

What you see
------------
`cuMemImportFromShareableHandle` or `cuMemCreate` fails in NCCL on GB200 and the like.

Why it happens
--------------
The container has no IMEX channel device, or the NVLink domain is degraded.

Fix
---
Give the container /dev/nvidia-caps-imex-channels (ComputeDomain in Kubernetes); NCCL_MNNVL_ENABLE=0 does without.

When it is harmless
-------------------
Never.

See also
--------
nccl/cumem-host
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = (
    "the IMEX daemon's state",
    "nvidia-imex-ctl -N",
)
LOG = (
    Line(
        "cuMemImportFromShareableHandle",
        "cuMemImportFromShareableHandle.{0,200}(?:fail|error|not)|(?:fail|error|WARN).{0,200}cuMemImportFromSha"
        "reableHandle",
        shows="end",
    ),
)
