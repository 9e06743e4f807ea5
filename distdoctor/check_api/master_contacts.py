"""Who did not get to MASTER_ADDR:MASTER_PORT, and what the facts of node 0 say of the place that they tried."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from distdoctor.check_api.led_to import leading_to
from distdoctor.check_api.netmasks import mask_obstacle
from distdoctor.check_api.nodes import claims_node0, node0_name, store_host
from distdoctor.check_api.packet_filter import suspect
from distdoctor.check_api.routes import RouteObstacle, proven_obstacle, route_obstacle
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Contact, Neighbour

ENETUNREACH = 101


@dataclass(frozen=True)
class FailedContact:
    """A node whose connections to MASTER_ADDR:MASTER_PORT ended in the outcome looked for."""

    node: Node
    contact: Contact
    control: Contact | None

    @property
    def silent_neighbour(self) -> Neighbour | None:
        """The next host on the way, the master's or a gateway, where nobody answers for its address."""
        near = self.node.network.neighbour
        return near if near is not None and near.state == "silent" else None

    @property
    def asked_neighbour(self) -> str:
        """How that host was asked for its hardware address, on which interface."""
        near = self.node.network.neighbour
        how = "neighbour discovery" if ":" in self.contact.address else "ARP"
        return f"{how} on {near.interface}" if near is not None else how


def failed_contacts(cluster: Cluster, outcomes: Collection[str]) -> list[FailedContact]:
    """The nodes that did not get into the store, and whose last contact ended so."""
    found = []
    for node in cluster.nodes:
        network, meeting = node.network, node.meeting
        if network.contact is None or network.contact.outcome not in outcomes:
            continue
        if meeting.joined or meeting.hosted:
            continue
        # Node 0 that could not host, or that MASTER_ADDR does not lead to, has another failure than a shut port.
        own = claims_node0(node) and network.bind
        if not own or (network.bind and network.bind.ok and network.master_is_own):
            found.append(FailedContact(node, network.contact, network.control))
    return found


def store_host_tried(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Node 0, where its facts are here and say that it hosted the store where these nodes looked for it, meanwhile."""
    zero = store_host(cluster)
    if zero is None:
        return None
    own = leading_to(cluster, zero)
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


def master_address_owner(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Node 0, where its facts are here and the address that these nodes tried is its own, or leads to it."""
    zero = cluster.node0
    own = leading_to(cluster, zero) if zero is not None else frozenset[object]()
    return zero if all(parse_address(one.contact.address) in own for one in shut) else None


def asked_another(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Return whether these looked for the store on another host than node 0, by another name or address than node 0
    has for it itself. What keeps that host's port shut is then no matter of node 0, nor of the way to it."""
    zero = store_host(cluster)
    if zero is None:
        return False
    own = leading_to(cluster, zero)
    return all(
        one.node.plan.master_addr != zero.plan.master_addr
        and parse_address(one.contact.address) not in own
        and not is_loopback(one.contact.address)
        for one in shut
    )


def tried_host(cluster: Cluster, shut: list[FailedContact]) -> str:
    """Return the name of the node that has the address which these tried, else the address."""
    address = shut[0].contact.address
    return next((node.name for node in cluster.nodes if address in node.addresses), address)


def lacks_route(one: FailedContact) -> bool:
    """Whether it is this node's own kernel that knows no way to the address; not where a policy of its own drops it."""
    network = one.node.network
    refused_here = one.contact.errno == ENETUNREACH and not one.contact.icmp
    if refused_here or network.route is None or not network.route.error:
        return refused_here
    its = proven_obstacle(one.node, one.contact.address, one.contact.port)
    return its is None or its.kind != "ipsec"


def _meanwhile(zero: Node, node: Node) -> bool:
    """Whether the store was there while ``node`` still looked for it, by their clocks; True where that is not known.

    A node 0 that takes its time (a slow import of torch) refuses connections until then as one that is not started.
    """
    spans = []
    for one in (zero, node):
        waited = one.meeting.waited
        if not one.facts.started_at or not waited:
            return True
        bind = one.network.bind
        start = one.facts.started_at + (bind.after if bind is not None and one is zero else 0.0)
        spans.append((start, one.facts.started_at + waited))
    (start, end), (other_start, other_end) = spans
    return start <= other_end and other_start <= end


def asked_itself(one: FailedContact) -> bool:
    """Whether it looked for another's store at its own address: no filter, no route keeps it from anything. Who hosts
    the store and does not reach it itself is kept from it by a filter of its own."""
    if one.contact.address not in one.node.addresses or is_loopback(one.contact.address):
        return False
    bind = one.node.network.bind
    return not (claims_node0(one.node) and bind is not None and bind.ok)


def grouped_by_address(shut: list[FailedContact]) -> list[list[FailedContact]]:
    """Those that looked in one place together: who looks elsewhere has a reason of its own."""
    groups: dict[tuple[object, int, int | None], list[FailedContact]] = {}
    for one in shut:
        groups.setdefault((parse_address(one.contact.address), one.contact.port, one.contact.errno), []).append(one)
    return list(groups.values())


def route_obstacles(cluster: Cluster, shut: list[FailedContact]) -> dict[Node, RouteObstacle]:
    """What the routing tables of these nodes and of node 0 say about the way between them, where they say something."""
    found = {}
    for one in shut:
        zero = master_address_owner(cluster, [one])
        if zero is None:
            if (its := proven_obstacle(one.node, one.contact.address, one.contact.port)) is not None:
                found[one.node] = its
            continue
        ruled, answers = suspect(one.node, zero, one.contact.port) != "either", _answers(one)
        its = route_obstacle(one.node, zero, one.contact.address, one.contact.port)
        if its is None and not ruled and not answers:
            its = mask_obstacle(one.node, zero, one.contact.address)
        # A filter's own rule explains it, while the same host answers on another port: its way is no matter.
        if its is not None and not (ruled and answers):
            found[one.node] = its
    return found


def _answers(one: FailedContact) -> bool:
    """Whether the same host answers on another port."""
    return one.control is not None and one.control.answered


def owner_name(cluster: Cluster, shut: list[FailedContact]) -> str:
    zero = master_address_owner(cluster, shut)
    return zero.name if zero is not None else node0_name(cluster, shut[0].node)


def master_known_up(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Whether the host that these nodes tried is known to be up: its facts are here, or another node got there."""
    if master_address_owner(cluster, shut) is not None:
        return True
    tried = {parse_address(one.contact.address) for one in shut}
    return any(
        n.network.contact and n.network.contact.outcome == "open"
        and parse_address(n.network.contact.address) in tried
        for n in cluster.nodes
    )  # fmt: skip
