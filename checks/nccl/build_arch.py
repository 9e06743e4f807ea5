"""NCCL was built without code for this GPU.

## What you see
`NCCL WARN Cuda failure 'named symbol not found'`, `'no kernel image is available'` from NCCL.

## Why it happens
The NCCL library has no kernels for the GPU's compute capability. The library does not list its kernels, so the check
relies on NCCL's own warning when the check's group fails.

## Fix
Install the torch wheel that supports this GPU, with its NCCL: `pip install --force-reinstall torch`. Or build NCCL
with `make NVCC_GENCODE="-gencode=arch=compute_90,code=sm_90"`.

## Confirm with
`nvidia-smi --query-gpu=name,compute_cap --format=csv` and
`python -c "import torch; print(torch.cuda.nccl.version(), torch.cuda.get_arch_list())"`.

## When it is harmless
Never.

## See also
gpu/arch-not-in-build
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (Line("named symbol not found"), Line("NCCL WARN", "NCCL WARN.{0,40}[Cc]uda failure.{0,10}no kernel image"))
