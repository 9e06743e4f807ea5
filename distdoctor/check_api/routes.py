"""Obstacles between two nodes by their own routing tables, netmasks, reverse path filters and IPsec policies. Pure.

For one direction, packets must arrive and the replies must find their way back: a node whose netmask leaves its peer
out, or with a wrong gateway, looks from the other end like one behind a packet filter.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from distdoctor.model.addresses import in_network, parse_address
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Interface, IpsecPolicy, Link, NextHop, PacketMark, PolicyRule, TableRoute
from distdoctor.model.findings import Fix

# Routing table lookup: the rules of policy routing first, then the main table.


NO_ENTRY = TableRoute("", None, None)


@dataclass(frozen=True)
class RoutedPacket:
    """Properties of a packet that rules of policy routing may match besides its destination; empty and None if
    unknown."""

    source: str = ""
    source_port: int | None = None
    target_port: int | None = None


def lookup(node: Node, address: str, packet: RoutedPacket = RoutedPacket()) -> TableRoute | None:
    """Return the entry by which the node sends to ``address``; NO_ENTRY if it has none, None if unknown.

    Rules of policy routing come first, as far as they are known to match the packet.
    """
    if node.network.routes is None or parse_address(address) is None or address in node.addresses:
        return None
    for rule in node.network.policy:
        about, mark = _about(node, rule, address, packet)
        if not about:
            continue
        marked = mark.rule if mark is not None else ""
        if rule.reject:
            network = rule.target or ("::/0" if ":" in address else "0.0.0.0/0")
            return TableRoute(network, None, None, True, rule.text, marked)
        route = longest(rule.routes, address)
        if route is None or not (route is NO_ENTRY or route.throws):
            # A wrong entry of the main table is wrong whatever rule leads there.
            return route if route is None or rule.main else replace(route, rule=rule.text, marked=marked)
    return longest(node.network.routes, address)


def _about(node: Node, rule: PolicyRule, address: str, packet: RoutedPacket) -> tuple[bool, PacketMark | None]:
    """Return whether the packet is known to match the rule, and the mark by which it does."""

    def within(network: str, its: str) -> bool | None:
        number, wanted = parse_address(its), ipaddress.ip_network(network, strict=False)
        return None if number is None else number.version == wanted.version and number in wanted

    def of(ports: tuple[int, int] | None, port: int | None) -> bool | None:
        return True if ports is None else None if port is None else ports[0] <= port <= ports[1]

    if rule.version != (6 if ":" in address else 4):
        return False, None
    mark = _mark_for(node, rule, packet)
    try:
        holds = (
            not rule.source or within(rule.source, packet.source),
            not rule.target or within(rule.target, address),
            of(rule.source_ports, packet.source_port),
            of(rule.target_ports, packet.target_port),
            rule.mark is None or mark is not None,
        )
    except ValueError:
        return False, None
    return (False in holds) if rule.inverted else all(holds), mark


def _mark_for(node: Node, rule: PolicyRule, packet: RoutedPacket) -> PacketMark | None:
    """Return the mark that the rule matches, if the node's packet filter is known to put it on the packet."""
    if rule.mark is None or node.network.firewall is None:
        return None
    ports, (value, mask) = {"dport": packet.target_port, "sport": packet.source_port}, rule.mark
    for mark in node.network.firewall.marks:
        if mark.version == rule.version and _is_of(mark, ports[mark.side], node) and mark.mark & mask == value:
            return mark
    return None


def _is_of(mark: PacketMark, port: int | None, node: Node) -> bool:
    """Return whether the mark is put on packets of that port: its own, or as one that the kernel picks."""
    picked = node.limits.port_range
    own = mark.port == port
    return own or (port is not None and picked is not None and mark.port in picked and picked[0] <= port <= picked[1])


def longest(table: Iterable[TableRoute], address: str) -> TableRoute | None:
    """Return the entry of a table that the kernel takes for ``address``; NO_ENTRY if none matches, None if unknown."""
    number = parse_address(address)
    best, length = NO_ENTRY, -1
    if number is None:
        return None
    for entry in table:
        try:
            its = ipaddress.ip_network(entry.network)
        except ValueError:
            return None
        if its.version == number.version and number in its and its.prefixlen > length:
            best, length = entry, its.prefixlen
    return best


Kind = Literal[
    "none", "down", "reject", "cable", "gateway", "next-hop", "detour", "reverse-path", "narrow", "wide", "source",
    "local", "ruled", "port", "ttl", "ipsec",
]  # fmt: skip


TTL = "net.ipv4.ip_default_ttl"
"""Sysctl for the number of routers that a host's packets pass; with 1 the first router drops them."""


@dataclass(frozen=True)
class Mask:
    """Address whose netmask leaves out a peer that has it in its own network."""

    interface: str
    address: str
    length: int
    right: int
    """Prefix length that it should have."""


@dataclass(frozen=True)
class RouteObstacle:
    """Reason why packets from ``node`` do not reach ``address`` of ``other``, or why the replies are dropped."""

    node: Node
    other: Node | None
    """None if the owner of the address is unknown; ``node`` has proven it alone."""
    address: str
    kind: Kind
    route: TableRoute = NO_ENTRY
    interface: str = ""
    """Interface; with ``reverse-path``: the one that drops packets from ``address``; with ``source``: the outgoing one
    of packets with another interface's address; with ``ruled``: the one in the main table."""
    policy: IpsecPolicy | None = None
    """Policy of ``node`` that drops the packets, with ``ipsec``."""
    mask: Mask | None = None
    """Netmask of ``node`` that is at fault, with ``narrow`` and ``wide``."""

    @property
    def there(self) -> str:
        """Return the address, with the name of its owner."""
        return f"{self.address} ({self.other.name})" if self.other is not None else self.address


def route_obstacle(source: Node, target: Node, address: str, port: int | None = None) -> RouteObstacle | None:
    """Return the obstacle in the nodes' own tables for a connection from ``source`` to ``address`` of ``target``, None
    if none.

    ``port``: that of the target, which rules of policy routing may name.
    """
    if source.host_key == target.host_key:
        return None
    if keeps_for_itself(source, address):
        return RouteObstacle(source, target, address, "local")
    mine = source_address(source, address)
    call, answer = RoutedPacket(mine or "", target_port=port), RoutedPacket(address, source_port=port)
    there = _obstacle_on_route(source, target, address, call)
    if there is not None or mine is None:
        return there
    for side, other, at, packet in ((source, target, address, call), (target, source, mine, answer)):
        if (dropped := dropping_policy(side, other, at, packet)) is not None:
            owner, policy = dropped
            return RouteObstacle(owner, target if owner is source else source, address, "ipsec", policy=policy)
    back = _obstacle_on_route(target, source, mine, answer)
    if back is None or back.kind == "detour":
        return _reverse_path(source, target, address, mine, answer) or back
    if back.kind == "none":
        return obstacle_by_rule(source, target, address) or asymmetric_route(source, target, address) or back
    return back


def _reverse_path(source: Node, target: Node, address: str, mine: str, answer: RoutedPacket) -> RouteObstacle | None:
    """Return the strict filter of the interface at which packets arrive, if the answer leaves by another one."""
    arrives = next((card.device for card in target.interfaces if address in card.addresses), None)
    entry = lookup(target, mine, answer)
    if entry is None or arrives is None or entry.interface in (None, arrives):
        return None
    if arrives in target.network.strict and ":" not in mine:
        return RouteObstacle(target, source, mine, "reverse-path", entry, arrives)
    return None


def _obstacle_on_route(node: Node, other: Node, address: str, packet: RoutedPacket) -> RouteObstacle | None:
    entry = lookup(node, address, packet)
    if entry is None:
        return None
    if downed_interface(node, address) is not None:
        return RouteObstacle(node, other, address, "down", entry)
    if entry is NO_ENTRY:
        return RouteObstacle(node, other, address, "none")
    if (kind := _by_itself(node, entry)) is not None or entry.next_hops:
        return RouteObstacle(node, other, address, kind, entry) if kind is not None else None
    # Sent to a gateway though it is a neighbour: by a narrower entry than the network both are in.
    if entry.gateway not in (None, address) and any(_holds(i, n, address) for i, _, n in networks(node)):
        return RouteObstacle(node, other, address, "gateway", entry)
    if not entry.rule and bypassed_interface(node, address) is not None:
        return RouteObstacle(node, other, address, "detour", entry)
    if entry.gateway is not None and ":" not in address and node.host.sysctls.get(TTL) == "1":
        return RouteObstacle(node, other, address, "ttl", entry)
    return None


@dataclass(frozen=True)
class Own:
    """Address of a node's own, on an interface in whose network a peer is."""

    interface: str
    address: str
    length: int


def bypassed_interface(node: Node, address: str) -> Own | None:
    """Return the interface with ``address`` in its network, if a narrower entry (a VPN client's) sends by another
    interface that has it not."""
    entry = lookup(node, address)
    near = [Own(i.device, own, length) for i, own, length in networks(node) if in_network(own, length, address)]
    if entry is None or entry.interface is None or any(network.interface == entry.interface for network in near):
        return None
    return next((network for network in near if network.length < _length(entry)), None)


def proven_obstacle(node: Node, address: str, port: int | None = None) -> RouteObstacle | None:
    """Return the obstacle that the node's own facts prove.

    Either an entry that rejects everything (there is no other), or a narrower one (a VPN client's), while ``address``
    answered on the interface with it in its network.
    """
    if keeps_for_itself(node, address):
        return RouteObstacle(node, None, address, "local")
    near, entry = bypassed_interface(node, address), lookup(node, address)
    dropped = dropping_policy(node, None, address, RoutedPacket(source_address(node, address) or "", target_port=port))
    if dropped is not None and dropped[1].block:  # an association cannot be made either if the other is not up
        return RouteObstacle(node, None, address, "ipsec", policy=dropped[1])
    if entry is not None and (kind := _by_itself(node, entry)) and (kind != "reject" or _length(entry) > 0):
        return RouteObstacle(node, None, address, kind, entry)
    for route in node.network.other_ways:
        answered = route.contact.address == address and route.contact.answered
        if near is not None and entry is not None and answered and route.interface == near.interface:
            return RouteObstacle(node, None, address, "detour", entry)
    return None


def _by_itself(node: Node, entry: TableRoute) -> Kind | None:
    """Return the kind of obstacle that the entry itself shows.

    An interface without a carrier keeps its entries; for a port of a bridge the bridge answers.
    """
    if entry.reject:
        return "reject"
    card = next((i for i in node.interfaces if i.name == entry.interface), None)
    if card is not None and (not card.up or card.bridge):
        return "port" if card.up else "cable"
    return "next-hop" if dead_hops(node, entry) else None


def keeps_for_itself(node: Node, address: str) -> bool:
    """Return whether the node's own kernel delivers packets for a foreign address locally (a route of type ``local``).

    It then also sends from that address.
    """
    route = node.network.route
    return bool(node.interfaces) and route is not None and route.target == route.source == address not in node.addresses


def downed_interface(node: Node, address: str) -> Own | None:
    """Return the interface that is down and has ``address`` in its network, without another entry as narrow.

    An interface that is up without a carrier keeps its entry: bringing it up is no fix.
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
    """Return the prefix length of an entry, -1 for none."""
    return -1 if entry is NO_ENTRY else ipaddress.ip_network(entry.network, strict=False).prefixlen


def source_address(node: Node, address: str) -> str | None:
    """Return the source address of packets to ``address``."""
    network = node.network
    if network.route is not None and network.route.target == address and network.route.source is not None:
        return network.route.source
    entry, number = lookup(node, address), parse_address(address)
    if entry is None or number is None:
        return None
    same = [(i, a) for i, a, _ in networks(node) if i.device == entry.interface and ((":" in a) == (":" in address))]
    return same[0][1] if same else None


def asymmetric_route(node: Node, other: Node | None, address: str) -> RouteObstacle | None:
    """Return the obstacle of packets to ``address`` with the address of another interface than they leave by.

    It is one if ``other`` has no route back to that address.
    """
    own = better_source(node, address)
    if own is None:
        return None
    return RouteObstacle(node, other, address, "source", lookup(node, address) or NO_ENTRY, own.interface)


def obstacle_by_rule(node: Node, other: Node, address: str) -> RouteObstacle | None:
    """Return the obstacle of a policy routing rule (a VPN client's) that overrides the main table's interface for
    ``address``.

    ``other`` would have a route back to that interface's network.
    """
    entry = lookup(node, address, RoutedPacket(source_address(node, address) or ""))
    usual = longest(node.network.routes or (), address)
    if entry is None or not entry.rule or usual is None or usual.interface in (None, entry.interface):
        return None
    own = next((own for card, own, _ in networks(node) if card.device == usual.interface), None)
    if (
        own is None
        or _by_itself(node, usual) is not None
        or _obstacle_on_route(other, node, own, RoutedPacket(address)) is not None
    ):
        return None
    return RouteObstacle(node, other, address, "ruled", entry, usual.interface or "")


def better_source(node: Node, address: str) -> Own | None:
    """Return the address of the outgoing interface for ``address``, if packets have another interface's.

    That comes from ``ip route ... src``, or an address of ``lo``; the hosts on that link have a route back to the
    former.
    """
    route, entry = node.network.route, lookup(node, address)
    if route is None or route.target != address or route.source is None or entry is None:
        return None
    its = [Own(i.device, own, length) for i, own, length in networks(node) if i.device == entry.interface]
    if any(network.address == route.source for network in its):
        return None
    return next(
        (network for network in its if in_network(network.address, network.length, entry.gateway or address)), None
    )


def networks(node: Node) -> Iterator[tuple[Interface, str, int]]:
    """Yield (interface, address, prefix length) of each address that other hosts may have a route to."""
    for interface in node.interfaces:
        if interface.loopback or not interface.up:
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            number = parse_address(address)
            if number is not None and not number.is_link_local:
                yield interface, address, length


def _holds(interface: Interface, length: int, address: str) -> bool:
    """Return whether the interface's network of this prefix length contains ``address``."""
    return any(
        its == length and in_network(own, length, address)
        for own, its in zip(interface.addresses, interface.prefix_lengths, strict=False)
    )


# Routes with several next hops (ECMP), one of which does not answer: packets by that one are lost.


def dead_hops(node: Node, entry: TableRoute) -> tuple[NextHop, ...]:
    """Return the next hops of the entry that did not answer a request for their hardware address.

    The kernel asks a hop when it sends by it, so that this node did use it. A hop that answers and forwards nothing is
    not recognized here.
    """
    silent = {(neighbour.address, neighbour.interface) for neighbour in node.network.unanswered}
    return tuple(hop for hop in entry.next_hops if (hop.gateway, hop.interface) in silent)


def hops_text(hops: tuple[NextHop, ...]) -> str:
    """Return ``10.77.0.98 (eth0) and 10.77.0.99 (eth0)``."""
    return " and ".join(f"{hop.gateway or 'its own link'} ({hop.interface})" for hop in hops)


def without_dead_hops(node: Node, entry: TableRoute) -> str | None:
    """Return the arguments of ``ip route replace`` that leave the others; None if there are none."""
    dead = dead_hops(node, entry)
    left = [hop for hop in entry.next_hops if hop not in dead]
    words = [
        (f"via {'inet6 ' if _mixed(entry, hop) else ''}{shlex.quote(hop.gateway)} " if hop.gateway else "")
        + f"dev {shlex.quote(hop.interface or '')}"
        for hop in left
    ]
    if not words:
        return None
    hops = words[0] if len(words) == 1 else " ".join(f"nexthop {word}" for word in words)
    return f"{shlex.quote(entry.network)} {hops}"


def _mixed(entry: TableRoute, hop: NextHop) -> bool:
    return ":" in (hop.gateway or "") and ":" not in entry.network


# Routes to other nodes that a node lost during the check.


ENETDOWN, ENETUNREACH = 100, 101


def lost_routes(node: Node) -> dict[Link, tuple[str, str]]:
    """Return the links of a joined node to which its own kernel lost the route, with its former network and interface.

    A card went down, or lost its address, during the check.
    """
    routes: dict[Link, tuple[str, str]] = {}
    for link in node.mesh.bad if node.meeting.joined or node.meeting.hosted else ():
        if link.errno not in (ENETDOWN, ENETUNREACH) or link.icmp or downed_interface(node, link.address) is not None:
            continue
        packet = RoutedPacket(source=source_address(node, link.address) or "", target_port=link.port)
        entry = lookup(node, link.address, packet)
        if entry is not None and entry.interface is not None and not entry.reject and entry is not NO_ENTRY:
            routes[link] = entry.network, entry.interface
    return routes


# IPsec policies of two nodes for packets between them.


def dropping_policy(
    source: Node, target: Node | None, address: str, packet: RoutedPacket
) -> tuple[Node, IpsecPolicy] | None:
    """Return the node and its policy that drops packets from ``source`` to ``address`` of ``target``."""
    ends = [(source, "out"), *([(target, "in")] if target is not None else [])]
    for node, direction in ends:
        its = next(
            (
                policy
                for policy in node.network.ipsec
                if policy.way == direction and _policies_between(policy, address, packet)
            ),
            None,
        )
        if its is not None and (its.block or its.lacks):
            return node, its
    return None


def _policies_between(policy: IpsecPolicy, address: str, packet: RoutedPacket) -> bool:
    """Return whether the policy matches the packet, as far as known."""
    if policy.version != (6 if ":" in address else 4) or not packet.source:
        return False
    return (
        _within(policy.source, packet.source)
        and _within(policy.target, address)
        and policy.source_port in (None, packet.source_port)
        and policy.target_port in (None, packet.target_port)
    )


def _within(network: str, address: str) -> bool:
    number = parse_address(address)
    try:
        return number is not None and number in ipaddress.ip_network(network, strict=False)
    except ValueError:
        return False


def policy_text(policy: IpsecPolicy) -> str:
    """Return a policy as ``ip xfrm policy`` takes it: ``src 10.77.0.11/32 dst 10.77.0.10/32 dir out``."""
    ports = (("sport", policy.source_port), ("dport", policy.target_port))
    words = ["src", policy.source, "dst", policy.target, *(("proto", "tcp") if policy.tcp else ())]
    words += [word for name, port in ports if port is not None for word in (name, str(port))]
    return shlex.join([*words, "dir", policy.way])


def policy_evidence(node: Node, policy: IpsecPolicy) -> str:
    what = f"{node.name}: an IPsec policy ({policy_text(policy)})"
    if policy.block:
        return f"{what} drops these packets"
    packets = "packets to send" if policy.way == "out" else "received packets"
    return f"{what} needs a security association, and none exists: the kernel drops {packets}"


def policy_fix(node: Node, policy: IpsecPolicy, option: int) -> Fix:
    text = (
        f"On {node.name}, start the IPsec service (strongSwan, libreswan, a CNI's encryption) on both ends; or delete "
        "the policy, if it is a leftover."
    )
    if policy.block:
        text = f"On {node.name}, delete the policy, or let it accept the nodes' packets."
    return Fix(text, (node.name,), option, commands=(f"ip xfrm policy delete {policy_text(policy)}",))
