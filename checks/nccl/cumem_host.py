"""NCCL's host buffers (cuMem) do not work on this node.

## What you see
`transport/shm.cc:... NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'`.

## Why it happens
From NCCL 2.24 on, cuMem allocates the shared host buffers. It needs peer access, a NUMA node with memory, and a
container that permits it. No setting or file shows this in advance, so the check relies on NCCL's own warning when the
check's group fails.

## Fix
Run `export NCCL_CUMEM_HOST_ENABLE=0` on every node before the launch.

## Confirm with
`numactl --hardware` in the container (each GPU's NUMA node needs memory), and the job with
`NCCL_DEBUG=INFO`.

## When it is harmless
Never.

## See also
nccl/p2p-broken
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("transport/shm", r"(?:transport/shm\w*\.cc).{0,40}(?:WARN|ERROR).{0,20}[Cc]uda failure"),
    Line(  # one rank's buffer description that another reads as a file name: NCCL issue 2190
        "attaching to shared memory segment /dev/shm/nccl- ",
        shows="end",
        why="two versions of NCCL in one job show the same",
    ),
    Line(
        "attaching to shared memory segment",
        r"shared memory segment /dev/shm/nccl-\w",
        shows="symptom",
        why="ranks in containers with separate /dev/shm show the same",
    ),
    Line(
        ("uda failure 'invalid argument'", "uda failure 1 'invalid argument'"),
        shows="symptom",
        why="many CUDA calls report it; NCCL_CUMEM_HOST_ENABLE=0 shows whether it is this one",
    ),
)
