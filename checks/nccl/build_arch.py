"""NCCL was built without this GPU's code.

What you see
------------
`NCCL WARN Cuda failure 'named symbol not found'`, `'no kernel image is available'` from NCCL.

Why it happens
--------------
The NCCL library has no kernels for the GPU's compute capability. It does not say which it has: the check finds it by
what NCCL writes where the check's own group fails.

Fix
---
The NCCL of the torch wheel for this GPU, or one built with its NVCC_GENCODE.

When it is harmless
-------------------
Never.

See also
--------
gpu/arch-not-in-build
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (Line("named symbol not found"), Line("NCCL WARN", "NCCL WARN.{0,40}[Cc]uda failure.{0,10}no kernel image"))
