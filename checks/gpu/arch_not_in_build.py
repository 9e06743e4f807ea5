"""torch was built without this GPU's architecture.

## What you see
`CUDA error: no kernel image is available for execution on the device`,
`sm_120 is not compatible with the current PyTorch installation`.

## Why it happens
The wheel has no code for the GPU's compute capability: the GPU is newer than the wheel, or the wheel dropped it.

## Fix
Install a wheel with that architecture on every node:
`pip install torch --index-url https://download.pytorch.org/whl/cu128`. Rebuild flash-attn and other extensions with
`TORCH_CUDA_ARCH_LIST=12.0`.

## Confirm with
`python -c "import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())"`.

## When it is harmless
Never.

## See also
nccl/build-arch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, gpus, together

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("hipErrorNoBinaryForGpu"),
    Line(  # CUDA does not name the library of the kernel
        "no kernel image is available",
        unless="NCCL WARN",
        told="torch, or an extension that the traceback names, has no code for this GPU",
        fix="Install a build of torch with the GPU's architecture on every node. If torch.cuda.get_arch_list() has it, "
        "rebuild the extension in the traceback's last frames (TORCH_CUDA_ARCH_LIST). "
        "Confirm with: `python -c 'import torch; print(torch.cuda.get_arch_list())'`.",
    ),
    Line(
        "is not compatible with the current PyTorch installation",
        shows="hint",
        why="it is harmless if nothing runs on that GPU",
    ),
    Line("HIP error: invalid device function"),
    Line(
        "TensileLibrary.dat",  # one for each architecture that rocBLAS was built for
        r"rocBLAS error: (?:Cannot read )?.{1,300}TensileLibrary\.dat",
        told="rocBLAS has no code for this GPU",
    ),
)
NO_CODE = ("no kernel image is available", "invalid device function")
"""Errors of CUDA and HIP if they find no code for a device."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        built = next((facts.architectures for facts in gpus.looked_at_gpus(node) if facts.architectures), ())
        lacking = {
            gpu.name: gpu.capability
            for gpu in gpus.used_gpus(node)
            if gpu.capability and gpu.computed != "right" and built and lacks(gpu.error, gpu.capability, built)
        }
        if not lacking or not gpus.wants_gpus(node):
            continue
        named = together(f"{name} (compute capability {number})" for name, number in lacking.items())
        yield Finding.about(
            [node],
            f"The torch of {node.name} has no code for its GPU, {named}.",
            evidence=[f"{node.name}: torch {node.identity.torch} was built for {together(built)}"],
            fixes=[
                Fix.on(
                    node,
                    "Install a build of torch with this architecture on every node (older GPUs: one for an older "
                    "CUDA). "
                    "Confirm with: `python -c 'import torch; print(torch.cuda.get_arch_list())'`.",
                )
            ],
        )


def lacks(error: str, capability: str, built: tuple[str, ...]) -> bool:
    """Return whether the build has no code for it, by torch's error or by its list of CUDA architectures."""
    return any(words in error for words in NO_CODE) or (of_cuda(built) and not covered(capability, built))


def of_cuda(architectures: tuple[str, ...]) -> bool:
    """Return whether these are CUDA architectures; those of ROCm (gfx942) do not compare with a capability."""
    return any(entry.startswith(("sm_", "compute_")) for entry in architectures)


def covered(capability: str, built: tuple[str, ...]) -> bool:
    """Return whether code of this build runs on the device.

    Binary code runs within its generation on the same or a newer step; PTX, which the driver translates, on any newer
    one (CUDA C++ Programming Guide, "Application Compatibility")."""
    have = number(capability.replace(".", ""))
    for entry in built:
        kind, _, wanted = entry.partition("_")
        need = number(wanted)
        # ``a`` is for one architecture only, ``f`` for its generation only; PTX as well.
        if (wanted.endswith("a") and need != have) or (wanted.endswith("f") and need // 10 != have // 10):
            continue
        if (need // 10 == have // 10 and need <= have) or (kind == "compute" and need <= have):
            return True
    return False


def number(text: str) -> int:
    """Return ``90`` for ``90a``; 0 without digits."""
    digits = "".join(char for char in text if char.isdigit())
    return int(digits) if digits else 0
