"""The process group has no backend for that tensor's device.

What you see
------------
`No backend type associated with device type cpu`, `Tensors must be CUDA and dense`.

Why it happens
--------------
A CPU tensor (offload, object collectives) in a group that has NCCL only, or the other way round.

Fix
---
init_process_group('cpu:gloo,cuda:nccl'), or move the tensor.

When it is harmless
-------------------
Never.

See also
--------
environment/backend-not-built
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line("No backend type associated with device type"),
    Line("Tensors must be CUDA and dense"),
    Line("requires backend supporting cpu tensors"),
    Line(("NCCL only supports CUDA tensors", "NCCL requires CUDA tensors")),
)
