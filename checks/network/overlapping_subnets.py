"""Two interfaces of a node are in one network, and the wrong one has its traffic.

What you see
------------
The node reaches nobody, or its answers reach nobody: `No route to host`, or silence, although a ping by the other
interface works. NCCL connects from an address that is in no configuration.

Why it happens
--------------
Both have an address in the same network, and the kernel sends all of that network by one of them: the one with the
smaller metric, else the one that came up first. Where that one is in another VLAN, has a dead cable or a switch port of
its own, everything goes astray, whatever address it comes from. A network of containers (docker's `br-...`) that was
given the LAN's own addresses does the same.

Fix
---
Give each interface a network of its own. Until then, take the route of the one that leads nowhere away.

When it is harmless
-------------------
Where both lead to the same switch: nothing is then said.

See also
--------
network/duplicate-address, network/master-unreachable, network/no-route
"""

from collections.abc import Iterator
from dataclasses import dataclass

from distdoctor.check_api import Cluster, Finding, Fix, Node, in_network, is_bridge, missing_node_ranks

SEVERITY = "fail"
PREVENTS = "master resolved"
LOOKS_AT = ("network",)
SHOWN = 8


@dataclass(frozen=True)
class Way:
    """A network that two interfaces are in."""

    network: str
    used: str
    """The interface by which the kernel sends."""
    other: str


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if (found := next(astray(node), None)) is not None:
            yield finding(cluster, node, *found)


def astray(node: Node) -> Iterator[tuple[str, Way, str]]:
    """(an address, the way by which the node sends there and nobody answers, how it is known that the other leads
    there)."""
    network = node.network
    for other in network.other_ways:
        contact, way = other.contact, way_to(node, other.contact.address)
        if way and way.other == other.interface and not node.meeting.joined and contact.answered:
            yield contact.address, way, f"port {contact.port} there is {contact.outcome} by {way.other}"
    for silent in network.unanswered:
        way = way_to(node, silent.address)
        for one in network.hardware_addresses:
            if way and (one.address, one.interface, silent.interface) == (silent.address, way.other, way.used):
                yield one.address, way, f"{one.mac} answers for it on {way.other}"


def way_to(node: Node, address: str) -> Way | None:
    """The way to an address that two interfaces have in their own network; None where just one has."""
    found: dict[str, list[str]] = {}
    for entry in node.network.routes or ():
        name = entry.interface
        first, _, length = entry.network.partition("/")
        if name is not None and entry.gateway is None and in_network(first, int(length), address):
            found.setdefault(entry.network, []).append(name)
    narrowest = max(found, key=lambda network: int(network.partition("/")[2]), default=None)
    if narrowest is None:
        return None
    used, *others = found[narrowest]
    # Containers' own network may take the LAN's place; it is never the one that leads to other hosts.
    other = next((name for name in others if not is_bridge(name)), None)
    return Way(narrowest, used, other) if other is not None else None


def missing(cluster: Cluster, node: Node) -> list[str]:
    """Return who did not come to the store on this node: by the launcher's list, else by their numbers."""
    if not node.meeting.hosted:
        return []
    roster = node.plan.roster
    return [roster[n] if n < len(roster) else f"node{n}" for n in missing_node_ranks(cluster)[:SHOWN]]


def finding(cluster: Cluster, node: Node, address: str, way: Way, seen: str) -> Finding:
    name, family = node.name, "-6 " if ":" in address else ""
    owner = " (of containers: docker network ls)" if is_bridge(way.used) else ""
    text = (
        f"On {name}, take the route by {way.used} away, so that {way.network} is reached by {way.other}; then give "
        f"{way.used}{owner} a network of its own, or take it down."
    )
    return Finding.about(
        (node,),
        f"{name} sends to {address} by {way.used}, where nobody answers, and not by {way.other}, which is in the same "
        "network.",
        ranks=(),
        links=((other, name) for other in missing(cluster, node)),
        evidence=(
            f"{name}: {way.used} and {way.other} are both in {way.network}, and it sends by {way.used}",
            f"{name}: nobody answers for {address} on {way.used}; {seen}",
        ),
        fixes=(Fix.on(node, text, commands=(f"ip {family}route del {way.network} dev {way.used}",)),),
    )
