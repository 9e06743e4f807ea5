"""A GPU failed.

What you see
------------
Kernel log: `NVRM: Xid`; `uncorrectable ECC error encountered`, `GPU has fallen off the bus`, `Unable to determine the
device handle for GPU`.

Why it happens
--------------
The GPU, its memory, its NVLink or its PCIe link has a fault.

Fix
---
Take the node out, reset the GPU or reboot, and look at dmesg for the Xid: NVIDIA's list says what it means.

When it is harmless
-------------------
Xid 13, 31, 43 and 45 are errors of the program.

See also
--------
gpu/driver-library-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = (
    "the Xid in the kernel's log",
    "dmesg -T | grep -i xid",
)
LOG = (
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>48|61|62|63|64|74|79|92|94|95|109|119|120|123|136|140|143|144|145"
        r"|149|154|155|156)\b",
    ),
    Line(
        "uncorrectable ECC error",
    ),
    Line(
        "ncorrectable NVLink error",
        "[Uu]ncorrectable NVLink error",
    ),
    Line(
        "fallen off the bus",
    ),
    Line(
        "Unable to determine the device handle for",
    ),
    Line(
        "GPU is lost",
    ),
    Line(
        "GPU requires reset",
    ),
    Line(
        "CUDA error: unknown error",
        shows="end",
    ),
    Line(
        "Cuda failure",
        "[Cc]uda failure.{0,10}unknown error",
        shows="end",
    ),
    Line(
        "Xid (",
        r"NVRM: .{0,20}Xid.{0,60}: (?P<xid>13|31|43|45|68)\b",
        shows="symptom",
        why="this Xid comes of an error of the program as a rule",
    ),
    Line(
        "unspecified launch failure",
        shows="symptom",
        why="a kernel that touches what is not there shows the same",
    ),
    Line(
        "an illegal memory access was encountered",
        r"terminated with exception: |NCCL WARN",
        shows="symptom",
        why="as a rule it is the program's own access; which one, CUDA_LAUNCH_BLOCKING=1 says",
    ),
)
