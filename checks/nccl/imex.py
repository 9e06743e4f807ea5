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
    Line(
        "cuMemCreate",  # of memory for other nodes, without an IMEX channel in /dev: NVIDIA's IMEX guide, IMEX Channels
        "cuMemCreate.{0,200}operation not permitted|operation not permitted.{0,200}cuMemCreate",
        shows="end",
    ),
    Line(
        "operation not permitted",
        r"[Cc]uda failure.{0,10}'operation not permitted'",
        shows="symptom",
        why="memory that another user's process has shared shows the same",
    ),
    Line(
        "is available but not working on this system",
        r"MNNVL .{0,40}is available but not working on this system",
    ),
)
