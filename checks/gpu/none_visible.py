"""The rank sees no GPU.

What you see
------------
`ProcessGroupNCCL is only supported with GPUs, no GPUs found!`, `No CUDA GPUs are available`, `Found no NVIDIA driver on
your system`, `Torch not compiled with CUDA enabled`.

Why it happens
--------------
A CPU build of torch, an empty CUDA_VISIBLE_DEVICES, a container without --gpus, or no driver.

Fix
---
python -c 'import torch; print(torch.version.cuda, torch.cuda.is_available())' and nvidia-smi, in the job's own
environment: the first that fails is it.

When it is harmless
-------------------
Never.

See also
--------
gpu/fewer-than-ranks, environment/backend-not-built
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "ProcessGroupNCCL is only supp",
    ),
    Line(
        "No CUDA GPUs are available",
    ),
    Line(
        ("Found no NVIDIA driver", "no NVIDIA driver on your system"),
    ),
    Line(
        "Torch not compiled with CUDA enabled",
    ),
    Line(
        "no CUDA-capable device is detected",
    ),
    Line(
        "couldn't communicate with the NVIDIA driver",
    ),
    Line(
        "find any nvidia-smi",
        shows="hint",
        why="a container without the tool may have the GPUs",
    ),
)
