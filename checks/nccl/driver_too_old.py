"""The driver is older than the CUDA runtime.

## What you see
`CUDA driver version is insufficient for CUDA runtime version`, `The NVIDIA driver on your system is too old`.

## Why it happens
torch was built for a CUDA version that this driver does not support.

## Fix
Install a torch build for the driver's CUDA version:
`pip install torch --index-url https://download.pytorch.org/whl/cu126`. Or update the driver:
`apt-get install nvidia-driver-580-server`.

## Confirm with
`nvidia-smi | grep "CUDA Version"` and `python -c "import torch; print(torch.version.cuda)"`.

## When it is harmless
Never.

## See also
gpu/driver-library-mismatch, gpu/none-visible
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("driver version is insufficient for CUDA runtime"),
    Line(
        "API call is not supported in the installed CUDA driver"  # cudaErrorCallRequiresNewerDriver
    ),
    Line("NVIDIA driver on your system is too old"),
    Line("provided PTX was compiled with an unsupported toolchain"),
    Line("Requires NVIDIA Driver", "[Rr]equires NVIDIA [Dd]river"),
    Line(
        "requirement error: unsatisfied condition: cuda",  # of libnvidia-container, about the image's requirement
        told="The driver is older than the container image requires",
        fix="Update the driver on that host, or use an image with an earlier CUDA. Confirm with: `nvidia-smi`.",
    ),
    Line(
        "operation not supported",
        r"NCCL WARN Cuda failure.{0,12}'operation not supported'|CUDA error: operation not supported",
        shows="symptom",
        why="a virtual GPU without unified memory shows the same",
    ),
    Line("Minimum requirement is", r"CUDA Driver version found is \d+\. Minimum requirement is \d+"),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        built, has = node.identity.cuda, gpus.driver(node).cuda
        errors = [text for text in gpus.gpu_reasons(node) if "too old" in text or "version is insufficient" in text]
        older = 0 < major(has) < major(built)
        if not gpus.wants_gpus(node) or gpus.visible_gpus(node) or not (errors or older):
            continue
        limit = f" (up to CUDA {has})" if has else ""
        yield Finding.about(
            [node],
            f"The driver of {node.name}{limit} is too old for its torch (built for CUDA {built}).",
            evidence=[
                f"{node.name}: driver {gpus.driver(node).module}, torch {node.identity.torch}",
                *(f"{node.name}: {text}" for text in errors),
            ],
            fixes=[
                Fix.on(node, f"Install a driver for CUDA {built} on {node.name}. Confirm with: `nvidia-smi`."),
                Fix.on(
                    cluster.nodes,
                    f"Or install a build of torch for CUDA {has or 'of this driver'} or older, on every node.",
                    2,
                ),
            ],
        )


def major(version: str | None) -> int:
    """Return the major version, 0 if unknown. Within one major version a newer runtime works with an older driver (CUDA
    Compatibility, "Minor Version")."""
    number = (version or "").partition(".")[0]
    return int(number) if number.isdecimal() and len(number) < 9 else 0
