"""A collective before the rank has chosen its GPU.

What you see
------------
`using GPU 0 to perform barrier as devices used by this process are currently unknown. This can potentially cause a
hang`.

Why it happens
--------------
barrier() has to guess the device where neither set_device() nor device_id told it.

Fix
---
torch.cuda.set_device(LOCAL_RANK) first, or init_process_group(device_id=...).

When it is harmless
-------------------
Where rank and device numbers agree, as they do as a rule.

See also
--------
nccl/duplicate-gpu
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("whether the hang goes with set_device()", "")
LOG = (
    Line(
        ("devices used by this process are currently unknown", "Guessing device ID based on global rank"),
        shows="hint",
        why="where rank and device agree it does no harm",
    ),
    Line(
        "Inconsistent compute device and",  # FSDP's: parameters and current device on another GPU than it was told
        r"Inconsistent compute device and `?device_id`? on rank (?P<rank>\d{1,6})",
    ),
)
