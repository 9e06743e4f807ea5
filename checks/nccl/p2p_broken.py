"""P2P between GPUs is advertised and does not work.

What you see
------------
Log ends after `via P2P/...` with all GPUs at 100 %; `peer access is not supported between these two devices`.

Why it happens
--------------
IOMMU or ACS redirects what GPUs write to each other, or a driver advertises P2P for cards without it.

Fix
---
NCCL_P2P_DISABLE=1 proves it; then iommu=pt or off, ACS off, another driver.

When it is harmless
-------------------
Never.

See also
--------
nccl/gpudirect
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "whether it works without",
    "NCCL_P2P_DISABLE=1",
)
LOG = (
    Line(
        "peer access is not supported between these two devices",
        unless="transport/shm",
    ),
    Line(
        "mapping of buffer object failed",
        shows="end",
    ),
    Line(
        ("IpcGetMemHandle failed", "IpcOpenMemHandle failed", "failed to peer with device"),
        r"NCCL WARN",
        shows="symptom",
        why="a GPU's memory that cannot be handed to another process, for whatever reason, shows the same",
    ),
)
