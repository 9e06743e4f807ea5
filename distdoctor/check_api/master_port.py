"""Why a node does not get to a store that is there: what the checks network/port-* have in common."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass

from distdoctor.check_api.fixes import opening_fix
from distdoctor.check_api.node_addresses import address_of
from distdoctor.check_api.nodes import claims_node0, hosts_store, node0_name
from distdoctor.check_api.packet_filter import blame_of, filter_evidence, suspect
from distdoctor.check_api.routes import TITLE, Obstacle, add_route, lookup, nearer, obstacle, route_line
from distdoctor.check_api.routes import repair_route as undo
from distdoctor.check_api.text import together
from distdoctor.knowledge.connect_text import contact_text
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Contact
from distdoctor.model.findings import Finding, Fix

__all__ = [
    "NODES_MISSING",
    "Obstacle",
    "Shut",
    "add_route",
    "by_address",
    "has_no_route",
    "is_up",
    "judge_way",
    "misrouted",
    "obstacle",
    "obstacles",
    "owner",
    "route_line",
    "shut_nodes",
    "store_at",
    "undo",
]
NODES_MISSING = "store/nodes-missing"
ENETUNREACH = 101


@dataclass(frozen=True)
class Shut:
    """A node whose connections to MASTER_ADDR:MASTER_PORT ended in the outcome looked for."""

    node: Node
    contact: Contact
    control: Contact | None


def shut_nodes(cluster: Cluster, outcomes: Collection[str]) -> list[Shut]:
    """The nodes that did not get into the store, and whose last contact ended so."""
    found = []
    for node in cluster.nodes:
        network, meeting = node.facts.network, node.facts.meeting
        if network is None or network.contact is None or network.contact.outcome not in outcomes:
            continue
        if meeting and (meeting.joined or meeting.hosted):
            continue
        # Node 0 that could not host, or that MASTER_ADDR does not lead to, has another failure than a shut port.
        own = claims_node0(node) and network.bind
        if not own or (network.bind and network.bind.ok and network.master_is_own):
            found.append(Shut(node, network.contact, network.control))
    return found


def store_at(cluster: Cluster, shut: list[Shut]) -> Node | None:
    """Node 0, where its facts are here and say that it hosted the store where these nodes looked for it, meanwhile."""
    zero = hosts_store(cluster)
    if zero is None:
        return None
    own = {parse_address(address) for address in zero.addresses}
    for one in shut:
        if (
            parse_address(one.contact.address) not in own
            or not _meanwhile(zero, one.node)
            or one.node.host == zero.host
        ):
            return None
        if one.contact.port != zero.plan.master_port:
            return None
    return zero


def owner(cluster: Cluster, shut: list[Shut]) -> Node | None:
    """Node 0, where its facts are here and the address that these nodes tried is its own."""
    zero = cluster.node0
    own = {parse_address(address) for address in zero.addresses} if zero is not None else set()
    return zero if all(parse_address(one.contact.address) in own for one in shut) else None


def has_no_route(one: Shut) -> bool:
    """Whether it is this node's own kernel that knows no way to the address."""
    network = one.node.facts.network
    refused_here = one.contact.errno == ENETUNREACH and not one.contact.icmp
    return refused_here or bool(network and network.route and network.route.error)


def _meanwhile(zero: Node, node: Node) -> bool:
    """Whether the store was there while ``node`` still looked for it, by their clocks; True where that is not known.

    A node 0 that takes its time (a slow import of torch) refuses connections until then as one that is not started.
    """
    spans = []
    for one in (zero, node):
        waited = one.facts.meeting.waited if one.facts.meeting else 0.0
        if not one.facts.started_at or not waited:
            return True
        bind = one.facts.network.bind if one.facts.network else None
        start = one.facts.started_at + (bind.after if bind is not None and one is zero else 0.0)
        spans.append((start, one.facts.started_at + waited))
    (start, end), (other_start, other_end) = spans
    return start <= other_end and other_start <= end


def judge_way(
    cluster: Cluster, outcomes: Collection[str], told: str, at_once: Callable[[Shut], bool]
) -> Iterator[Finding]:
    """The finding about the nodes whose last contact ended in one of ``outcomes``.

    ``told`` says what that means (``PORT ... ``); ``at_once`` whether one of them alone proves it, without node 0's
    own word that it hosts the store. What is not proven is told as a consequence of store/nodes-missing.
    """
    shut = shut_nodes(cluster, outcomes)
    mirrored = [one for one in shut if _asked_itself(one)]
    if mirrored:
        yield _unproven(cluster, mirrored, told)
    shut = [one for one in shut if one not in mirrored]
    found = obstacles(cluster, shut)
    if found:
        yield misrouted(cluster, [one for one in shut if one.node in found], found)
    for group in by_address([one for one in shut if one.node not in found]):
        zero = store_at(cluster, group)
        proven = group if zero is not None else [one for one in group if at_once(one)]
        if proven:
            yield _blocked(cluster, proven, zero or owner(cluster, proven), told)
        rest = [one for one in group if one not in proven]
        if rest:
            yield _unproven(cluster, rest, told)


def _asked_itself(one: Shut) -> bool:
    """Whether it looked for another's store at its own address: no filter, no route keeps it from anything. Who hosts
    the store and does not reach it itself is kept from it by a filter of its own."""
    if one.contact.address not in one.node.addresses or is_loopback(one.contact.address):
        return False
    bind = one.node.facts.network.bind if one.node.facts.network else None
    return not (claims_node0(one.node) and bind is not None and bind.ok)


def by_address(shut: list[Shut]) -> list[list[Shut]]:
    """Those that looked in one place together: who looks elsewhere has a reason of its own."""
    groups: dict[tuple[object, int, int | None], list[Shut]] = {}
    for one in shut:
        groups.setdefault((parse_address(one.contact.address), one.contact.port, one.contact.errno), []).append(one)
    return list(groups.values())


def obstacles(cluster: Cluster, shut: list[Shut]) -> dict[Node, Obstacle]:
    """What the routing tables of these nodes and of node 0 say about the way between them, where they say something."""
    found = {}
    for one in shut:
        zero = owner(cluster, [one])
        its = obstacle(one.node, zero, one.contact.address) if zero is not None else None
        if its is not None and not _filtered(one, zero):
            found[one.node] = its
    return found


def _filtered(one: Shut, zero: Node | None) -> bool:
    """Whether a filter's own rule explains it, while the same host answers on another port: its way is no matter."""
    answers = one.control is not None and one.control.outcome in ("open", "refused", "reset")
    return answers and suspect(one.node, zero, one.contact.port) != "either"


def misrouted(cluster: Cluster, shut: list[Shut], found: Mapping[Node, Obstacle]) -> Finding:
    """The finding about nodes that do not get to node 0 for a route, a netmask or a reverse path filter."""
    name = owner_name(cluster, shut)
    its = list(dict.fromkeys(found.values()))
    clients = tuple(one.node.name for one in shut)
    contact = shut[0].contact
    return Finding(
        summary=f"Packets between {together(clients)} and {name} ({contact.address}) go astray: {route_line(its[0])}.",
        title=TITLE,
        nodes=tuple(dict.fromkeys(one.node.name for one in its)),
        links=tuple((client, name) for client in clients if client != name),
        evidence=(*(_line(one) for one in shut), *(route_line(one) for one in its)),
        fixes=tuple(undo(cluster, one) for one in its),
    )


def owner_name(cluster: Cluster, shut: list[Shut]) -> str:
    zero = owner(cluster, shut)
    return zero.name if zero is not None else node0_name(cluster, shut[0].node)


def is_up(cluster: Cluster, shut: list[Shut]) -> bool:
    """Whether the host that these nodes tried is known to be up: its facts are here, or another node got there."""
    if owner(cluster, shut) is not None:
        return True
    tried = {parse_address(one.contact.address) for one in shut}
    return any(
        n.facts.network and n.facts.network.contact and n.facts.network.contact.outcome == "open"
        and parse_address(n.facts.network.contact.address) in tried
        for n in cluster.nodes
    )  # fmt: skip


def _unproven(cluster: Cluster, shut: list[Shut], told: str) -> Finding:
    name = node0_name(cluster, shut[0].node)
    names = tuple(one.node.name for one in shut) if _asked_itself(shut[0]) else (name,)
    return Finding(
        summary=_summary(shut, name, told),
        nodes=names,
        links=tuple((one.node.name, name) for one in shut if one.node.name != name),
        evidence=(*map(_line, shut), *(text for one in shut for text in _seen_alone(one))),
        fixes=(Fix(starting(cluster, shut, name), names),),
        because_of=NODES_MISSING,
    )


def starting(cluster: Cluster, shut: list[Shut], name: str) -> str:
    """What to start: node 0, but one whose own facts are here was started; then it is when, or where."""
    if _asked_itself(shut[0]) and not shut[0].node.plan.agent_store:  # with it node 0 only connects, too
        return f"Name node 0 by an address that {shut[0].node.name} has not, on every node."
    zero = owner(cluster, shut)
    port = shut[0].contact.port
    if zero is None:
        return f"Start node 0 ({name}), with the same MASTER_PORT as the others."
    if hosts_store(cluster) is zero and zero.plan.master_port != port:
        port_of_zero = zero.plan.master_port
        return f"Name the same MASTER_PORT on all nodes: {name} hosts its store on {port_of_zero}, not {port}."
    if hosts_store(cluster) is zero:
        return f"Start all nodes within --wait of each other: {name} was there, and not while the others looked for it."
    return f"Cure what kept {name} from hosting the store, then start all nodes within --wait of each other."


def _blocked(cluster: Cluster, shut: list[Shut], zero: Node | None, told: str) -> Finding:
    name = zero.name if zero else node0_name(cluster, shut[0].node)
    port = shut[0].contact.port
    sides = {suspect(one.node, zero, port) for one in shut}
    side = next(iter(sides)) if len(sides) == 1 else "either"
    others = [n for n in cluster.nodes if n is not zero]
    if side == "either" and len(shut) > 1 and len(shut) == len(others):
        side = "to"  # several nodes, and none of them gets there
    clients = tuple(one.node.name for one in shut)
    blamed = {"to": (name,), "from": clients, "either": (*clients, name)}[side]
    evidence = [_line(one) for one in shut]
    fixes: list[Fix] = []
    if side != "from":
        peers = [address for one in shut if (address := one.node.reached_at or address_of(one.node, cluster))]
        fixes.append(opening_fix(zero, name, "input", peers, port))
        evidence += (
            filter_evidence(zero, "input", port) if zero else [f"{name}: its firewall's rules are not known here"]
        )
    if side != "to":
        for one in shut:
            option = 1 if side == "from" else 2
            fixes.append(opening_fix(one.node, one.node.name, "output", [one.contact.address], port, option))
            evidence += filter_evidence(one.node, "output", port)
    return Finding(
        summary=_summary(shut, name, told),
        nodes=blamed,
        links=tuple((client, name) for client in clients if client != name),
        blame=blame_of(side),
        evidence=tuple(evidence),
        fixes=tuple(fixes),
    )


def _summary(shut: list[Shut], name: str, told: str) -> str:
    contact = shut[0].contact
    return f"From {together(one.node.name for one in shut)}, port {contact.port} of {name} ({contact.address}) {told}."


def _seen_alone(one: Shut) -> Iterator[str]:
    """What the node's own interfaces and routing table say of the way, whoever is at its end."""
    who, at = one.node.name, one.contact.address
    near, entry = nearer(one.node, at), lookup(one.node, at)
    if _asked_itself(one):
        yield f"{who}: {at} is its own address ({one.node.interface_of(at)}): it asked itself"
    elif near is not None and entry is not None:
        yield (
            f"{who}: packets to {at} leave by {entry.interface} ({entry.network}), though {near.address}/{near.length} "
            f"on {near.interface} has that in its own network"
        )


def _line(one: Shut) -> str:
    line = f"{one.node.name}: {contact_text(one.contact)}"
    if one.control is not None:
        line += f"; on another port the same host {contact_text(one.control).partition(' ')[2]}"
    return line
