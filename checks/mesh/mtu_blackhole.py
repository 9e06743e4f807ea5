"""Large packets never arrive.

## What you see
init_process_group(), the barrier and small collectives work. The first larger one hangs in silence, until

    Timed out waiting 1800000ms for recv operation to complete

## Why it happens
The hosts send larger packets than some part of the path carries, and a firewall drops the ICMP messages that report
it. Typical are jumbo frames on a switch without them, and a tunnel, VPN or overlay network that needs 50 to 80 bytes
for itself. Or a packet filter drops by length.

## Fix
Set one MTU along the whole path: `ip link set dev eth0 mtu 1500` on every node (1280 behind a tunnel). If a packet
filter drops by length, accept the other nodes before that rule.

## Confirm with
`ping -M do -s 1472 -c 1 10.0.0.11` (fails if the path carries less than 1500 bytes).

## When it is harmless
Never for a job that exchanges tensors.

## See also
mesh/slow-link, mesh/packet-loss, mesh/peer-ports-blocked
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    FailingLink,
    FilterHook,
    Finding,
    Fix,
    Node,
    blamed_for_links,
    data_interface,
    link_graph,
    open_firewall_fix,
    own_addresses_filtered,
    some_of,
    source_addresses,
)

SEVERITY = "fail"
MATTERS = "the planned job does not use these addresses; a job that does would hang"
PREVENTS = "peers connected"
FOLLOWS = ("network/port-filtered", "network/duplicate-address", "mesh/node-isolated", "mesh/partition")
ETHERNET = 1500
SMALLEST = 1280
"""The MTU that every IPv6 path must carry; tunnels leave room for it."""
LENGTH = re.compile(r"\blength\b|--length")
SHOWN = 8
MAX_LINKS = 64

Blamed = tuple[tuple[Node, ...], bool]


def judge(cluster: Cluster) -> Iterator[Finding]:
    for common, edges, unsure in blamed_for_links(cluster, link_graph(cluster).stalled, all_pairs=True):
        yield finding(cluster, edges, common, unsure)


def finding(cluster: Cluster, edges: list[FailingLink], common: tuple[Node, ...], unsure: bool) -> Finding:
    ruled = {edge: node for edge in edges if (node := dropping(edge)) is not None}
    nodes, unsure = culprits(cluster, edges, ruled, common, unsure)
    used = any(set(edge.link.use) & {"gloo", "nccl"} for edge in edges)
    arrows = some_of(dict.fromkeys(f"{edge.source.name} to {edge.target.name}" for edge in edges), 6)
    size = min((edge.link.swallowed for edge in edges if edge.link.swallowed), default=None)
    loss = f"payloads of {size} bytes never arrive" if size else "large payloads never arrive"
    return Finding.about(
        nodes,
        f"From {arrows}, small payloads arrive and {loss}.",
        ranks=(),
        links=((edge.source.name, edge.target.name) for edge in edges[:MAX_LINKS]),
        unsure=unsure,
        severity="fail" if used else "warn",
        evidence=evidence(edges, nodes),
        fixes=fixes(cluster, edges, nodes, ruled, unsure),
    )


def dropping(edge: FailingLink) -> Node | None:
    """Return the end of the link whose packet filter drops by length."""
    ends: tuple[tuple[Node, FilterHook], ...] = ((edge.target, "input"), (edge.source, "output"))
    return next((node for node, hook in ends if rules(node, hook)), None)


def rules(node: Node, hook: FilterHook) -> tuple[str, ...]:
    return tuple(rule for c in node.filter_chains if c.hook == hook for rule in c.blocking_rules if LENGTH.search(rule))


def culprits(
    cluster: Cluster, edges: list[FailingLink], ruled: dict[FailingLink, Node], common: tuple[Node, ...], unsure: bool
) -> Blamed:
    """Return (nodes to blame, whether it is one of them): by filters, by a larger MTU, by the common node."""
    accused = set(ruled.values())
    if len(ruled) == len(edges):
        return tuple(node for node in cluster.nodes if node in accused), False
    ends = {node for edge in edges for node in (edge.source, edge.target)}
    large = {node for node in ends if data_interface(node)[1] > ETHERNET}
    # If only the path to some nodes is concerned, large packets pass between the others.
    partial = not unsure and len(large - {*common}) > 1
    if not partial and all(edge.source in large and edge.target in large for edge in edges):
        return tuple(node for node in cluster.nodes if node in large), False
    return common, unsure


def evidence(edges: list[FailingLink], nodes: tuple[Node, ...]) -> Iterator[str]:
    for edge in edges[:SHOWN]:
        size = f"{edge.link.swallowed} bytes" if edge.link.swallowed else "a large payload"
        yield f"{edge.source.name} to {edge.target.name}: {edge.link.address}: connected; {size} never arrived"
    if len(edges) > SHOWN:
        yield f"and {len(edges) - SHOWN} other links"
    ends = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
    for node in list(ends)[:SHOWN]:
        name, mtu = data_interface(node)
        if name is not None:
            yield f"{node.name}: the MTU of {name} is {mtu}"
    for node in nodes[:SHOWN]:
        for hook in ("input", "output"):
            for rule in rules(node, hook):
                yield f"{node.name}: its packet filter drops by length ({hook}): {rule}"


def fixes(
    cluster: Cluster, edges: list[FailingLink], nodes: tuple[Node, ...], ruled: dict[FailingLink, Node], unsure: bool
) -> Iterator[Fix]:
    for number, node in enumerate(nodes[:MAX_LINKS], start=1):
        option = number if unsure else 1
        if node in ruled.values():
            hook: FilterHook = "input" if rules(node, "input") else "output"
            pairs = [edge for edge in edges if node in (edge.source, edge.target)]
            others = dict.fromkeys(n for e in pairs for n in (e.source, e.target) if n is not node)
            peers = dict.fromkeys(address for other in others for address in source_addresses(cluster, other))
            addresses = [*peers, *own_addresses_filtered(cluster, node)]
            yield open_firewall_fix(node, node.name, hook, addresses, None, option)
            continue
        name, mtu = data_interface(node)
        wanted = usual_mtu(cluster, node) if mtu > ETHERNET else SMALLEST
        text = f"On {node.name}, set the MTU of {name or 'the interface'} to {wanted}."
        yield Fix.on(node, text, option, commands=(f"ip link set dev {name} mtu {wanted}",) if name else ())


def usual_mtu(cluster: Cluster, node: Node) -> int:
    """Return the MTU for an interface with jumbo frames: that of the nodes without them, else Ethernet's."""
    others = [mtu for peer in cluster.peers(node) if 0 < (mtu := data_interface(peer)[1]) <= ETHERNET]
    return max(set(others), key=others.count) if others else ETHERNET
