"""GPUDirect RDMA does not work.

## What you see
`NCCL WARN NET/IB : ... vendor err 81` with local protection or access errors; `nv_peer_mem` missing.

## Why it happens
The network adapter cannot access GPU memory: nvidia-peermem is not loaded, ACS is on, or an IOMMU is in between.

## Fix
Load the module: `modprobe nvidia-peermem`. If it is loaded, turn ACS off on the PCIe switches (BIOS, or `setpci`), or
avoid GPUDirect with `export NCCL_NET_GDR_LEVEL=LOC`.

## Confirm with
`lsmod | grep peermem` and `lspci -vvv | grep ACSCtl` (ReqRedir+ means ACS is on).

## When it is harmless
Never.

## See also
nccl/p2p-broken, nccl/infiniband-unreachable
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "its GPU data is copied through host memory, unlike on the other nodes"
PREVENTS = "nccl group formed"
NEXT = ("whether the module is loaded", "lsmod | grep peermem")
MARK = "/GDRDMA"
FIX = "Load nvidia-peermem, as on the other nodes."
FIX_PCIE = (
    "Turn ACS and the IOMMU off on this node, as on the others: nvidia-peermem is loaded. "
    "Confirm with: `nvidia-smi topo -m`, and a run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH."
)
LOG = (
    Line(("vendor err 81", "vendor_err=81")),
    Line(
        ("ibv_reg_mr", "ibv_reg_dmabuf_mr"), r"ibv_reg_(?:dmabuf_)?mr\w*.{0,40}(?:Bad address|Operation not supported)"
    ),
    Line(
        "neither nv_peer_mem, or nvidia_peermem detected",  # NVSHMEM's transports over InfiniBand
        shows="symptom",
        why="NVSHMEM uses another transport if it has one",
    ),
    Line(
        " work queue ",
        r"async (?:fatal )?event.{0,200}: (?:local access violation|invalid request local) work queue error"
        r"|async (?:fatal )?event.{0,200}: local work queue catastrophic error",
        shows="symptom",
        why="freed memory, and firmware that does not match the driver, show the same",
    ),
    Line(
        "ibv_poll_cq failed",
        shows="symptom",
        why="status 12 means a peer that does not answer, status 4 memory that the adapter may not read",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes without GPUDirect RDMA, where most nodes of the same kind use it.

    Only peers show whether a machine can use it at all."""
    used_by = {node: net_channels(node) for node in cluster.nodes}
    direct = [node for node, used in used_by.items() if used and all(MARK in name for name in used)]
    without = [node for node, used in used_by.items() if used and not any(MARK in name for name in used)]
    affected = [node for node in without if any(kind(node) == kind(other) for other in direct)]
    if affected and len(affected) == len(without) < len(direct):
        yield Finding.about(
            affected,
            f"NCCL on {names_of(affected)} does not use GPUDirect RDMA; the other nodes do.",
            evidence=[
                f"{node.name}: {', '.join(evidence_parts(node, used_by[node]))}" for node in (*affected, *direct[:1])
            ],
            fixes=remedies(affected),
            severity="warn",
        )


def evidence_parts(node: Node, names: list[str]) -> list[str]:
    loaded = gpus.driver(node).peermem
    module = [] if loaded is None else [f"nvidia-peermem is {'' if loaded else 'not '}loaded"]
    return [f"channels via {', '.join(names)}", *module]


def remedies(nodes: list[Node]) -> list[Fix]:
    """Return the fixes for nodes without the module (or unknown), and for nodes with it."""
    have = [node for node in nodes if gpus.driver(node).peermem]
    lack = [node for node in nodes if node not in have]
    fixes = [Fix.on(lack, FIX, commands=("modprobe nvidia-peermem",))] if lack else []
    return [*fixes, Fix.on(have, FIX_PCIE)] if have else fixes


def net_channels(node: Node) -> list[str]:
    """Return the transports of the channels to other nodes that use an adapter."""
    logs = (rank.nccl for rank in node.facts.ranks if rank.nccl is not None)
    networks = (name for log in logs for name in log.channels if name.startswith("NET/") and name != "NET/Socket")
    return sorted({*networks})


def kind(node: Node) -> tuple[str, ...]:
    """Return the GPU models of the node and its network devices."""
    logs = (rank.nccl for rank in node.facts.ranks if rank.nccl is not None)
    models = {gpu.name for gpu in gpus.visible_gpus(node)}
    return (*sorted(models), *sorted({device for log in logs for device in log.devices}))
