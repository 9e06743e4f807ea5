"""A packet filter blocks some of the ports that the kernel picks.

## What you see
The same job starts on one run and hangs in init_process_group() on another.

## Why it happens
gloo and NCCL listen on ports that the kernel picks from net.ipv4.ip_local_port_range. A filter that opens a part of
that range accepts a rank only if its port is in that part. With many ranks, some rank soon gets another port.

## Fix
Set the range to the open ports: `sysctl -w net.ipv4.ip_local_port_range="40000 45000"`. Or accept the whole range from
the other nodes.

## Confirm with
`sysctl net.ipv4.ip_local_port_range` and `nft list ruleset`.

## When it is harmless
Never reliably: it depends on the ports that the ranks get.

## See also
mesh/peer-ports-blocked, network/port-filtered
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, link_graph, open_firewall_fix, some_of, source_addresses

SEVERITY = "warn"
MATTERS = "the next connection may get one of the blocked ports"
LOOKS_AT = ("mesh",)
ENOUGH = 128
"""Fewer open ports than this are meant for another purpose than the kernel's range."""
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    if graph.bad or not cluster.multi_host:
        return  # measured already: mesh/peer-ports-blocked
    nodes = [node for node in cluster.nodes if node.saw("mesh") and blocked_count(node) > 0]
    if nodes:
        yield finding(cluster, nodes)


def picked_range(node: Node) -> tuple[int, int]:
    """Return the range from which the kernel picks ports; Linux's default if it is unknown."""
    return node.limits.port_range or (32768, 60999)


def open_parts(node: Node) -> list[tuple[int, int]]:
    """Return the parts of that range that the node's packet filter accepts, if it blocks others."""
    low, high = picked_range(node)
    known = node.network.firewall.open_ports if node.network.firewall else ()
    return [(max(low, first), min(high, last)) for first, last in known if max(low, first) <= min(high, last)]


def blocked_count(node: Node) -> int:
    """Return the number of ports in that range that the filter blocks; 0 if too few are open."""
    low, high = picked_range(node)
    opened = sum(last - first + 1 for first, last in open_parts(node))
    return high - low + 1 - opened if opened >= ENOUGH else 0


def finding(cluster: Cluster, nodes: list[Node]) -> Finding:
    fixes = []
    for node in nodes:
        peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
        fixes.append(open_firewall_fix(node, node.name, "input", peers, None))
    for node in nodes:
        first, last = max(open_parts(node), key=lambda part: part[1] - part[0])
        text = f"Or make {node.name} pick its ports from the open range."
        command = f"sysctl -w net.ipv4.ip_local_port_range='{first} {last}'"
        fixes.append(Fix.on(node, text, 2, commands=(command,)))
    return Finding.about(
        nodes,
        f"The packet filter of {some_of(node.name for node in nodes)} blocks some of the ports that the kernel picks.",
        ranks=(),
        evidence=map(evidence_line, nodes),
        fixes=fixes,
    )


def evidence_line(node: Node) -> str:
    low, high = picked_range(node)
    parts = some_of((f"{first}-{last}" for first, last in open_parts(node)), SHOWN)
    return f"{node.name}: of {low}-{high} its packet filter accepts {parts} and blocks {blocked_count(node)} ports"
