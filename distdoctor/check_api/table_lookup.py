"""By which entry of its routing tables a node sends: the rules of policy routing first, then the main table. Pure."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, replace

from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Node
from distdoctor.model.facts import PacketMark, PolicyRule, TableRoute

NO_ENTRY = TableRoute("", None, None)


@dataclass(frozen=True)
class Packet:
    """What rules of policy routing may ask of a packet besides where it goes; empty and None: not known."""

    source: str = ""
    source_port: int | None = None
    target_port: int | None = None


def lookup(node: Node, address: str, packet: Packet = Packet()) -> TableRoute | None:
    """The entry by which the node sends to ``address``; NO_ENTRY where it has none, None where that is not known.

    Rules of policy routing come first, as far as it is known of the packet that they are about it.
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
        found = longest(rule.routes, address)
        if found is None or not (found is NO_ENTRY or found.throws):
            # What is wrong about an entry of the main table is the entry, whatever rule led there.
            return found if found is None or rule.main else replace(found, rule=rule.text, marked=marked)
    return longest(node.network.routes, address)


def _about(node: Node, rule: PolicyRule, address: str, packet: Packet) -> tuple[bool, PacketMark | None]:
    """Whether the packet is known to be one of those that the rule is about, and the mark on it for which it is."""

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


def _mark_for(node: Node, rule: PolicyRule, packet: Packet) -> PacketMark | None:
    """The mark that the rule is for, where the node's packet filter is known to put it on the packet."""
    if rule.mark is None or node.network.firewall is None:
        return None
    ports, (value, mask) = {"dport": packet.target_port, "sport": packet.source_port}, rule.mark
    for one in node.network.firewall.marks:
        if one.version == rule.version and _is_of(one, ports[one.side], node) and one.mark & mask == value:
            return one
    return None


def _is_of(mark: PacketMark, port: int | None, node: Node) -> bool:
    """Whether the mark is put on packets of that port: its own, or one of those that the kernel picks from, as it is
    for these."""
    picked = node.limits.port_range
    own = mark.port == port
    return own or (port is not None and picked is not None and mark.port in picked and picked[0] <= port <= picked[1])


def longest(table: Iterable[TableRoute], address: str) -> TableRoute | None:
    """The entry of a table that the kernel takes for ``address``; NO_ENTRY where none has it in its network, None where
    that cannot be told."""
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
