"""A GPU that torch sees computes nothing.

What you see
------------
`CUBLAS_STATUS_NOT_INITIALIZED when calling cublasCreate(handle)`, `CUDA error: unspecified launch failure`,
`Invalid device id` on the first thing that a rank does with its GPU; process groups are made without an error before.

Why it happens
--------------
Where it is so on all GPUs, the libraries: a cuBLAS or CUDA of another version that LD_LIBRARY_PATH puts before torch's
own, or a container that is given a part of the driver's files alone. Where it is so on one, that GPU. The check
multiplies two small matrices on each GPU, and no other of its findings says why that raised an error.

Fix
---
On all: take the folders of CUDA out of LD_LIBRARY_PATH, and try again. On one: leave it out, reset it, look for its Xid
in dmesg.

When it is harmless
-------------------
Where the job does not use that GPU: a warning then.

See also
--------
gpu/hardware, gpu/arch-not-in-build, gpu/busy, gpu/out-of-memory
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, together

SEVERITY = "fail"
MATTERS = "the job as planned has fewer ranks on this node than GPUs, and may not use it"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "CUBLAS_STATUS_NOT_INITIALIZED",
        shows="symptom",
        why="a GPU without memory left, an error of the program before it and another cuBLAS all show the same",
    ),
    Line(
        ("THCudaCheck FAIL", "Test CUDA failure"),  # torch before 1.11; nccl-tests
        shows="symptom",
        why="it tells which call of CUDA failed, and not what of it",
    ),
)
TOLD = ("busy or unavailable", "out of memory", "no kernel image", "invalid device function", "uncorrectable")
"""Words of errors that other checks tell."""
PATH = "LD_LIBRARY_PATH"
OF_CUDA = ("cuda", "cublas", "cudnn", "nvidia", "hpc_sdk")
"""In the names of folders with libraries of CUDA's."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        seen = gpus.visible_gpus(node)
        failed = [gpu for gpu in seen if gpu.error and not any(words in gpu.error for words in TOLD)]
        if not failed or not gpus.wants_gpus(node):
            continue
        # One that kept the check from going on says nothing of those after it.
        alone = len(seen) > 1 and any(gpu.went_no_further for gpu in failed)
        every = not alone and len(failed) == len([gpu for gpu in seen if gpu.error or gpu.computed])
        spared = not set(failed) & set(gpus.used_gpus(node))
        which = "no GPU" if every else together(f"device {gpu.index}" for gpu in failed)
        yield Finding.about(
            [node],
            f"torch sees {len(seen)} GPU(s) on {node.name}, and {which} computes{'' if every else ' nothing'}.",
            severity="warn" if spared else "fail",
            evidence=[f"{node.name}: device {gpu.index}, {gpu.name or 'unknown'}: {gpu.error}" for gpu in failed],
            fixes=[of_all(node) if every and len(seen) > 1 else of_some(node)],
        )


def of_all(node: Node) -> Fix:
    parts = [part for part in node.variables.get(PATH, "").split(":") if part]
    rest = [part for part in parts if not any(word in part.lower() for word in OF_CUDA)]
    if len(rest) < len(parts):
        text = "Let torch load the CUDA libraries that it was installed with, and no others before them."
        return Fix.on(node, f"{text} {PATH} is now {':'.join(parts)}.", env={PATH: ":".join(rest) or None})
    return Fix.on(
        node,
        "In the job's own environment, see which CUDA libraries are loaded, and install torch anew where they are none "
        "of its own.",
        commands=("python -m torch.utils.collect_env",),
    )


def of_some(node: Node) -> Fix:
    return Fix.on(
        node,
        "Leave this GPU out (CUDA_VISIBLE_DEVICES), or take the node out; reset it, and look for its Xid in dmesg.",
    )
