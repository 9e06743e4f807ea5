"""NCCL takes TCP sockets where there is InfiniBand or RoCE.

What you see
------------
`NCCL INFO Using network Socket` although `ibstat` shows active ports; a multi-node job at a tenth of its speed.

Why it happens
--------------
NCCL's own words in the check's group say that it uses sockets, and no setting asks for that: the container's image has
no libibverbs (`Failed to open libibverbs.so[.1]`), or not the adapter's own library (rdma-core's providers), or a
plugin that is named cannot be loaded. NCCL then goes on with sockets without an error. Where only some nodes do, the
others' connections to them cannot be made.

Fix
---
Install rdma-core (Debian: libibverbs1 and ibverbs-providers) in the image or on the node. `ibv_devinfo`, in the job's
own environment, shows what NCCL can use.

When it is harmless
-------------------
Where the job is to use TCP: NCCL_NET=Socket or NCCL_IB_DISABLE=1 says so.

See also
--------
nccl/rdma-device-missing, nccl/infiniband-link
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, names_of, rdma

SEVERITY = "warn"
MATTERS = "data between nodes goes over TCP, much slower"
PREVENTS = "nccl group formed"
SOCKET = "Socket"
FIX = (
    "Install rdma-core (Debian: libibverbs1, ibverbs-providers) in the job's image; ibv_devinfo shows what it can use."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    said = {node: networks(node) for node in cluster.nodes if rdma.uses_rdma(cluster, node)}
    plain = [node for node, names in said.items() if names == {SOCKET} and rdma.openable(node)]
    found = [node for node in plain if rdma.active_ports(node)]
    others = [node for node, names in said.items() if names and SOCKET not in names]
    if found:
        yield Finding.about(
            found,
            f"NCCL on {names_of(found)} uses TCP sockets, and not the RDMA ports that are active there.",
            severity="fail" if others else "warn",
            evidence=[line for node in found for line in evidence(node)],
            fixes=[Fix.on(found, FIX, commands=("ibv_devinfo",))],
        )


def networks(node: Node) -> set[str]:
    """What carries the data of the node's ranks, as their NCCL said."""
    return {rank.nccl.network for rank in node.facts.ranks if rank.nccl is not None and rank.nccl.network}


def evidence(node: Node) -> list[str]:
    notes = dict.fromkeys(note for rank in node.facts.ranks if rank.nccl is not None for note in rank.nccl.notes)
    ports = f"{node.name}: active: {rdma.ports_said(rdma.active_ports(node))}; NCCL: Using network {SOCKET}"
    return [ports, *(f"{node.name}: NCCL: {note}" for note in list(notes)[:2])]
