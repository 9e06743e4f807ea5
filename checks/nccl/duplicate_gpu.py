"""Two ranks use the same GPU.

What you see
------------
`NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3b000`, `ncclInvalidUsage`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
NCCL takes ranks for neighbours on one machine by its name and boot id, or by NCCL_HOSTID, and compares where their GPUs
are on the bus. So it is more ranks than GPUs, a device that is chosen by something else than LOCAL_RANK, the same
CUDA_VISIBLE_DEVICES for all ranks, or one NCCL_HOSTID on two machines. What shows before the job, the masks and the
ranks' devices, is told as gpu/shared-device and gpu/fewer-than-ranks; which device a script takes, its log alone shows.

Fix
---
torch.cuda.set_device(int(os.environ['LOCAL_RANK'])) before the process group is made, and no more ranks than visible
GPUs.

When it is harmless
-------------------
Never.

See also
--------
gpu/shared-device, gpu/fewer-than-ranks
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, ranks_text

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "Duplicate GPU detected",
        r"Duplicate GPU detected ?: ?rank (?P<ranks>\d+ and rank \d+) both on CUDA device (?P<device>\w+)"
        r"|Duplicate GPU detected",
        unless=r"detected ?: ?rank (?:%d|[A-Z<{])",  # a text about it, or NCCL's own
    ),
    Line("Multiple ranks on", "[Mm]ultiple ranks on (?:the )?same (?:GPU|device)"),
    Line("Multiple Ranks are using the same GPU"),
)
HOST_ID = "NCCL_HOSTID"
TWO = r"Duplicate GPU detected ?: ?rank (\d+) and rank (\d+) both"


def judge(cluster: Cluster) -> Iterator[Finding]:
    """Nodes that NCCL takes for one by their NCCL_HOSTID; of ranks on one node NCCL's own words are told."""
    said = {node: lines for node in cluster.nodes if (lines := gpus.nccl_warned(node, TWO))}
    pairs = {
        tuple(map(int, match.groups())) for lines in said.values() for line in lines if (match := re.search(TWO, line))
    }
    ranks = sorted({rank for pair in pairs for rank in pair})
    nodes = [node for node in cluster.nodes if {*ranks} & {*node.ranks}]
    ids = {node.variables.get(HOST_ID) for node in nodes}
    if any(holds(node, pair) for node in nodes for pair in pairs) or len(ids) != 1 or not all(ids):
        return
    yield Finding.about(
        nodes,
        f"NCCL takes {names_of(nodes)} for one machine, by {HOST_ID}, and {ranks_text(ranks)} for two on one GPU.",
        ranks=ranks,
        evidence=(
            *(f"{node.name}: {HOST_ID}={node.variables[HOST_ID]}" for node in nodes),
            *(lines[0] for lines in said.values()),
        ),
        fixes=[Fix.on(nodes, f"Unset {HOST_ID}, or give each machine another.", env={HOST_ID: None})],
    )


def holds(node: Node, pair: tuple[int, ...]) -> bool:
    """Return whether both are ranks of this node."""
    return {*pair} <= {*node.ranks}
