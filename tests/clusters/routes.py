"""Clusters whose routing tables, netmasks or reverse path filters are in the way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import (
    HardwareAddress,
    Interface,
    Link,
    MeshFacts,
    NextHop,
    NodeFacts,
    PolicyRule,
    TableRoute,
)
from tests.checks.row import Facts
from tests.facts_builder import healthy, outside, waited_in_vain, with_host, with_network

LAN = "10.77.0.0/24"


def route(network: str, gateway: str | None = None, interface: str | None = "eth0", reject: bool = False) -> TableRoute:
    return TableRoute(network, gateway, interface, reject)


def routed(one: NodeFacts, *entries: TableRoute, strict: tuple[str, ...] = ()) -> NodeFacts:
    return with_network(one, routes=entries, strict=strict)


def by_hops(one: NodeFacts, network: str, *gateways: str, silent: tuple[str, ...] = ()) -> NodeFacts:
    """The node sends to ``network`` by several next hops, and nobody answers for those that are ``silent``."""
    entry = TableRoute(network, gateways[0], "eth0", next_hops=tuple(NextHop(its, "eth0") for its in gateways))
    unanswered = tuple(HardwareAddress(address, "", "eth0") for address in silent)
    return with_network(one, routes=(route(LAN), entry), unanswered=unanswered)


def by_policy(one: NodeFacts, text: str, *entries: TableRoute, **about: Any) -> NodeFacts:
    """The node with one more rule of policy routing, which leads to a table with these entries."""
    return with_network(one, policy=(PolicyRule(4, text, routes=entries, **about),))


def masked(one: NodeFacts, length: int) -> NodeFacts:
    """The node with another netmask; its table has what the kernel makes of it."""
    assert one.host is not None
    eth0 = one.host.interfaces[1]
    own = eth0.addresses[0]
    one = with_host(one, interfaces=(one.host.interfaces[0], replace(eth0, prefix_lengths=(length,))))
    return (
        routed(one)
        if length == 32
        else routed(one, route(f"{own.rpartition('.')[0]}.{int(own.rpartition('.')[2]) & ~1}/{length}"))
    )


def two(outcome: str = "no-answer", **changes: Any) -> tuple[NodeFacts, NodeFacts]:
    """Node 0 waited, and host1 did not get to it."""
    a, b = healthy(2)
    return routed(waited_in_vain(a), route(LAN)), routed(outside(b, outcome, **changes), route(LAN))


def reverse_path(outcome: str = "no-answer") -> Facts:
    """host0 would answer host1 by eth1, and drops what comes in by eth0."""
    a, b = two(outcome, errno=113 if outcome == "unreachable" else None)
    assert a.host is not None
    a = with_host(a, interfaces=(*a.host.interfaces, Interface("eth1", ("10.99.0.10",), (24,), mtu=1500)))
    return routed(a, route(LAN), route("10.77.0.11/32", None, "eth1"), strict=("eth0", "eth1")), b


def three(*tables: tuple[TableRoute, ...], bad: tuple[tuple[int, int, str, int | None], ...]) -> Facts:
    facts = list(healthy(3))
    for number, one in enumerate(facts):
        links = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, ("gloo", "primary"), how, errno)  # type: ignore[arg-type]
            for source, to, how, errno in bad
            if source == number
        )
        facts[number] = routed(replace(one, mesh=MeshFacts(good=2 - len(links), bad=links)), *tables[number])
    return tuple(facts)


def asleep(*entries: TableRoute, **how: object) -> Facts:
    """The master's address is in the network of host1's admin0, which is down; eth0 is in another."""
    a, b = two(**how)  # type: ignore[arg-type]
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    eth0, down = replace(eth0, addresses=("10.88.0.11",)), Interface("admin0", ("10.77.0.11",), (24,), up=False)
    return a, routed(with_host(b, interfaces=(lo, eth0, down)), route("10.88.0.0/24"), *entries)


def unplugged(on: int) -> Facts:
    """The card of one of the two has an address and its network's route, and no carrier."""
    facts = list(two("unreachable", errno=113))
    host = facts[on].host
    assert host is not None
    facts[on] = with_host(facts[on], interfaces=(host.interfaces[0], replace(host.interfaces[1], up=False)))
    return tuple(facts)


def bridge_port(on: int) -> Facts:
    """The card of one of the two has an address and its network's route, and is a port of a bridge."""
    facts = list(two("unreachable", errno=113))
    host = facts[on].host
    assert host is not None
    card = replace(host.interfaces[1], bridge="br0")
    facts[on] = with_host(facts[on], interfaces=(host.interfaces[0], card, Interface("br0", mtu=1500)))
    return tuple(facts)


NO_FILTER = ("firewall", "accept TCP")
"""What is not to be said where no packet filter is in the way."""
