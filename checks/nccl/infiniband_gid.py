"""NCCL uses a GID that the fabric does not route.

What you see
------------
`NCCL WARN Call to ibv_modify_qp failed with error Invalid argument` (or `No such device`).

Why it happens
--------------
On RoCE, the GID index decides which address and version a connection uses; the default is link-local or not routed, or
the index does not exist on that port. Where it is not set, NCCL from 2.21 on looks for a RoCE v2 entry of an IPv4
address: on a node whose port has no address it takes the link-local one, which nothing of the other kind can be
connected to.

Fix
---
NCCL_IB_GID_INDEX of the routable RoCE v2 GID (show_gids), the same on all nodes; or leave it unset with NCCL 2.21 and
later.

When it is harmless
-------------------
Never.

See also
--------
nccl/infiniband-unreachable, nccl/infiniband-link
"""

from collections import Counter
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, rdma, some_of

SEVERITY = "fail"
MATTERS = "a connection over such a port fails, where NCCL takes it"
PREVENTS = "nccl group formed"
NEXT = ("the GIDs of each port", "show_gids")
LOG = (
    Line("ibv_modify_qp", "ibv_modify_qp (?:failed|returned).{0,20}(?:Invalid argument|No such device)"),
    Line(
        "ibv_modify_qp",
        "ibv_modify_qp (?:failed|returned)",
        # the peer is not reached: nccl/infiniband-unreachable
        unless="Connection timed out|Network is unreachable|Invalid argument|No such device",
        shows="symptom",
        why="the adapter's reason is not in it: a wrong GID, a link that is down and a peer that is gone show the same",
    ),
    Line("ibv_query_gid", "ibv_query_gid.{0,40} failed"),
)
LOOKS_AT = ("ranks.devices", "everyone")
ADDRESS = (
    "Give the RoCE ports' network interfaces addresses of one kind on all nodes, IPv4 as a rule, with RoCE v2 "
    "(show_gids; ip addr); a container needs the host's network for them."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    asked = {
        node: index
        for node in cluster.nodes
        if rdma.uses_rdma(cluster, node) and (index := rdma.gid_index(node.variables)) is not None
    }
    empty = [node for node in asked if without_entry(node, asked[node])]
    if empty:
        yield Finding.about(
            empty,
            f"{rdma.GID_INDEX} names no GID of {names_of(empty)}.",
            evidence=[
                f"{node.name}: {rdma.GID_INDEX}={asked[node]}; {port.name} has {table(port)}"
                for node in empty
                for port in without_entry(node, asked[node])[:1]
            ],
            fixes=remedies(list(asked)),
        )
    yield from looked_for(cluster)
    kinds = {node: kind(node, asked[node]) for node in asked if node not in empty}
    kinds = {node: found for node, found in kinds.items() if found}
    if len(set(kinds.values())) < 2:
        return
    (usual, count), *_ = Counter(kinds.values()).most_common()
    sure = count * 2 > len(kinds)
    apart = [node for node in kinds if not sure or kinds[node] != usual]
    yield Finding.about(
        apart,
        f"{rdma.GID_INDEX} leads to addresses of different kinds: on {names_of(apart)}"
        + (" not to that of the others." if sure else " not to the same."),
        unsure=not sure,
        evidence=[f"{node.name}: {rdma.GID_INDEX}={asked[node]}: {kinds[node]}" for node in kinds],
        fixes=remedies(list(kinds)),
    )


def looked_for(cluster: Cluster) -> Iterator[Finding]:
    """Nodes of whose ports NCCL, which looks itself, takes another kind of address than of those of most nodes: two
    kinds cannot be connected."""
    nodes = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node)]
    kinds = {node: its for node in nodes if (its := rdma.kinds_looked_for(node))}
    found = {node: next(iter(its.values())) for node, its in kinds.items() if len(set(its.values())) == 1}
    # What a setting on some nodes alone does is told as that: environment/setting-mismatch.
    if not found or gpus.nccl_made(cluster.nodes) or rdma.differ_by_settings(cluster):
        return
    (usual, count), *_ = Counter(found.values()).most_common()
    sure = count * 2 > len(kinds)
    for node, its in kinds.items():
        other = {port: kind for port, kind in its.items() if kind != usual}
        if sure and node not in found and len(other) < len(its):
            yield Finding.about(
                [node],
                f"On {some_of(list(other), 4)} of {node.name} NCCL finds another kind of address than on the others.",
                evidence=[f"{node.name}: {port}: {kind}; usual: {usual}" for port, kind in other.items()],
                fixes=[Fix.on(node, ADDRESS)],
                severity="warn",
            )
    if len(set(found.values())) < 2:
        return
    apart = [node for node, its in found.items() if not sure or its != usual]
    yield Finding.about(
        apart,
        f"NCCL finds addresses of different kinds on the RoCE ports: on {names_of(apart)}"
        + (" not that of the others." if sure else " not the same."),
        unsure=not sure,
        evidence=[
            f"{node.name}: {its}; {port.name} has {table(port)}"
            for node, its in found.items()
            for port, _ in entries(node, -1)[:1]
        ],
        fixes=[Fix.on(apart, ADDRESS)],
    )


def entries(node: Node, index: int) -> list[tuple[rdma.RdmaPort, rdma.Gid | None]]:
    """Each RoCE port that NCCL would take, and what the index leads to there: InfiniBand's do not ask for it."""
    return [(port, next((g for g in port.gids if g.index == index), None)) for port in rdma.roce_ports(node)]


def without_entry(node: Node, index: int) -> list[rdma.RdmaPort]:
    return [port for port, gid in entries(node, index) if gid is None]


def kind(node: Node, index: int) -> str:
    """Version and kind of the addresses, where all ports have the same."""
    said = {f"RoCE v{gid.version}, {rdma.kind_of_address(gid.address)}" for _, gid in entries(node, index) if gid}
    return said.pop() if len(said) == 1 else ""


def table(port: rdma.RdmaPort) -> str:
    return ", ".join(f"{gid.index}: {gid.address} (v{gid.version or '?'})" for gid in port.gids[:8])


def remedies(nodes: list[Node]) -> list[Fix]:
    """The one entry that is routed RoCE v2 on every port of every node; and to let NCCL look, where it can."""
    fixes = list[Fix]()
    routed = [
        {gid.index for gid in port.gids if gid.version == "2" and rdma.kind_of_address(gid.address) == "IPv4"}
        for node in nodes
        for port, _ in entries(node, -1)
    ]
    common = sorted(set.intersection(*routed)) if routed else []
    if common:
        fixes.append(
            Fix.on(nodes, "The routed RoCE v2 entry that every port has.", env={rdma.GID_INDEX: str(common[0])})
        )
    if all(rdma.looks_itself(node) for node in nodes):
        fixes.append(Fix.on(nodes, "Let NCCL look for it.", option=len(fixes) + 1, env={rdma.GID_INDEX: None}))
    return fixes
