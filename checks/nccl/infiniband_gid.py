"""NCCL uses a GID that the fabric does not route.

## What you see
`NCCL WARN Call to ibv_modify_qp failed with error Invalid argument` (or `No such device`).

## Why it happens
On RoCE, the GID index selects the address and version of a connection. The default entry is link-local or not routed,
or the index does not exist on that port. Without an index, NCCL from 2.21 on looks for a RoCE v2 entry with an IPv4
address. On a port without an IPv4 address it takes the link-local entry, which cannot connect to the other kind.

## Fix
On every node, set the index of the routable RoCE v2 GID: `export NCCL_IB_GID_INDEX=3`. With NCCL 2.21 or later,
`unset NCCL_IB_GID_INDEX` works as well.

## Confirm with
`show_gids` on every node (the index must be v2 with an IPv4 address on all).

## When it is harmless
Never.

## See also
nccl/infiniband-unreachable, nccl/infiniband-link
"""

from collections import Counter

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of, rdma, some_of

SEVERITY = "fail"
MATTERS = "a connection over such a port fails if NCCL uses it"
PREVENTS = "nccl group formed"
NEXT = ("the GIDs of each port", "show_gids")
LOG = (
    Line("ibv_modify_qp", "ibv_modify_qp (?:failed|returned).{0,20}(?:Invalid argument|No such device)"),
    Line(
        "ibv_modify_qp",
        "ibv_modify_qp (?:failed|returned)",
        # an unreachable peer: nccl/infiniband-unreachable
        unless="Connection timed out|Network is unreachable|Invalid argument|No such device",
        shows="symptom",
        why="a wrong GID, a link that is down and a peer that died show the same",
    ),
    Line("ibv_query_gid", "ibv_query_gid.{0,40} failed"),
)
LOOKS_AT = ("ranks.devices", "everyone")
ADDRESS = (
    "Give the interfaces of the RoCE ports an IPv4 address on every node (containers: use the host's network). "
    "Confirm with: `show_gids`, `ip -br address`."
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    index_of = {
        node: index
        for node in cluster.nodes
        if rdma.uses_rdma(cluster, node) and (index := rdma.gid_index(node.variables)) is not None
    }
    empty = [node for node in index_of if without_entry(node, index_of[node])]
    if empty:
        yield Finding.about(
            empty,
            f"{rdma.GID_INDEX} names no GID on {names_of(empty)}.",
            evidence=[
                f"{node.name}: {rdma.GID_INDEX}={index_of[node]}; {port.name} has {table(port)}"
                for node in empty
                for port in without_entry(node, index_of[node])[:1]
            ],
            fixes=remedies(list(index_of)),
        )
    yield from search_differs(cluster)
    kinds = {node: kind(node, index_of[node]) for node in index_of if node not in empty}
    kinds = {node: name for node, name in kinds.items() if name}
    if len(set(kinds.values())) < 2:
        return
    (usual, count), *_ = Counter(kinds.values()).most_common()
    sure = count * 2 > len(kinds)
    differing = [node for node in kinds if not sure or kinds[node] != usual]
    yield Finding.about(
        differing,
        f"{rdma.GID_INDEX} selects addresses of different kinds: {names_of(differing)} "
        + ("differ from the other nodes." if sure else "differ from each other."),
        unsure=not sure,
        evidence=[f"{node.name}: {rdma.GID_INDEX}={index_of[node]}: {kinds[node]}" for node in kinds],
        fixes=remedies(list(kinds)),
    )


def search_differs(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes where NCCL's own search picks another kind of address than on most nodes.

    Two kinds cannot connect."""
    nodes = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node)]
    kinds = {node: by_port for node in nodes if (by_port := rdma.kinds_looked_for(node))}
    uniform = {node: next(iter(by_port.values())) for node, by_port in kinds.items() if len({*by_port.values()}) == 1}
    # A setting on some nodes only is a finding of environment/setting-mismatch.
    if not uniform or gpus.nccl_made(cluster.nodes) or rdma.differ_by_settings(cluster):
        return
    (usual, count), *_ = Counter(uniform.values()).most_common()
    sure = count * 2 > len(kinds)
    for node, by_port in kinds.items():
        other = {port: kind for port, kind in by_port.items() if kind != usual}
        if sure and node not in uniform and len(other) < len(by_port):
            yield Finding.about(
                [node],
                f"NCCL picks another kind of address on {some_of(list(other), 4)} of {node.name} than on the other "
                "nodes.",
                evidence=[f"{node.name}: {port}: {kind}; usual: {usual}" for port, kind in other.items()],
                fixes=[Fix.on(node, ADDRESS)],
                severity="warn",
            )
    if len(set(uniform.values())) < 2:
        return
    differing = [node for node, name in uniform.items() if not sure or name != usual]
    yield Finding.about(
        differing,
        f"NCCL picks addresses of different kinds on the RoCE ports: {names_of(differing)} "
        + ("differ from the other nodes." if sure else "differ from each other."),
        unsure=not sure,
        evidence=[
            f"{node.name}: {name}; {port.name} has {table(port)}"
            for node, name in uniform.items()
            for port, _ in entries(node, -1)[:1]
        ],
        fixes=[Fix.on(differing, ADDRESS)],
    )


def entries(node: Node, index: int) -> list[tuple[rdma.RdmaPort, rdma.Gid | None]]:
    """Return each RoCE port that NCCL would use, with its GID of that index; InfiniBand ports use no index."""
    return [(port, next((g for g in port.gids if g.index == index), None)) for port in rdma.roce_ports(node)]


def without_entry(node: Node, index: int) -> list[rdma.RdmaPort]:
    return [port for port, gid in entries(node, index) if gid is None]


def kind(node: Node, index: int) -> str:
    """Return version and kind of the addresses if all ports have the same; else an empty text."""
    kinds = {f"RoCE v{gid.version}, {rdma.kind_of_address(gid.address)}" for _, gid in entries(node, index) if gid}
    return kinds.pop() if len(kinds) == 1 else ""


def table(port: rdma.RdmaPort) -> str:
    return ", ".join(f"{gid.index}: {gid.address} (v{gid.version or '?'})" for gid in port.gids[:8])


def remedies(nodes: list[Node]) -> list[Fix]:
    """Return the fixes: the routed RoCE v2 entry that every port of every node has; and NCCL's own search."""
    fixes = list[Fix]()
    routed = [
        {gid.index for gid in port.gids if gid.version == "2" and rdma.kind_of_address(gid.address) == "IPv4"}
        for node in nodes
        for port, _ in entries(node, -1)
    ]
    common = sorted(set.intersection(*routed)) if routed else []
    if common:
        fixes.append(
            Fix.on(
                nodes,
                f"Set {rdma.GID_INDEX} to {common[0]}, the routed RoCE v2 entry of every port.",
                env={rdma.GID_INDEX: str(common[0])},
            )
        )
    if all(rdma.looks_itself(node) for node in nodes):
        fixes.append(
            Fix.on(
                nodes,
                f"Unset {rdma.GID_INDEX}; NCCL then finds the entry itself.",
                option=len(fixes) + 1,
                env={rdma.GID_INDEX: None},
            )
        )
    return fixes
