"""A GPU that torch sees cannot compute.

## What you see
`CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(handle)`, `CUDA error: unspecified launch failure` or
`Invalid device id` in the first GPU operation of a rank. Process groups form without an error before.

## Why it happens
If all GPUs fail, the libraries are wrong. LD_LIBRARY_PATH puts another cuBLAS or CUDA before torch's own, or the
container has only a part of the driver's files. If one GPU fails, that GPU is faulty. The check multiplies two small
matrices on each GPU; no other finding explains the error.

## Fix
If all GPUs fail, run `unset LD_LIBRARY_PATH` and try again. If one fails, exclude it
(`export CUDA_VISIBLE_DEVICES=0,1,3`) and reset it: `nvidia-smi --gpu-reset -i 2`.

## Confirm with
`dmesg | grep -i xid` and
`python -c "import torch; a=torch.ones(64,64,device='cuda:2'); print((a@a).sum())"`.

## When it is harmless
When the job does not use that GPU; the finding is then a warning.

## See also
gpu/hardware, gpu/arch-not-in-build, gpu/busy, gpu/out-of-memory
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, together

SEVERITY = "fail"
MATTERS = "the planned job has fewer ranks than GPUs on this node, and may not use it"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "CUBLAS_STATUS_NOT_INITIALIZED",
        shows="symptom",
        why="a full GPU memory, an earlier error of the program and another cuBLAS show the same",
    ),
    Line(
        ("THCudaCheck FAIL", "Test CUDA failure"),  # torch before 1.11; nccl-tests
        shows="symptom",
        why="it names the failed CUDA call, not the cause",
    ),
)
OTHER_CHECKS = ("busy or unavailable", "out of memory", "no kernel image", "invalid device function", "uncorrectable")
"""Words of errors that other checks report."""
PATH = "LD_LIBRARY_PATH"
OF_CUDA = ("cuda", "cublas", "cudnn", "nvidia", "hpc_sdk")
"""Parts of the names of folders with CUDA libraries."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        visible = gpus.visible_gpus(node)
        failed = [gpu for gpu in visible if gpu.error and not any(words in gpu.error for words in OTHER_CHECKS)]
        if not failed or not gpus.wants_gpus(node):
            continue
        # A GPU that stopped the check says nothing about the GPUs after it.
        alone = len(visible) > 1 and any(gpu.went_no_further for gpu in failed)
        every = not alone and len(failed) == len([gpu for gpu in visible if gpu.error or gpu.computed])
        unused = not set(failed) & set(gpus.used_gpus(node))
        computing = "no GPU" if every else together(f"device {gpu.index}" for gpu in failed)
        yield Finding.about(
            [node],
            f"torch sees {len(visible)} GPU(s) on {node.name}, but {computing} "
            f"{'can compute' if every else 'cannot compute'}.",
            severity="warn" if unused else "fail",
            evidence=[f"{node.name}: device {gpu.index}, {gpu.name or 'unknown'}: {gpu.error}" for gpu in failed],
            fixes=[library_fix(node) if every and len(visible) > 1 else device_fix(node)],
        )


def library_fix(node: Node) -> Fix:
    parts = [part for part in node.variables.get(PATH, "").split(":") if part]
    rest = [part for part in parts if not any(word in part.lower() for word in OF_CUDA)]
    if len(rest) < len(parts):
        text = f"Remove the CUDA folders from {PATH}, so that torch loads its own libraries"
        return Fix.on(node, f"{text} (now: {':'.join(parts)}).", env={PATH: ":".join(rest) or None})
    return Fix.on(
        node,
        "Reinstall torch in the job's environment (`pip install --force-reinstall torch`) if it loads other CUDA "
        "libraries than its own. Confirm with:",
        commands=("python -m torch.utils.collect_env",),
    )


def device_fix(node: Node) -> Fix:
    return Fix.on(
        node,
        "Exclude this GPU (CUDA_VISIBLE_DEVICES) or remove the node, then run `nvidia-smi --gpu-reset`. Confirm "
        "with: `dmesg | grep -i xid`.",
    )
