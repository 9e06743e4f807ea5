"""torch was built without this GPU's architecture.

What you see
------------
`CUDA error: no kernel image is available for execution on the device`, `sm_120 is not compatible with the current
PyTorch installation`.

Why it happens
--------------
The wheel has no code for the GPU's compute capability: a newer GPU, or one that was dropped.

Fix
---
A wheel with that architecture (torch.cuda.get_arch_list()); the same of flash-attn and other extensions.

When it is harmless
-------------------
Never.

See also
--------
nccl/build-arch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, gpus, together

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line("hipErrorNoBinaryForGpu"),
    Line(  # CUDA does not say whose kernel it was
        "no kernel image is available",
        unless="NCCL WARN",
        told="torch, or an extension that the traceback names, has no code for this GPU",
        fix="Look whether torch.cuda.get_arch_list() has the GPU's architecture. Where it has, build the extension of "
        "the last frames of the traceback anew for it (TORCH_CUDA_ARCH_LIST); else take a build of torch that has it, "
        "the same on every node.",
    ),
    Line(
        "is not compatible with the current PyTorch installation",
        shows="hint",
        why="where nothing runs on that GPU it does no harm",
    ),
    Line("HIP error: invalid device function"),
    Line(
        "TensileLibrary.dat",  # one for each architecture that rocBLAS was built for
        r"rocBLAS error: (?:Cannot read )?.{1,300}TensileLibrary\.dat",
        told="rocBLAS has no code for this GPU",
    ),
)
NO_CODE = ("no kernel image is available", "invalid device function")
"""What CUDA and HIP say where they find no code for a device."""


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
                    "Install a build of torch that has this architecture, the same on every node: a newer one for a "
                    "newer GPU, one for an older CUDA where it was dropped.",
                )
            ],
        )


def lacks(error: str, capability: str, built: tuple[str, ...]) -> bool:
    """Return whether the build has no code for it: torch said so, or its list of CUDA's architectures does."""
    return any(words in error for words in NO_CODE) or (of_cuda(built) and not covered(capability, built))


def of_cuda(architectures: tuple[str, ...]) -> bool:
    """Return whether they are CUDA's; those of ROCm (gfx942) are no numbers that a capability could be compared
    with."""
    return any(entry.startswith(("sm_", "compute_")) for entry in architectures)


def covered(capability: str, built: tuple[str, ...]) -> bool:
    """Return whether code of this build runs on the device: of its own generation and no newer step of it, or as
    PTX, which the driver translates, of any older one (CUDA C++ Programming Guide, "Application Compatibility")."""
    have = number(capability.replace(".", ""))
    for entry in built:
        kind, _, wanted = entry.partition("_")
        need = number(wanted)
        # With an ``a`` for one architecture alone, with an ``f`` for those of its generation alone, as PTX, too.
        if (wanted.endswith("a") and need != have) or (wanted.endswith("f") and need // 10 != have // 10):
            continue
        if (need // 10 == have // 10 and need <= have) or (kind == "compute" and need <= have):
            return True
    return False


def number(text: str) -> int:
    """``90`` of ``90a``; 0 where there is none."""
    digits = "".join(char for char in text if char.isdigit())
    return int(digits) if digits else 0
