"""Each task sees one GPU, as device 0.

What you see
------------
`invalid device ordinal` on every local rank but 0; NCCL: `transport/p2p.cc ... 101 'invalid device ordinal'`.

Why it happens
--------------
srun --gpus-per-task or --gpu-bind hides the other GPUs of the node from each task, and the script takes
cuda:LOCAL_RANK, which its task does not see. Logs alone show it: the check takes device 0 there, as many scripts do,
and what the script takes it cannot know.

Fix
---
--gpus-per-node or --gpu-bind=none; or use device 0 in every task.

When it is harmless
-------------------
Where each task sees one GPU and the script takes device 0, or LOCAL_RANK modulo torch.cuda.device_count().

See also
--------
gpu/fewer-than-ranks, gpu/mask-mismatch
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "what each task sees",
    "srun nvidia-smi -L",
)
LOG = (
    Line(
        "transport/p2p",
        r"transport/p2p\.cc.{0,60}(?:invalid device ordinal|failure 101)",
    ),
)
