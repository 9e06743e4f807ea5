"""NCCL takes TCP sockets where there is InfiniBand or RoCE.

What you see
------------
`NCCL INFO Using network Socket` although `ibstat` shows active ports; a multi-node job at a tenth of its speed.

Why it happens
--------------
NCCL's own words in the check's group say that it uses sockets, and no setting asks for that: the container's image has
no libibverbs (`Failed to open libibverbs.so[.1]`), or not the adapter's own library (rdma-core's providers), or a
plugin that is named cannot be loaded. NCCL then goes on with sockets without an error. Where only some nodes do, the
others' connections to them cannot be made; nor can those of nodes of which some have a plugin (aws-ofi-nccl, gIB,
HPC-X), and others have not.

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

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, disagreement, failed_ranks, names_of, rdma, together

SEVERITY = "warn"
LOG = (
    Line(  # distdoctor's own, of what each rank's NCCL said
        "settings: the ranks' NCCL took different networks",
        shows="hint",
        why="on one host alone the network carries nothing",
    ),
)
MATTERS = "data between nodes goes over TCP, much slower"
PREVENTS = "nccl group formed"
SOCKET, OWN = "Socket", "IB"
LIBRARY = "libibverbs"
FIX_LIBRARY = (
    "Install rdma-core (Debian: libibverbs1, ibverbs-providers) in the job's image; ibv_devinfo shows what it can use."
)
FIX_LOOK = (
    "See in the job's own environment what a program can use of these ports, and with NCCL_DEBUG=INFO "
    "NCCL_DEBUG_SUBSYS=INIT,NET what NCCL tried before it took sockets."
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
            fixes=remedies(found, {name for node in others for name in said[node]}),
        )
    else:
        yield from of_several(cluster)


def of_several(cluster: Cluster) -> Iterator[Finding]:
    """Nodes whose NCCL took another network than that of the others, where their group then failed: a plugin that is
    installed on some of them (AWS, Google, HPC-X) talks to none but its like."""
    nodes = {node.name: node for node in cluster.nodes}
    apart = disagreement({name: its.pop() for name, node in nodes.items() if len(its := networks(node)) == 1})
    if apart is None or not failed_ranks(cluster, "nccl"):
        return
    blamed = [nodes[name] for name in apart.blamed]
    elsewhere = {apart.usual} if apart.majority else set(apart.values.values())
    yield Finding.about(
        blamed,
        f"NCCL takes different networks: {apart.said()}.",
        title="The nodes' NCCL takes different networks",
        unsure=not apart.majority,
        severity="fail",
        evidence=[
            *(f"{name}: NCCL: Using network {its}" for name, its in apart.values.items()),
            *(f"{node.name}: NCCL: {note}" for node in blamed for note in notes(node)[:2]),
        ],
        fixes=remedies(blamed, elsewhere),
    )


def remedies(nodes: list[Node], elsewhere: set[str]) -> Iterator[Fix]:
    """Return what NCCL itself, or the other nodes, say is missing; else how to see it."""
    plugins = sorted(elsewhere - {OWN, SOCKET})
    if plugins:
        text = f"Have the network plugin {together(plugins)} on all nodes, or on none: on {names_of(nodes)} its library"
        yield Fix.on(nodes, f"{text} on LD_LIBRARY_PATH, and NCCL_NET_PLUGIN, as where it is found.")
        return
    without = [node for node in nodes if any(LIBRARY in note for note in notes(node))]
    if without:
        yield Fix.on(without, FIX_LIBRARY, commands=("ibv_devinfo",))
    if rest := [node for node in nodes if node not in without]:
        yield Fix.on(rest, FIX_LOOK, commands=("ibv_devinfo",))


def networks(node: Node) -> set[str]:
    """Return what carries the data of the node's ranks, as their NCCL said."""
    return {rank.nccl.network for rank in node.facts.ranks if rank.nccl is not None and rank.nccl.network}


def notes(node: Node) -> list[str]:
    """Return what its NCCL noted of networks that it could not take."""
    return list(dict.fromkeys(note for rank in node.facts.ranks if rank.nccl is not None for note in rank.nccl.notes))


def evidence(node: Node) -> list[str]:
    ports = f"{node.name}: active: {rdma.ports_text(rdma.active_ports(node))}; NCCL: Using network {SOCKET}"
    return [ports, *(f"{node.name}: NCCL: {note}" for note in notes(node)[:2])]
