"""A GPU ran out of memory.

## What you see
`torch.OutOfMemoryError: CUDA out of memory`, NCCL's `Cuda failure 'out of memory'`; connection errors on the other
ranks.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
The rank, or another process on the same GPU, needs more memory than the GPU has.

## Fix
Reduce the batch size, or enable activation checkpointing or sharding (FSDP). If another process holds the GPU's
memory, end it; `nvidia-smi` shows its number.

## Confirm with
`nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv` while the job runs.

## When it is harmless
When the program catches the error and tries again with less.

## See also
process/killed-by-oom, host/leftover-processes
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, gpus

SEVERITY = "fail"
MATTERS = "a job that needs the whole GPU runs out of memory there, and the other ranks hang"
PREVENTS = "nccl group formed"
NEXT = ("the processes that hold the GPU's memory", "nvidia-smi")
LOG = (
    Line(
        "out of memory",
        r"(?:CUDA|HIP|NPU|XPU|GPU|cudaMalloc|ROCm)\b.{0,60}out of memory|[Cc]uda failure.{0,12}out of memory"
        r"|CUDA_ERROR_OUT_OF_MEMORY|cudaErrorMemoryAllocation|error: out of memory",
        unless="[Ee]nsure|may |might |avoid|retry|to prevent|if you|reduce|consider",
    ),
    Line(  # of torch's allocators: their own advice follows
        "Tried to allocate",
        r"(?:CUDA|HIP|NPU|XPU|GPU|MPS backend) out of memory(?: \([^()]{1,200}\))?\. Tried to allocate",
    ),
    Line(
        ("OutOfMemoryError", "CUDA_ERROR_OUT_OF_MEMORY", "RESULT_ERROR_OUT_OF_DEVICE_MEMORY"),
        r"(?:^|cuda\.|torch\.)OutOfMemoryError|CUDA_ERROR_OUT_OF_MEMORY|(?:ZE|UR)_RESULT_ERROR_OUT_OF_DEVICE_MEMORY",
        unless="Task was killed|raylet",
    ),
    Line("CUBLAS_STATUS_ALLOC_FAILED", shows="end"),
    Line("No available memory for the cache blocks"),
    Line(
        ("Some GPUs may be occupied by other processes", "on startup is less than desired GPU memory utilization"),
        r"The memory capacity is unbalanced\. Some GPUs|Free memory on device .{0,80}on startup is less than desired",
        told="An engine found less free GPU memory than it wants at its start",
        fix="End the processes that hold memory of that GPU (`nvidia-smi` shows them), or let the engine take less "
        "(vLLM: `--gpu-memory-utilization 0.8`, SGLang: `--mem-fraction-static 0.8`).",
    ),
    Line(
        "cuda malloc failed",  # of NCCL 1
        shows="symptom",
        why="any CUDA error at that point shows the same",
    ),
    Line(
        "Failed to CUDA ",
        r"NCCL WARN Failed to CUDA (?:malloc|calloc|calloc async|host alloc) \d+ bytes",
        shows="symptom",
        why="the line above it has CUDA's error",
    ),
)
MUCH = 0.1
"""The share of a device's memory above which it matters; a display, or a driver's reserve, needs less."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if not gpus.wants_gpus(node):
            continue
        taken = [device for device in gpus.used_device_list(node) if (taken_by_others(device) or 0) > 0]
        words = [gpu.error for gpu in gpus.used_gpus(node) if "out of memory" in gpu.error]
        if not taken and not words:
            continue
        holding = "; ".join(f"{gpus.device_text(device)}: {holders(device)}" for device in taken)
        yield Finding.about(
            [node],
            f"Another process holds GPU memory on {node.name}{'; ' + holding if holding else ''}.",
            severity="fail" if words else "warn",
            evidence=[
                *(f"{node.name}: GPU {d.index}: {gib(d.memory_used)} of {gib(d.memory)} in use" for d in taken),
                *(f"{node.name}: torch, before the job: {text}" for text in dict.fromkeys(words)),
            ],
            fixes=[
                Fix.on(
                    node,
                    "End the process that holds it if it is a leftover (`kill PID`), or use other GPUs. Confirm "
                    "with: `nvidia-smi`.",
                )
            ],
        )


def taken_by_others(device: gpus.Device) -> int | None:
    """Return the bytes that other processes hold; 0 if that is little, None if unknown."""
    if device.memory is None or device.memory_used is None or device.mig:
        return None
    if any(process.name.startswith("distdoctor") for process in device.processes):
        return None  # the sum includes our own
    used = device.memory_used - (device.memory_drawn or 0)
    return used if used > device.memory * MUCH else 0


def holders(device: gpus.Device) -> str:
    """Return the processes that hold the device's memory, as far as they are visible."""
    visible = [f"{p.name} (pid {p.pid}{f' of {p.user}' if p.user else ''})" for p in device.processes if p.name]
    return ", ".join(visible[:3]) or "a process that is not visible here"


def gib(count: int | None) -> str:
    return "?" if count is None else f"{count / (1 << 30):.1f} GiB"
