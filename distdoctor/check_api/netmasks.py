"""Which of two nodes has a netmask that is wrong, where one takes the other for a neighbour and that one sends by a
gateway: a mask that is too narrow or too wide. Either works where the gateway forwards what it is sent, or answers for
the other (proxy ARP), so it is asked only of nodes between which nothing passes."""

from __future__ import annotations

import ipaddress

from distdoctor.check_api.routes import Mask, RouteObstacle, networks, source_address
from distdoctor.check_api.table_lookup import lookup
from distdoctor.model.addresses import in_network
from distdoctor.model.cluster import Node
from distdoctor.model.facts import TableRoute


def netmask(node: Node, other: Node | None, address: str) -> Mask | None:
    """The netmask by which ``node`` has no way to ``address`` of ``other``, in whose network it is itself."""
    theirs = [length for i, a, length in networks(other) if a == address] if other is not None else []
    for interface, mine, length in networks(node):
        for right in theirs:
            if length > right and not in_network(mine, length, address) and in_network(address, right, mine):
                return Mask(interface.device, mine, length, right)
    return None


def mask_obstacle(source: Node, target: Node, address: str) -> RouteObstacle | None:
    """The netmask by which ``source`` and ``address`` of ``target`` miss each other; None: none, or not known."""
    mine = source_address(source, address)
    if mine is None or source.host == target.host:
        return None
    for node, other, there, here in ((source, target, address, mine), (target, source, mine, address)):
        entry = lookup(node, there)
        if entry is None or entry.reject:
            continue
        narrow = netmask(node, other, there)
        if narrow and not _unanswered(other, here) and _by_chance(entry, narrow):
            return RouteObstacle(node, other, there, "narrow", entry, mask=narrow)
        wide = _too_wide(node, other, there, here)
        if wide and not entry.gateway and _unanswered(node, there):
            return RouteObstacle(node, other, there, "wide", entry, mask=wide)
    return None


def _too_wide(node: Node, other: Node, address: str, mine: str) -> Mask | None:
    """The mask that ``node``'s own address should have, where ``other`` at ``address`` has one that leaves it out and
    sends to it by a gateway."""
    way, theirs = lookup(other, mine), netmask(other, node, mine)
    if way is None or not way.gateway or theirs is None or theirs.address != address:
        return None
    return Mask(node.interface_of(mine) or "", mine, theirs.right, theirs.length)


def _by_chance(entry: TableRoute, mask: Mask) -> bool:
    """Whether a packet goes by a gateway for want of a better entry: none was written for that network or a part."""
    return bool(entry.gateway) and ipaddress.ip_network(entry.network).prefixlen < mask.right


def _unanswered(node: Node, address: str) -> bool:
    """Whether the node asked for the hardware address and nobody answered."""
    near = node.network.neighbour
    return any(one.address == address for one in node.network.unanswered) or (
        near is not None and near.state == "silent" and near.address == address
    )
