"""NCCL's host buffers do not work here.

What you see
------------
`transport/shm.cc:... NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'`.

Why it happens
--------------
From NCCL 2.24 on, shared buffers are made by cuMem, which needs peer access, a NUMA node with memory, and a container
that allows it. No setting or file tells beforehand whether they work: the check finds it by what NCCL writes where the
check's own group fails.

Fix
---
NCCL_CUMEM_HOST_ENABLE=0.

When it is harmless
-------------------
Never.

See also
--------
nccl/p2p-broken
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("transport/shm", r"(?:transport/shm\w*\.cc).{0,40}WARN.{0,20}[Cc]uda failure"),
    Line(  # a rank's description of a buffer that another takes for the name of a file: NCCL issue 2190
        "attaching to shared memory segment /dev/shm/nccl- ",
        shows="end",
        why="two versions of NCCL in one job show the same",
    ),
    Line(
        "attaching to shared memory segment",
        r"shared memory segment /dev/shm/nccl-\w",
        shows="symptom",
        why="ranks in containers with a /dev/shm each of their own show the same",
    ),
    Line(
        ("uda failure 'invalid argument'", "uda failure 1 'invalid argument'"),
        shows="symptom",
        why="many calls of CUDA say so; NCCL_CUMEM_HOST_ENABLE=0 shows whether it is this",
    ),
)
