"""A collective runs before the rank has chosen its GPU.

## What you see
A warning on each rank:

    using GPU 0 to perform barrier as devices used by this process are currently unknown. This can
    potentially cause a hang

## Why it happens
barrier() guesses the device if neither set_device() nor device_id names it.

## Fix
Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before init_process_group(), or pass
`init_process_group(device_id=torch.device("cuda", local_rank))`.

## Confirm with
`grep -c "devices used by this process are currently unknown" LOG` (must be 0 afterwards).

## When it is harmless
When rank and device numbers agree, as they usually do.

## See also
nccl/duplicate-gpu
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("a run with torch.cuda.set_device() before init_process_group()", "")
LOG = (
    Line(
        ("devices used by this process are currently unknown", "Guessing device ID based on global rank"),
        shows="hint",
        why="it is harmless if rank and device numbers agree",
    ),
    Line(
        "Inconsistent compute device and",  # of FSDP: parameters and current device differ from device_id
        r"Inconsistent compute device and `?device_id`? on rank (?P<rank>\d{1,6})",
    ),
)
