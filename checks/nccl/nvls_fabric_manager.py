"""NVLink SHARP fails.

What you see
------------
`transport/nvls.cc:... NCCL WARN Cuda failure ...` at the first collective.

Why it happens
--------------
The fabric manager was restarted, or lost the state of the switches. NVML may go on to call the fabric complete: the
check finds it by what NCCL writes where the check's own group fails.

Fix
---
Reset the GPUs or reboot the node; NCCL_NVLS_ENABLE=0 does without.

When it is harmless
-------------------
Never.

See also
--------
gpu/fabric-manager-not-running
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line("transport/nvls", r"transport/nvls\.cc.{0,40}(?:NCCL )?WARN.{0,20}(?:Cuda|CUDA) failure"),
    Line("Failed to bind NVLink SHARP"),
)
