"""A packet filter shuts some of the ports that the kernel picks.

What you see
------------
The same job starts at one time and hangs in init_process_group() at another.

Why it happens
--------------
gloo and NCCL listen on ports that the kernel picks from net.ipv4.ip_local_port_range. A filter that opens a part of
that range lets through whoever gets a port of that part: of many ranks, sooner or later one does not.

Fix
---
Open the whole range for the other nodes, or narrow net.ipv4.ip_local_port_range to what is open.

When it is harmless
-------------------
It is never safe: it depends on which ports the ranks get.

See also
--------
mesh/peer-ports-blocked, network/port-filtered
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, link_graph, open_firewall_fix, some_of, source_addresses

SEVERITY = "warn"
MATTERS = "by chance: the next connection may get one of the ports that are shut"
LOOKS_AT = ("mesh",)
ENOUGH = 128
"""Ports: fewer are open for something else, and not for what the kernel picks."""
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    if graph.bad or not cluster.multi_host:
        return  # then they were met, and that is mesh/peer-ports-blocked
    nodes = [node for node in cluster.nodes if node.saw("mesh") and shut(node) > 0]
    if nodes:
        yield finding(cluster, nodes)


def picked(node: Node) -> tuple[int, int]:
    """The ports of which the kernel gives one to who asks for any; those of Linux where that is not known."""
    return node.limits.port_range or (32768, 60999)


def inside(node: Node) -> list[tuple[int, int]]:
    """The parts of these that the node's packet filter lets in, where it shuts others."""
    low, high = picked(node)
    known = node.network.firewall.open_ports if node.network.firewall else ()
    return [(max(low, first), min(high, last)) for first, last in known if max(low, first) <= min(high, last)]


def shut(node: Node) -> int:
    """Return how many of them it shuts; 0 where too few are open for that to be meant."""
    low, high = picked(node)
    opened = sum(last - first + 1 for first, last in inside(node))
    return high - low + 1 - opened if opened >= ENOUGH else 0


def finding(cluster: Cluster, nodes: list[Node]) -> Finding:
    fixes = []
    for node in nodes:
        peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
        fixes.append(open_firewall_fix(node, node.name, "input", peers, None))
    for node in nodes:
        first, last = max(inside(node), key=lambda part: part[1] - part[0])
        text = f"Or let {node.name} pick its ports from those that are open (net.ipv4.ip_local_port_range)."
        command = f"sysctl -w net.ipv4.ip_local_port_range='{first} {last}'"
        fixes.append(Fix.on(node, text, 2, commands=(command,)))
    return Finding.about(
        nodes,
        f"The packet filter of {some_of(node.name for node in nodes)} shuts some of the ports that the kernel picks.",
        ranks=(),
        evidence=map(seen, nodes),
        fixes=fixes,
    )


def seen(node: Node) -> str:
    low, high = picked(node)
    parts = some_of((f"{first}-{last}" for first, last in inside(node)), SHOWN)
    return f"{node.name}: of {low}-{high} its packet filter lets in {parts}, and shuts {shut(node)} ports"
