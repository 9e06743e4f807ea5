"""torch was built without this GPU's architecture.

What you see
------------
`CUDA error: no kernel image is available for execution on the device`, `sm_120 is not compatible with the current
PyTorch installation`.

Why it happens
--------------
The wheel has no code for the GPU's compute capability: a newer GPU, or one that was dropped.

Fix
---
A wheel with that architecture (torch.cuda.get_arch_list()); the same of flash-attn and other extensions.

When it is harmless
-------------------
Never.

See also
--------
nccl/build-arch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "no kernel image is available",
        unless="NCCL WARN",
    ),
    Line(
        "is not compatible with the current PyTorch installation",
        shows="hint",
        why="where nothing runs on that GPU it does no harm",
    ),
    Line(
        "HIP error: invalid device function",
    ),
)
