"""A virtual GPU has no memory pools, and this NCCL needs one.

## What you see
`init.cc:426 NCCL WARN Cuda failure 'operation not supported'`, then ncclUnhandledCudaError in the first collective.
Everything on one GPU works.

## Why it happens
NCCL creates a memory pool (cudaMemPoolCreate) for each communicator. A virtual GPU without unified memory has none;
this is VMware's default. Newer versions of NCCL ask first and work without (cudaDevAttrMemoryPoolsSupported). No
variable of NCCL changes this in older versions.

## Fix
On the hypervisor, set `pciPassthru0.cfg.enable_uvm = 1` for the virtual GPU (VMware: VM Options, Advanced), then
restart the machine. Or pass the whole GPU through, or install a torch with a newer NCCL.

## Confirm with
`nvidia-smi -q | grep -A2 "Virtualization Mode"` and
`python -c "import torch; print(torch.cuda.nccl.version())"`.

## When it is harmless
When NCCL forms its group anyway; the check then reports nothing.

## See also
nccl/driver-too-old, nccl/cumem-host
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOOKS_AT = ("ranks.devices",)
WORDS = "'operation not supported'"
LOG = (
    Line(
        WORDS,
        r"init\.cc.{0,40}NCCL WARN Cuda failure.{0,12}'operation not supported'",
        shows="symptom",
        why="a driver older than NCCL's CUDA shows the same",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        lacking = [gpu for gpu in gpus.used_gpus(node) if gpu.memory_pools is False]
        warned = pool_warnings(node)
        if lacking and warned and gpus.wants_gpus(node):
            named = ", ".join(dict.fromkeys(gpu.name for gpu in lacking))
            yield Finding.about(
                [node],
                f"{named} on {node.name} has no memory pools; NCCL {node.identity.nccl or 'there'} needs one.".replace(
                    "  ", " "
                ),
                evidence=[
                    *(f"{node.name}: device {gpu.index}, {gpu.name}: CUDA reports no memory pools" for gpu in lacking),
                    *(f"{node.name}: {text}" for text in warned),
                ],
                fixes=[
                    Fix.on(
                        node,
                        "On the hypervisor, enable unified memory for the virtual GPU (VMware: "
                        "pciPassthru0.cfg.enable_uvm = 1), or pass the whole GPU through.",
                    ),
                    Fix.on(cluster.nodes, "Or install a torch with a newer NCCL, the same on every node.", 2),
                ],
            )


def pool_warnings(node: Node) -> list[str]:
    """Return NCCL's warnings about it, from ranks with a failed group."""
    failed = (
        rank
        for rank in node.facts.ranks
        if any(stage.stage == "nccl" and stage.status in ("failed", "error") for stage in rank.stages)
    )
    texts = (text for rank in failed if rank.nccl is not None for text in rank.nccl.warnings if WORDS in text)
    return list(dict.fromkeys(texts))[:2]
