"""What two nodes' own routing tables, netmasks and reverse path filters say about packets between them.

Pure. Of one direction it is asked whether packets get there and whether the answers find their way back: a node whose
netmask leaves its peer out, or that sends to it by a gateway that is none, looks from the other end as one behind a
packet filter does.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from distdoctor.check_api.ipsec import dropping_policy
from distdoctor.check_api.next_hops import dead_hops
from distdoctor.check_api.table_lookup import NO_ENTRY, Packet, longest, lookup
from distdoctor.model.addresses import in_network, parse_address
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Interface, IpsecPolicy, TableRoute

Kind = Literal[
    "none", "down", "reject", "cable", "gateway", "next-hop", "detour", "reverse-path", "narrow", "wide", "source",
    "local", "ruled", "port", "ttl", "ipsec",
]  # fmt: skip


TTL = "net.ipv4.ip_default_ttl"
"""Over how many routers the packets of a host go; with 1 the first of them drops what it would pass on."""


@dataclass(frozen=True)
class Mask:
    """An address whose netmask leaves out a peer that has it in its own network."""

    interface: str
    address: str
    length: int
    right: int
    """The prefix length that it should have."""


@dataclass(frozen=True)
class RouteObstacle:
    """Why packets from ``node`` do not get to ``address`` of ``other``; or why those from there are dropped."""

    node: Node
    other: Node | None
    """None: nothing is known of who has the address; ``node`` has proven it alone."""
    address: str
    kind: Kind
    route: TableRoute = NO_ENTRY
    interface: str = ""
    """With ``reverse-path``: the interface that drops what comes from ``address``; with ``source``: the one by which
    packets leave that come from an address of another one; with ``ruled``: the one that the main table names."""
    policy: IpsecPolicy | None = None
    """With ``ipsec``: that of ``node`` which drops the packets."""
    mask: Mask | None = None
    """With ``narrow`` and ``wide``: that of ``node`` which is in the way."""

    @property
    def there(self) -> str:
        """The address, with the name of who has it."""
        return f"{self.address} ({self.other.name})" if self.other is not None else self.address


def route_obstacle(source: Node, target: Node, address: str, port: int | None = None) -> RouteObstacle | None:
    """What the nodes' own tables say why ``source`` has no connection to ``address`` of ``target``; None: nothing.

    ``port``: that of the target, which rules of policy routing may name.
    """
    if source.host == target.host:
        return None
    if keeps_for_itself(source, address):
        return RouteObstacle(source, target, address, "local")
    there = _way(source, target, address, Packet(source=source_address(source, address) or "", target_port=port))
    if there is not None:
        return there
    mine = source_address(source, address)
    if mine is None:
        return None
    answer = Packet(source=address, source_port=port)
    for one, other, at, packet in (
        (source, target, address, Packet(mine, target_port=port)),
        (target, source, mine, answer),
    ):
        if (dropped := dropping_policy(one, other, at, packet)) is not None:
            whose, policy = dropped
            return RouteObstacle(whose, target if whose is source else source, address, "ipsec", policy=policy)
    back = _way(target, source, mine, answer)
    if back is not None and back.kind == "none":
        odd = ruled_away(source, target, address) or odd_way(source, target, address)
        if odd is not None:
            return odd
    if back is not None and back.kind != "detour":
        return back
    network, arrives = target.network, next((one.device for one in target.interfaces if address in one.addresses), None)
    entry = lookup(target, mine, answer)
    if entry is None or arrives is None or entry.interface in (None, arrives):
        return back
    if arrives in network.strict and ":" not in mine:
        return RouteObstacle(target, source, mine, "reverse-path", entry, arrives)
    return back


def _way(node: Node, other: Node, address: str, packet: Packet) -> RouteObstacle | None:
    entry = lookup(node, address, packet)
    if entry is None:
        return None
    if sleeping(node, address) is not None:
        return RouteObstacle(node, other, address, "down", entry)
    if entry is NO_ENTRY:
        return RouteObstacle(node, other, address, "none")
    if (kind := _by_itself(node, entry)) is not None or entry.next_hops:
        return RouteObstacle(node, other, address, kind, entry) if kind is not None else None
    # Sent to a gateway though it is a neighbour: by an entry that is narrower than the network both are in.
    if entry.gateway not in (None, address) and any(_holds(i, n, address) for i, _, n in networks(node)):
        return RouteObstacle(node, other, address, "gateway", entry)
    if not entry.rule and nearer(node, address) is not None:
        return RouteObstacle(node, other, address, "detour", entry)
    if entry.gateway is not None and ":" not in address and node.system.sysctls.get(TTL) == "1":
        return RouteObstacle(node, other, address, "ttl", entry)
    return None


@dataclass(frozen=True)
class Own:
    """An address of a node's own, on an interface in whose network a peer is."""

    interface: str
    address: str
    length: int


def nearer(node: Node, address: str) -> Own | None:
    """The interface that has ``address`` in its network, where a narrower entry (a VPN client's) sends to it by another
    interface, which has not."""
    entry = lookup(node, address)
    near = [Own(i.device, own, length) for i, own, length in networks(node) if in_network(own, length, address)]
    if entry is None or entry.interface is None or any(one.interface == entry.interface for one in near):
        return None
    return next((one for one in near if one.length < _length(entry)), None)


def proven_obstacle(node: Node, address: str, port: int | None = None) -> RouteObstacle | None:
    """What is wrong by the node's own word alone: what an entry shows (to reject all means that there is no other); or
    a narrower one (a VPN client's), where by the interface with ``address`` in its network it was answered."""
    if keeps_for_itself(node, address):
        return RouteObstacle(node, None, address, "local")
    near, entry = nearer(node, address), lookup(node, address)
    dropped = dropping_policy(node, None, address, Packet(source_address(node, address) or "", target_port=port))
    if dropped is not None and dropped[1].block:  # an association is not to be had either where the other is not up
        return RouteObstacle(node, None, address, "ipsec", policy=dropped[1])
    if entry is not None and (kind := _by_itself(node, entry)) and (kind != "reject" or _length(entry) > 0):
        return RouteObstacle(node, None, address, kind, entry)
    for way in node.network.other_ways:
        answered = way.contact.address == address and way.contact.answered
        if near is not None and entry is not None and answered and way.interface == near.interface:
            return RouteObstacle(node, None, address, "detour", entry)
    return None


def _by_itself(node: Node, entry: TableRoute) -> Kind | None:
    """What shows by the entry that it leads nowhere. An interface without a carrier keeps its entries; and what answers
    is the bridge's, where it is a port of one."""
    if entry.reject:
        return "reject"
    card = next((one for one in node.interfaces if one.name == entry.interface), None)
    if card is not None and (not card.up or card.bridge):
        return "port" if card.up else "cable"
    return "next-hop" if dead_hops(node, entry) else None


def keeps_for_itself(node: Node, address: str) -> bool:
    """Whether the node's own kernel delivers here what is for an address that is none of its own (a route of type
    ``local``): it then sends from that address itself."""
    way = node.network.route
    return bool(node.interfaces) and way is not None and way.target == way.source == address not in node.addresses


def sleeping(node: Node, address: str) -> Own | None:
    """The interface that is down and has ``address`` in its network, to which no entry as narrow leads.

    One that is up and has no carrier keeps its entry: it is not to be brought up.
    """
    entry = lookup(node, address)
    if entry is None:
        return None
    for interface in node.interfaces:
        for own, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            if (
                not interface.up
                and not interface.loopback
                and length > _length(entry)
                and in_network(own, length, address)
            ):
                return Own(interface.name, own, length)
    return None


def _length(entry: TableRoute) -> int:
    """The prefix length of an entry; -1 for none."""
    return -1 if entry is NO_ENTRY else ipaddress.ip_network(entry.network, strict=False).prefixlen


def source_address(node: Node, address: str) -> str | None:
    """The address that packets to ``address`` have as their source."""
    network = node.network
    if network.route is not None and network.route.target == address and network.route.source is not None:
        return network.route.source
    entry, number = lookup(node, address), parse_address(address)
    if entry is None or number is None:
        return None
    same = [(i, a) for i, a, _ in networks(node) if i.device == entry.interface and ((":" in a) == (":" in address))]
    return same[0][1] if same else None


def odd_way(node: Node, other: Node | None, address: str) -> RouteObstacle | None:
    """A way to ``address`` on which packets come from an address of another interface than they leave by. It is an
    obstacle where ``other`` has no way back to that."""
    own = better_source(node, address)
    if own is None:
        return None
    return RouteObstacle(node, other, address, "source", lookup(node, address) or NO_ENTRY, own.interface)


def ruled_away(node: Node, other: Node, address: str) -> RouteObstacle | None:
    """A rule of policy routing (a VPN client's) by which packets to ``address`` leave by another interface than by the
    main table, from whose network ``other`` would have a way back."""
    entry = lookup(node, address, Packet(source_address(node, address) or ""))
    usual = longest(node.network.routes or (), address)
    if entry is None or not entry.rule or usual is None or usual.interface in (None, entry.interface):
        return None
    own = next((own for one, own, _ in networks(node) if one.device == usual.interface), None)
    if own is None or _by_itself(node, usual) is not None or _way(other, node, own, Packet(address)) is not None:
        return None
    return RouteObstacle(node, other, address, "ruled", entry, usual.interface or "")


def better_source(node: Node, address: str) -> Own | None:
    """The address of the interface that packets to ``address`` leave by, where they come from one of another interface
    (``ip route ... src``, or an address of ``lo``): the hosts on that link know a way back to the former."""
    way, entry = node.network.route, lookup(node, address)
    if way is None or way.target != address or way.source is None or entry is None:
        return None
    its = [Own(i.device, own, length) for i, own, length in networks(node) if i.device == entry.interface]
    if any(one.address == way.source for one in its):
        return None
    return next((one for one in its if in_network(one.address, one.length, entry.gateway or address)), None)


def networks(node: Node) -> Iterator[tuple[Interface, str, int]]:
    """(interface, address, prefix length) of each address that other hosts may have a way to."""
    for interface in node.interfaces:
        if interface.loopback or not interface.up:
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            number = parse_address(address)
            if number is not None and not number.is_link_local:
                yield interface, address, length


def _holds(interface: Interface, length: int, address: str) -> bool:
    """Whether the interface's network of this prefix length holds ``address``."""
    return any(
        its == length and in_network(own, length, address)
        for own, its in zip(interface.addresses, interface.prefix_lengths, strict=False)
    )
