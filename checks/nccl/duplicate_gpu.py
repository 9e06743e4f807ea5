"""Two ranks use the same GPU.

## What you see
`NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA device 3b000`, `ncclInvalidUsage`.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
NCCL identifies a machine by hostname and boot id, or by NCCL_HOSTID, and compares the bus addresses of the GPUs.
Possible causes are more ranks than GPUs, a device that is not chosen by LOCAL_RANK, and one CUDA_VISIBLE_DEVICES for
all ranks. Another is the same NCCL_HOSTID on two machines. gpu/shared-device and gpu/fewer-than-ranks report what is
visible before the job. The device that a script picks is visible in its log only.

## Fix
Call `torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))` before init_process_group(), and start at most as many
ranks as visible GPUs: `torchrun --nproc-per-node gpu`.

## Confirm with
`nvidia-smi --query-compute-apps=pid,gpu_uuid --format=csv` while the job runs.

## When it is harmless
Never.

## See also
gpu/shared-device, gpu/fewer-than-ranks
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of, ranks_text

SEVERITY = "fail"
PREVENTS = "nccl group formed"
LOG = (
    Line(
        "Duplicate GPU detected",
        r"Duplicate GPU detected ?: ?rank (?P<ranks>\d+ and rank \d+) both on CUDA device (?P<device>\w+)"
        r"|Duplicate GPU detected",
        unless=r"detected ?: ?rank (?:%d|[A-Z<{])",  # a text about it, or a format string of NCCL
    ),
    Line("Multiple ranks on", "[Mm]ultiple ranks on (?:the )?same (?:GPU|device)"),
    Line("Multiple Ranks are using the same GPU"),
)
HOST_ID = "NCCL_HOSTID"
TWO = r"Duplicate GPU detected ?: ?rank (\d+) and rank (\d+) both"


def judge(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes that share an NCCL_HOSTID; ranks of one node are a matter of the log."""
    warnings = {node: lines for node in cluster.nodes if (lines := gpus.nccl_warned(node, TWO))}
    pairs = {
        tuple(map(int, match.groups()))
        for lines in warnings.values()
        for line in lines
        if (match := re.search(TWO, line))
    }
    ranks = sorted({rank for pair in pairs for rank in pair})
    nodes = [node for node in cluster.nodes if {*ranks} & {*node.ranks}]
    ids = {node.variables.get(HOST_ID) for node in nodes}
    if any(has_both(node, pair) for node in nodes for pair in pairs) or len(ids) != 1 or not all(ids):
        return
    yield Finding.about(
        nodes,
        f"{names_of(nodes)} share one {HOST_ID}, so NCCL treats them as one machine and refuses "
        f"{ranks_text(ranks).lower()}.",
        ranks=ranks,
        evidence=(
            *(f"{node.name}: {HOST_ID}={node.variables[HOST_ID]}" for node in nodes),
            *(lines[0] for lines in warnings.values()),
        ),
        fixes=[Fix.on(nodes, f"Unset {HOST_ID} on {names_of(nodes)}.", env={HOST_ID: None})],
    )


def has_both(node: Node, pair: tuple[int, ...]) -> bool:
    return {*pair} <= {*node.ranks}
