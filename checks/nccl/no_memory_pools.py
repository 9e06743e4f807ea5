"""A virtual GPU has no memory pools, and this NCCL makes one.

What you see
------------
`init.cc:426 NCCL WARN Cuda failure 'operation not supported'`, and then ncclUnhandledCudaError in the first collective;
everything on one GPU works.

Why it happens
--------------
NCCL makes a memory pool (cudaMemPoolCreate) for each communicator. A virtual GPU to which the hypervisor gives no
unified memory, as is VMware's default, has none. Newer versions of NCCL ask first and do without
(cudaDevAttrMemoryPoolsSupported); no variable of NCCL's makes the others do so.

Fix
---
On the hypervisor, turn unified memory on for the virtual GPU (VMware: pciPassthru0.cfg.enable_uvm = 1), or give the
machine the GPU itself. Or a newer NCCL.

When it is harmless
-------------------
Where NCCL's group is made all the same: then nothing is said.

See also
--------
nccl/driver-too-old, nccl/cumem-host
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOOKS_AT = ("ranks.devices",)
WORDS = "'operation not supported'"
LOG = (
    Line(
        WORDS,
        r"init\.cc.{0,40}NCCL WARN Cuda failure.{0,12}'operation not supported'",
        shows="symptom",
        why="a driver that is older than NCCL's CUDA shows the same",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        lacking = [gpu for gpu in gpus.used_gpus(node) if gpu.memory_pools is False]
        warned = said(node)
        if lacking and warned and gpus.wants_gpus(node):
            named = ", ".join(dict.fromkeys(gpu.name for gpu in lacking))
            yield Finding.about(
                [node],
                f"{named} on {node.name} has no memory pools, and NCCL {node.identity.nccl or 'there'} wants one.",
                evidence=[
                    *(f"{node.name}: device {gpu.index}, {gpu.name}: CUDA says that it has none" for gpu in lacking),
                    *(f"{node.name}: {text}" for text in warned),
                ],
                fixes=[
                    Fix.on(
                        node,
                        "Turn unified memory on for the virtual GPU, on the hypervisor (VMware: "
                        "pciPassthru0.cfg.enable_uvm = 1), or give the machine the GPU itself.",
                    ),
                    Fix.on(cluster.nodes, "Or install a torch with a newer NCCL, the same on every node.", 2),
                ],
            )


def said(node: Node) -> list[str]:
    """NCCL's own words for it, of ranks whose group failed."""
    failed = (
        rank
        for rank in node.facts.ranks
        if any(stage.stage == "nccl" and stage.status in ("failed", "error") for stage in rank.stages)
    )
    found = (text for rank in failed if rank.nccl is not None for text in rank.nccl.warnings if WORDS in text)
    return list(dict.fromkeys(found))[:2]
