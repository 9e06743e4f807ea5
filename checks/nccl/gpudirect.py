"""GPUDirect RDMA does not work.

What you see
------------
`NCCL WARN NET/IB : ... vendor err 81` with local protection or access errors; `nv_peer_mem` missing.

Why it happens
--------------
The HCA cannot reach the GPU's memory: no nvidia-peermem, ACS on, an IOMMU in between.

Fix
---
modprobe nvidia-peermem; turn ACS off on the PCIe switches; NCCL_NET_GDR_LEVEL=0 to prove it.

When it is harmless
-------------------
Never.

See also
--------
nccl/p2p-broken, nccl/infiniband-unreachable
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of

SEVERITY = "fail"
MATTERS = "what its GPUs send and receive is copied through the host's memory first, as on no other node"
PREVENTS = "nccl group formed"
NEXT = ("whether the module is loaded", "lsmod | grep peermem")
MARK = "/GDRDMA"
FIX = "Load the module that gives the adapter the GPU's memory (modprobe nvidia-peermem), as the other nodes have it."
FIX_PCIE = (
    "The module is loaded there: set NCCL_DEBUG_SUBSYS=INIT,NET,GRAPH to see why NCCL does without it, and compare the "
    "slots of adapters and GPUs (nvidia-smi topo -m), ACS and the IOMMU with those of another node."
)
LOG = (
    Line(("vendor err 81", "vendor_err=81")),
    Line(
        ("ibv_reg_mr", "ibv_reg_dmabuf_mr"), r"ibv_reg_(?:dmabuf_)?mr\w*.{0,40}(?:Bad address|Operation not supported)"
    ),
    Line(
        "neither nv_peer_mem, or nvidia_peermem detected",  # NVSHMEM's transports over InfiniBand
        shows="symptom",
        why="NVSHMEM does without that transport where it has another",
    ),
    Line(
        " work queue ",
        r"async (?:fatal )?event.{0,200}: (?:local access violation|invalid request local) work queue error"
        r"|async (?:fatal )?event.{0,200}: local work queue catastrophic error",
        shows="symptom",
        why="memory that was given back, and firmware that does not go with the driver, show the same",
    ),
    Line(
        "ibv_poll_cq failed",
        shows="symptom",
        why="status 12 is a peer that does not answer, 4 memory that the adapter may not read",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    """A node whose channels to other nodes do without, where those of most alike nodes do not: whether a machine can
    have it at all is known by its likes alone."""
    sent = {node: ways(node) for node in cluster.nodes}
    direct = [node for node, used in sent.items() if used and all(MARK in way for way in used)]
    without = [node for node, used in sent.items() if used and not any(MARK in way for way in used)]
    alike = [node for node in without if any(kind(node) == kind(other) for other in direct)]
    if alike and len(alike) == len(without) < len(direct):
        yield Finding.about(
            alike,
            f"NCCL on {names_of(alike)} does without GPUDirect RDMA, which the other nodes use.",
            evidence=[f"{node.name}: {', '.join(said(node, sent[node]))}" for node in (*alike, *direct[:1])],
            fixes=remedies(alike),
            severity="warn",
        )


def said(node: Node, ways: list[str]) -> list[str]:
    loaded = gpus.driver(node).peermem
    module = [] if loaded is None else [f"nvidia-peermem is {'' if loaded else 'not '}loaded"]
    return [f"channels via {', '.join(ways)}", *module]


def remedies(nodes: list[Node]) -> list[Fix]:
    """For those that lack the module, or may; and for those that have it."""
    have = [node for node in nodes if gpus.driver(node).peermem]
    lack = [node for node in nodes if node not in have]
    fixes = [Fix.on(lack, FIX, commands=("modprobe nvidia-peermem",))] if lack else []
    return [*fixes, Fix.on(have, FIX_PCIE)] if have else fixes


def ways(node: Node) -> list[str]:
    """Return how the channels of its ranks to other nodes go, where they go over an adapter."""
    logs = (rank.nccl for rank in node.facts.ranks if rank.nccl is not None)
    found = {way for log in logs for way in log.channels if way.startswith("NET/") and way != "NET/Socket"}
    return sorted(found)


def kind(node: Node) -> tuple[str, ...]:
    """Its models of GPUs, and the devices of its network."""
    logs = (rank.nccl for rank in node.facts.ranks if rank.nccl is not None)
    models = {gpu.name for gpu in gpus.visible_gpus(node)}
    return (*sorted(models), *sorted({device for log in logs for device in log.devices}))
