"""The process group has no backend for the tensor's device.

## What you see
`No backend type associated with device type cpu`, `Tensors must be CUDA and dense`.

## Why it happens
A CPU tensor (offload, object collectives) is used in a group that has NCCL only, or a GPU tensor in one with gloo
only.

## Fix
Create the group with both backends: `init_process_group("cpu:gloo,cuda:nccl")`. Or move the tensor: `tensor.cuda()`.

## Confirm with
`print(dist.get_backend_config())` in the script.

## When it is harmless
Never.

## See also
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
