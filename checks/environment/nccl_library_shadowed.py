"""Another NCCL library than torch's is loaded.

What you see
------------
`libtorch_cuda.so: undefined symbol: ncclCommRegister` (or another nccl name) on import.

Why it happens
--------------
LD_LIBRARY_PATH, LD_PRELOAD, conda or a second nvidia-nccl wheel (cu12 beside cu13) brings an older libnccl.so.2 that is
found first.

Fix
---
Take the other NCCL out of LD_LIBRARY_PATH and LD_PRELOAD, and keep one nvidia-nccl wheel: pip list | grep nccl.

When it is harmless
-------------------
Never.

See also
--------
environment/version-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "plan agreed"
NEXT = (
    "which library is loaded",
    "LD_DEBUG=libs python -c 'import torch' 2>&1 | grep nccl",
)
LOG = (
    Line(
        "undefined symbol: nccl",
        r"undefined symbol: (?P<symbol>nccl\w{1,60})",
    ),
    Line(
        ("NCCL library is too old", "NCCL library is not backwards compatible"),
    ),
)
