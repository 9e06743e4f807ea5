"""The addresses of a node, and the interface that its data takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container
from dataclasses import dataclass, field
from functools import lru_cache

from distdoctor.knowledge.interfaces import is_bridge, is_virtual
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node


def reachable_address(node: Node, cluster: Cluster | None = None, but: Container[str] = ()) -> str | None:
    """The address by which other hosts reach ``node``: by its routes, else one in a network it shares with another

    node of the cluster, else the first that is neither loopback nor on a bridge of containers. None without any. One of
    IPv6 (or IPv4) only where the other nodes have such addresses, too, or it has no other.
    ``but``: addresses that it is not to be.
    """
    reached = [a for a in (node.reached_at,) if a and not is_loopback(a) and a not in but]
    candidates = [(address, network) for address, network in _candidates(node) if address not in but]
    spread = _spread(cluster) if cluster else _Spread()
    here = spread.at.get(node.host, frozenset())
    others = len(spread.at) - bool(here)
    spoken = [family for family in (False, True) if spread.hosts[family] - (family in here) == others]
    shared = [address for address, network in candidates if spread.hosts[network] - (network in here) > 0]
    in_order = [*reached, *shared, *(address for address, _ in candidates)]
    return next((a for a in in_order if (":" in a) in spoken), in_order[0] if in_order else None)


_Trait = bool | tuple[int, int]
"""What hosts have in common: addresses of a family (whether IPv6), or in a network."""


@dataclass(frozen=True)
class _Spread:
    """What the hosts of a cluster that others may reach have, and how many hosts have it."""

    at: dict[tuple[str, str, str], frozenset[_Trait]] = field(default_factory=dict)
    hosts: Counter[_Trait] = field(default_factory=Counter)


@lru_cache(maxsize=4)
def _spread(cluster: Cluster) -> _Spread:
    """Counted once: of each of a thousand nodes it is asked which of its addresses the others reach."""
    found: dict[tuple[str, str, str], set[_Trait]] = {}
    for node in cluster.nodes:
        for address, network in _candidates(node):
            found.setdefault(node.host, set()).update((":" in address, network))
    return _Spread(
        {host: frozenset(its) for host, its in found.items()}, Counter(t for its in found.values() for t in its)
    )


def _candidates(node: Node) -> list[tuple[str, tuple[int, int]]]:
    """Addresses of a node's interfaces, each with its network: (prefix length, number)."""
    found = []
    interfaces = node.interfaces
    for interface in sorted(interfaces, key=lambda one: is_virtual(one.name)):
        if interface.loopback or not interface.up or is_bridge(interface.name):
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            parsed = parse_address(address)
            if parsed is not None and not parsed.is_loopback and not parsed.is_link_local:
                found.append((address, (length, int(parsed) >> (parsed.max_prefixlen - length))))
    return found


def primary_interface(node: Node) -> str | None:
    """The interface that reaches the other nodes, by this node's routes."""
    return node.network.primary.interface if node.network.primary else None


def own_host_names(node: Node) -> tuple[str, ...]:
    """What a node is called: its host name and, where that has dots, the first label."""
    hostname = node.identity.hostname
    return tuple(dict.fromkeys((hostname, hostname.partition(".")[0])))


def master_means_itself(node: Node) -> bool:
    """Whether MASTER_ADDR means, on this node, the node itself and nobody else: localhost, 127.x, ::1, 0.0.0.0 (a
    connection to it is one to this host: Linux's ip(7), INADDR_ANY), or another host's name that resolves to one of
    these. A node's own name may: the store listens on every address."""
    master = node.plan.master_addr
    if master is None:
        return False
    number = parse_address(master)
    if is_loopback(master) or (number is not None and number.is_unspecified):
        return True
    if master in ("localhost", "ip6-localhost", "localhost.localdomain"):
        return True
    resolved = node.master_addresses
    return master not in own_host_names(node) and bool(resolved) and all(is_loopback(address) for address in resolved)


def data_interface(node: Node) -> tuple[str | None, int]:
    """(the interface that gloo, or else the route to the others, uses; its MTU in bytes, 0 where that is not known)."""
    name = node.interface_of(node.gloo_address) or primary_interface(node)
    return name, next((i.mtu for i in node.interfaces if i.name == name), 0)
