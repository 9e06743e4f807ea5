"""What two nodes' own routing tables, netmasks and reverse path filters say about packets between them.

Pure. Of one direction it is asked whether packets get there and whether the answers find their way back: a node whose
netmask leaves its peer out, or that sends to it by a gateway that is none, looks from the other end as one behind a
packet filter does.
"""

from __future__ import annotations

import ipaddress
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Interface, TableRoute
from distdoctor.model.findings import Fix

TITLE = "Packets between two nodes have no way, or the wrong one"
Kind = Literal["none", "down", "reject", "gateway", "detour", "reverse-path"]
NO_ENTRY = TableRoute("", None, None)


@dataclass(frozen=True)
class Obstacle:
    """Why packets from ``node`` do not get to ``address`` of ``other``; or why those from there are dropped."""

    node: Node
    other: Node
    address: str
    kind: Kind
    route: TableRoute = NO_ENTRY
    interface: str = ""
    """With ``reverse-path``: the interface that drops what comes from ``address``."""


def obstacle(source: Node, target: Node, address: str) -> Obstacle | None:
    """What the nodes' own tables say why ``source`` has no connection to ``address`` of ``target``; None: nothing."""
    if source.host == target.host:
        return None
    there = _way(source, target, address)
    if there is not None:
        return there
    mine = _source_address(source, address)
    if mine is None:
        return None
    back = _way(target, source, mine)
    if back is not None and back.kind != "detour":
        return back
    network, arrives = target.facts.network, target.interface_of(address)
    entry = lookup(target, mine)
    if network is None or entry is None or arrives is None or entry.interface in (None, arrives):
        return back
    if arrives in network.strict and ":" not in mine:
        return Obstacle(target, source, mine, "reverse-path", entry, arrives)
    return back


def _way(node: Node, other: Node, address: str) -> Obstacle | None:
    entry = lookup(node, address)
    if entry is None:
        return None
    if sleeping(node, address) is not None:
        return Obstacle(node, other, address, "down", entry)
    if entry is NO_ENTRY:
        return Obstacle(node, other, address, "none")
    if entry.reject:
        return Obstacle(node, other, address, "reject", entry)
    # Sent to a gateway though it is a neighbour: by an entry that is narrower than the network both are in.
    if entry.gateway is not None and any(_holds(i, n, address) for i, _, n in _networks(node)):
        return Obstacle(node, other, address, "gateway", entry)
    if nearer(node, address) is not None:
        return Obstacle(node, other, address, "detour", entry)
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
    near = [Own(i.name, own, length) for i, own, length in _networks(node) if _in(own, length, address)]
    if entry is None or entry.interface is None or any(one.interface == entry.interface for one in near):
        return None
    return next((one for one in near if one.length < _length(entry)), None)


def sleeping(node: Node, address: str) -> Own | None:
    """The interface that is down and has ``address`` in its network, to which no entry as narrow leads.

    One that is up and has no carrier keeps its entry: it is not to be brought up.
    """
    entry = lookup(node, address)
    if entry is None:
        return None
    for interface in node.facts.host.interfaces if node.facts.host else ():
        for own, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            if not interface.up and not interface.loopback and length > _length(entry) and _in(own, length, address):
                return Own(interface.name, own, length)
    return None


def _length(entry: TableRoute) -> int:
    """The prefix length of an entry; -1 for none."""
    return -1 if entry is NO_ENTRY else ipaddress.ip_network(entry.network).prefixlen


def lookup(node: Node, address: str) -> TableRoute | None:
    """The entry by which the node sends to ``address``; NO_ENTRY where it has none, None where that is not known."""
    network, number = node.facts.network, parse_address(address)
    if network is None or network.routes is None or number is None or address in node.addresses:
        return None
    best, length = NO_ENTRY, -1
    for entry in network.routes:
        try:
            its = ipaddress.ip_network(entry.network)
        except ValueError:
            return None
        if its.version == number.version and number in its and its.prefixlen > length:
            best, length = entry, its.prefixlen
    return best


def _source_address(node: Node, address: str) -> str | None:
    """The address that packets to ``address`` have as their source."""
    network = node.facts.network
    if network is not None and network.route is not None and network.route.target == address:
        return network.route.source
    entry, number = lookup(node, address), parse_address(address)
    if entry is None or number is None:
        return None
    same = [(i, a) for i, a, _ in _networks(node) if i.name == entry.interface and ((":" in a) == (":" in address))]
    return same[0][1] if same else None


def _networks(node: Node) -> Iterator[tuple[Interface, str, int]]:
    """(interface, address, prefix length) of each address that other hosts may have a way to."""
    for interface in node.facts.host.interfaces if node.facts.host else ():
        if interface.loopback or not interface.up:
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            number = parse_address(address)
            if number is not None and not number.is_link_local:
                yield interface, address, length


def _holds(interface: Interface, length: int, address: str) -> bool:
    """Whether the interface's network of this prefix length holds ``address``."""
    return any(
        its == length and _in(own, length, address)
        for own, its in zip(interface.addresses, interface.prefix_lengths, strict=False)
    )


def _in(own: str, length: int, address: str) -> bool:
    one, other = parse_address(own), parse_address(address)
    if one is None or other is None or one.version != other.version or not 0 < length <= one.max_prefixlen:
        return False
    return int(one) >> (one.max_prefixlen - length) == int(other) >> (one.max_prefixlen - length)


# -- what to say and do ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mask:
    """An address whose netmask leaves out a peer that has it in its own network."""

    interface: str
    address: str
    length: int
    right: int


def netmask(node: Node, other: Node, address: str) -> Mask | None:
    """The netmask by which ``node`` has no way to ``address`` of ``other``, in whose network it is itself."""
    theirs = [length for i, a, length in _networks(other) if a == address]
    for interface, mine, length in _networks(node):
        for right in theirs:
            if length > right and not _in(mine, length, address) and _in(address, right, mine):
                return Mask(interface.name, mine, length, right)
    return None


def route_line(one: Obstacle) -> str:
    """The evidence."""
    who, where = one.node.name, f"{one.address} ({one.other.name})"
    if one.kind == "none":
        mask = netmask(one.node, one.other, one.address)
        if mask is not None:
            return (
                f"{who}: {mask.address}/{mask.length} on {mask.interface} leaves out {where}, which has it in its own "
                f"/{mask.right}; there is no other route"
            )
        return f"{who}: its routing table has no way to {where}"
    asleep, near = sleeping(one.node, one.address), nearer(one.node, one.address)
    if one.kind == "down" and asleep is not None:
        return f"{who}: {asleep.interface} is down, whose network {asleep.address}/{asleep.length} has {where} in it"
    if one.kind == "detour" and near is not None:
        return (
            f"{who}: it sends to {where} by {one.route.interface} ({one.route.network}), though "
            f"{near.address}/{near.length} on {near.interface} has that in its own network"
        )
    if one.kind == "reject":
        return f"{who}: its routing table rejects {one.route.network}, and so {where}"
    if one.kind == "gateway":
        return (
            f"{who}: it sends to {where} by the gateway {one.route.gateway} ({one.route.network}), though both are in "
            "one network"
        )
    return (
        f"{who}: what comes from {where} on {one.interface} is dropped: the answer would leave by "
        f"{one.route.interface}, and rp_filter of {one.interface} is 1 (strict)"
    )


def repair_route(cluster: Cluster, one: Obstacle, option: int = 1) -> Fix:
    """What to do about it."""
    who, names = one.node.name, (one.node.name,)
    network = shlex.quote(one.route.network)
    if one.kind == "reverse-path":
        text = f"On {who}, let {one.interface} take in what is answered by another interface (rp_filter: loose)."
        setting = shlex.quote(f"net.ipv4.conf.{one.interface}.rp_filter=2")
        return Fix(text, names, option, commands=(f"sysctl -w {setting}",))
    family = "-6 " if ":" in one.address else ""
    if one.kind == "reject":
        text = f"On {who}, take the route away that rejects it."
        return Fix(text, names, option, commands=(f"ip {family}route del {network}",))
    if one.kind == "gateway":
        via = shlex.quote(one.route.gateway or "")
        text = f"On {who}, take the route away that leads to a neighbour by a gateway."
        return Fix(text, names, option, commands=(f"ip {family}route del {network} via {via}",))
    if one.kind == "detour":
        device = shlex.quote(one.route.interface or "")
        text = f"On {who}, take the route away that leads to a neighbour by {one.route.interface} (a VPN client's?)."
        return Fix(text, names, option, commands=(f"ip {family}route del {network} dev {device}",))
    return add_route(cluster, one.node, one.other, one.address, option)


def add_route(cluster: Cluster, node: Node, other: Node | None, address: str, option: int = 1) -> Fix:
    """A way from ``node`` to ``address``: by an interface that is down, the netmask that is right, else the route that
    a peer's table speaks for."""
    names, family = (node.name,), "-6 " if ":" in address else ""
    asleep = sleeping(node, address)
    if asleep is not None:
        text = f"On {node.name}, bring {asleep.interface} up: {address} is in its network."
        return Fix(text, names, option, commands=(f"ip link set dev {shlex.quote(asleep.interface)} up",))
    mask = netmask(node, other, address) if other is not None else None
    if mask is not None:
        device = shlex.quote(mask.interface)
        text = (
            f"Give {mask.address} on {node.name} the netmask of the others, /{mask.right}, here and in the interface's "
            "configuration."
        )
        command = (
            f"ip {family}address add {mask.address}/{mask.right} dev {device} && "
            f"ip {family}address del {mask.address}/{mask.length} dev {device}"
        )
        return Fix(text, names, option, commands=(command,))
    known = _known_way(cluster, node, other, address)
    if known is not None:
        text = f"Give {node.name} a route to {address}, as its peers have one."
        return Fix(text, names, option, commands=(f"ip {family}route add {known}",))
    text = f"Give {node.name} a route to {address}: ip {family}route add {address} via <gateway>, or dev <interface>."
    return Fix(text, names, option)


def _known_way(cluster: Cluster, node: Node, other: Node | None, address: str) -> str | None:
    """``NETWORK via GATEWAY`` as a neighbour of the node has it, or ``NETWORK dev INTERFACE`` where the other has the
    node on its own link."""
    mine = list(_networks(node))
    for peer in cluster.nodes:
        entry = lookup(peer, address) if peer is not node else None
        if entry is None or entry.gateway is None or entry.reject:
            continue
        if any(_in(own, length, entry.gateway) for _, own, length in mine):
            return f"{shlex.quote(entry.network)} via {shlex.quote(entry.gateway)}"
    for interface, own, _ in mine if other is not None else ():
        back = lookup(other, own) if other is not None else None
        if back is None or back is NO_ENTRY or back.reject or back.gateway is not None:
            continue
        length = next((n for _, a, n in _networks(other) if a == address), None) if other is not None else None
        if length is not None:
            network = ipaddress.ip_network(f"{address}/{length}", strict=False)
            return f"{network} dev {shlex.quote(interface.name)}"
    return None
