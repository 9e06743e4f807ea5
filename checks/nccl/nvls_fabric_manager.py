"""NVLink SHARP (NVLS) fails.

## What you see
`transport/nvls.cc:... NCCL WARN Cuda failure ...` at the first collective.

## Why it happens
The fabric manager was restarted, or lost the state of the switches. NVML may still report the fabric as complete, so
the check relies on NCCL's own warning when the check's group fails.

## Fix
Reset the GPUs of the node together with `nvidia-smi --gpu-reset`, or reboot it. Until then, disable NVLS:
`export NCCL_NVLS_ENABLE=0` on every node.

## Confirm with
`systemctl status nvidia-fabricmanager` and `nvidia-smi -q | grep -A3 Fabric`.

## When it is harmless
Never.

## See also
gpu/fabric-manager-not-running
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
LOG = (
    Line("transport/nvls", r"transport/nvls\.cc.{0,40}(?:NCCL )?(?:WARN|ERROR).{0,20}(?:Cuda|CUDA) failure"),
    Line("Failed to bind NVLink SHARP"),
)
