"""CUDA_VISIBLE_DEVICES and the launcher disagree.

What you see
------------
`ValueError: No slot '1' specified on host 'localhost'`.

Why it happens
--------------
DeepSpeed's --include or hostfile names devices that CUDA_VISIBLE_DEVICES hides or renumbers.

Fix
---
Use one of both; after the mask, devices count from 0.

When it is harmless
-------------------
Never.

See also
--------
gpu/fewer-than-ranks
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "specified on host",
        r"No slot ['\x22]?\d+['\x22]? specified on host",
    ),
)
