"""A GPU ran out of memory.

What you see
------------
`torch.OutOfMemoryError: CUDA out of memory`, NCCL's `Cuda failure 'out of memory'`; errors of connections on the other
ranks.

Why it happens
--------------
The rank, or another process on the same GPU, holds more than there is.

Fix
---
Smaller batches, activation checkpointing, sharding; look at who else is on that GPU (nvidia-smi).

When it is harmless
-------------------
Where the program catches it and tries again with less.

See also
--------
process/killed-by-oom, host/leftover-processes
"""

from distdoctor.check_api import Line

SEVERITY = "fail"
PREVENTS = "nccl group formed"
NEXT = (
    "who holds the GPU's memory",
    "nvidia-smi",
)
LOG = (
    Line(
        "out of memory",
        r"(?:CUDA|HIP|NPU|XPU|GPU|cudaMalloc|ROCm)\b.{0,60}out of memory|[Cc]uda failure.{0,12}out of memory"
        r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|error: out of memory",
        unless="[Ee]nsure|may |might |avoid|retry|to prevent|if you|reduce|consider",
    ),
    Line(
        ("OutOfMemoryError", "CUDA_ERROR_OUT_OF_MEMORY"),
        r"(?:^|cuda\.|torch\.)OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY",
        unless="Task was killed|raylet",
    ),
    Line(
        "CUBLAS_STATUS_ALLOC_FAILED",
        shows="end",
    ),
    Line(
        "No available memory for the cache blocks",
    ),
)
