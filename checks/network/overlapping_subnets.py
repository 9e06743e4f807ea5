"""Two interfaces of a node are in one network, and traffic uses the wrong one.

## What you see
The node reaches no other node, or its replies reach none: `No route to host`, or silence, although a ping by the other
interface works. NCCL connects from an unexpected address.

## Why it happens
Both interfaces have an address in the same network, and the kernel sends all of its traffic by one of them. It uses the
one with the smaller metric, else the one that started first. If that one is in another VLAN, or has a dead cable or its
own switch port, all packets are lost, from any source address. A container network (docker's `br-...`) with the LAN's
own addresses has the same effect.

## Fix
Give each interface its own network; until then, delete the route of the wrong one: `ip route del 10.77.0.0/24 dev
eth1`.

## Confirm with
`ip route get 10.77.0.10` prints the interface that reaches the other nodes.

## When it is harmless
Both interfaces lead to the same switch: nothing is then reported.

## See also
network/duplicate-address, network/master-unreachable, network/no-route
"""

from dataclasses import dataclass

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, in_network, is_bridge, missing_node_ranks

SEVERITY = "fail"
PREVENTS = "master resolved"
LOOKS_AT = ("network",)
SHOWN = 8


@dataclass(frozen=True)
class RouteChoice:
    """Network of two interfaces, of which the kernel uses one."""

    network: str
    used: str
    """The interface by which the kernel sends."""
    other: str


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if (misrouted := next(misrouted_addresses(node), None)) is not None:
            yield finding(cluster, node, *misrouted)


def misrouted_addresses(node: Node) -> Iterator[tuple[str, RouteChoice, str]]:
    """Yield (an address, the route by which the node sends there without an answer, the proof that the other one
    works)."""
    network = node.network
    for other in network.other_ways:
        contact, choice = other.contact, route_choice(node, other.contact.address)
        if choice and choice.other == other.interface and not node.meeting.joined and contact.answered:
            yield contact.address, choice, f"port {contact.port} there is {contact.outcome} by {choice.other}"
    for silent in network.unanswered:
        choice = route_choice(node, silent.address)
        for neighbour in network.hardware_addresses:
            if choice and (neighbour.address, neighbour.interface, silent.interface) == (
                silent.address,
                choice.other,
                choice.used,
            ):
                yield neighbour.address, choice, f"{neighbour.mac} answers for it on {choice.other}"


def route_choice(node: Node, address: str) -> RouteChoice | None:
    """Return the choice between two interfaces whose networks contain an address; None if only one does."""
    misrouted: dict[str, list[str]] = {}
    for entry in node.network.routes or ():
        name = entry.interface
        first, _, length = entry.network.partition("/")
        if name is not None and entry.gateway is None and in_network(first, int(length), address):
            misrouted.setdefault(entry.network, []).append(name)
    narrowest = max(misrouted, key=lambda network: int(network.partition("/")[2]), default=None)
    if narrowest is None:
        return None
    used, *others = misrouted[narrowest]
    # Containers' own network may take the LAN's place; it is never the one that leads to other hosts.
    other = next((name for name in others if not is_bridge(name)), None)
    return RouteChoice(narrowest, used, other) if other is not None else None


def missing(cluster: Cluster, node: Node) -> list[str]:
    """Return the nodes that did not join the store on this node: by the launcher's list, else by their numbers."""
    if not node.meeting.hosted:
        return []
    roster = node.plan.roster
    return [roster[n] if n < len(roster) else f"node{n}" for n in missing_node_ranks(cluster)[:SHOWN]]


def finding(cluster: Cluster, node: Node, address: str, choice: RouteChoice, proof: str) -> Finding:
    name, family = node.name, "-6 " if ":" in address else ""
    owner = " (of containers: docker network ls)" if is_bridge(choice.used) else ""
    text = (
        f"On {name}, delete the route by {choice.used}, so that {choice.network} uses {choice.other}; then give "
        f"{choice.used}{owner} "
        "its own network, or set it down."
    )
    return Finding.about(
        (node,),
        f"{name} sends to {address} by {choice.used}, where no host answers, instead of {choice.other} in the "
        "same network.",
        ranks=(),
        links=((other, name) for other in missing(cluster, node)),
        evidence=(
            f"{name}: {choice.used} and {choice.other} are both in {choice.network}, and it sends by {choice.used}",
            f"{name}: no host answers for {address} on {choice.used}; {proof}",
        ),
        fixes=(Fix.on(node, text, commands=(f"ip {family}route del {choice.network} dev {choice.used}",)),),
    )
