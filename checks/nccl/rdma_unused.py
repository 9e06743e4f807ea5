"""NCCL uses TCP sockets although InfiniBand or RoCE is active.

## What you see
`NCCL INFO Using network Socket` although `ibstat` shows active ports; a multi-node job at a tenth of its speed.

## Why it happens
NCCL in the check's group reports sockets, and no setting requests them. The image lacks libibverbs
(`Failed to open libibverbs.so[.1]`) or the adapter's own library (rdma-core's providers), or a named plugin cannot be
loaded. NCCL then uses sockets without an error. If only some nodes do so, the others cannot connect to them. The same
holds if only some nodes have a plugin (aws-ofi-nccl, gIB, HPC-X).

## Fix
Install rdma-core in the image or on the node: `apt-get install libibverbs1 ibverbs-providers`.

## Confirm with
`ibv_devinfo` in the job's environment, and `NCCL_DEBUG=INFO torchrun ... 2>&1 | grep "Using network"`.

## When it is harmless
When the job is meant to use TCP: NCCL_NET=Socket or NCCL_IB_DISABLE=1 requests it.

## See also
nccl/rdma-device-missing, nccl/infiniband-link
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, disagreement, failed_ranks, names_of, rdma, together

SEVERITY = "warn"
LOG = (
    Line(  # distdoctor's own line about each rank's NCCL
        "settings: the ranks' NCCL took different networks",
        shows="hint",
        why="on a single host NCCL does not use the network",
    ),
)
MATTERS = "data between nodes goes over TCP, much slower"
PREVENTS = "nccl group formed"
SOCKET, OWN = "Socket", "IB"
LIBRARY = "libibverbs"
FIX_LIBRARY = "Install rdma-core in the job's image: `apt-get install libibverbs1 ibverbs-providers`. Confirm with:"
FIX_LOOK = (
    "Fix what NCCL reports before it uses sockets: run with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET. "
    "Confirm in the job's environment with:"
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    networks_of = {node: networks(node) for node in cluster.nodes if rdma.uses_rdma(cluster, node)}
    plain = [node for node, names in networks_of.items() if names == {SOCKET} and rdma.openable(node)]
    affected = [node for node in plain if rdma.active_ports(node)]
    others = [node for node, names in networks_of.items() if names and SOCKET not in names]
    if affected:
        yield Finding.about(
            affected,
            f"NCCL on {names_of(affected)} uses TCP sockets although RDMA ports are active there.",
            severity="fail" if others else "warn",
            evidence=[line for node in affected for line in evidence(node)],
            fixes=remedies(affected, {name for node in others for name in networks_of[node]}),
        )
    else:
        yield from different_networks(cluster)


def different_networks(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes with another NCCL network than the others, if their group failed.

    A plugin (AWS, Google, HPC-X) connects only to nodes with the same plugin."""
    nodes = {node.name: node for node in cluster.nodes}
    differing = disagreement({name: its.pop() for name, node in nodes.items() if len(its := networks(node)) == 1})
    if differing is None or not failed_ranks(cluster, "nccl"):
        return
    blamed = [nodes[name] for name in differing.blamed]
    others_use = {differing.usual} if differing.majority else set(differing.values.values())
    yield Finding.about(
        blamed,
        f"NCCL uses different networks: {differing.said()}.",
        title="NCCL uses different networks on the nodes",
        unsure=not differing.majority,
        severity="fail",
        evidence=[
            *(f"{name}: NCCL: Using network {its}" for name, its in differing.values.items()),
            *(f"{node.name}: NCCL: {note}" for node in blamed for note in notes(node)[:2]),
        ],
        fixes=remedies(blamed, others_use),
    )


def remedies(nodes: list[Node], others_use: set[str]) -> Iterator[Fix]:
    """Yield the fixes: a missing plugin or library if NCCL or the other nodes show it; else how to find it."""
    plugins = sorted(others_use - {OWN, SOCKET})
    if plugins:
        text = (
            f"Install the network plugin {together(plugins)} on {names_of(nodes)}, as on the other nodes, or remove "
            "it there"
        )
        yield Fix.on(nodes, f"{text}. Confirm with: `echo $LD_LIBRARY_PATH $NCCL_NET_PLUGIN` on both.")
        return
    without = [node for node in nodes if any(LIBRARY in note for note in notes(node))]
    if without:
        yield Fix.on(without, FIX_LIBRARY, commands=("ibv_devinfo",))
    if rest := [node for node in nodes if node not in without]:
        yield Fix.on(rest, FIX_LOOK, commands=("ibv_devinfo",))


def networks(node: Node) -> set[str]:
    """Return the networks that NCCL of the node's ranks reports."""
    return {rank.nccl.network for rank in node.facts.ranks if rank.nccl is not None and rank.nccl.network}


def notes(node: Node) -> list[str]:
    """Return NCCL's notes about networks that it could not use."""
    return list(dict.fromkeys(note for rank in node.facts.ranks if rank.nccl is not None for note in rank.nccl.notes))


def evidence(node: Node) -> list[str]:
    ports = f"{node.name}: active: {rdma.ports_text(rdma.active_ports(node))}; NCCL: Using network {SOCKET}"
    return [ports, *(f"{node.name}: NCCL: {note}" for note in notes(node)[:2])]
