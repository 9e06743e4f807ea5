"""The driver is older than the CUDA runtime.

What you see
------------
`CUDA driver version is insufficient for CUDA runtime version`, `The NVIDIA driver on your system is too old`.

Why it happens
--------------
torch was built for a CUDA version that this driver does not know.

Fix
---
Update the driver, or install the torch build for the driver's CUDA version.

When it is harmless
-------------------
Never.

See also
--------
gpu/driver-library-mismatch, gpu/none-visible
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "driver version is insufficient for CUDA runtime",
    ),
    Line(
        "NVIDIA driver on your system is too old",
    ),
    Line(
        "provided PTX was compiled with an unsupported toolchain",
    ),
    Line(
        "Requires NVIDIA Driver",
        "[Rr]equires NVIDIA [Dd]river",
    ),
)
