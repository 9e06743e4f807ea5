"""The addresses that lead to node 0 though no host has them: a service's, or one that is translated on the way."""

from __future__ import annotations

from functools import lru_cache

from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Cluster, Node


@lru_cache(maxsize=4)
def leading_to(cluster: Cluster, zero: Node) -> frozenset[object]:
    """As numbers, the own addresses of ``zero``, and those by which nodes got to its store and which no node has."""
    owned = {parse_address(address) for node in cluster.nodes for address in node.addresses}
    found: set[object] = {parse_address(address) for address in zero.addresses}
    for node in cluster.nodes:
        contact = node.network.contact
        if contact is None or node.network.master_is_own or not met(node) or not arrived(zero, node):
            continue
        if (number := parse_address(contact.address)) not in owned:
            found.add(number)
    return frozenset(found)


def met(node: Node) -> bool:
    """Whether the node got into the store that it looked for."""
    contact = node.network.contact
    return bool(node.meeting.joined and contact and contact.outcome == "open")


def arrived(zero: Node, node: Node) -> bool:
    """Whether ``zero`` knows of it."""
    return bool({*node.keys} & {*zero.meeting.arrived})
