"""Two ranks use the same GPU.

What you see
------------
`NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3b000`, `ncclInvalidUsage`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
More ranks than GPUs, a device that is chosen by something else than LOCAL_RANK, or the same CUDA_VISIBLE_DEVICES for
all ranks. What shows before the job, the masks and the ranks' devices, is told as gpu/shared-device and
gpu/fewer-than-ranks; which device a script takes, its log alone shows.

Fix
---
torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the process group is made, and no more ranks than visible
GPUs.

When it is harmless
-------------------
Never.

See also
--------
gpu/shared-device, gpu/fewer-than-ranks
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "Duplicate GPU detected",
        r"Duplicate GPU detected ?: ?rank (?P<ranks>\d+ and rank \d+) both on CUDA device (?P<device>\w+)"
        r"|Duplicate GPU detected",
        unless=r"detected ?: ?rank (?:%d|[A-Z<{])",  # a text about it, or NCCL's own
    ),
    Line(
        "Multiple ranks on",
        "[Mm]ultiple ranks on (?:the )?same (?:GPU|device)",
    ),
    Line(
        "Multiple Ranks are using the same GPU",
    ),
)
