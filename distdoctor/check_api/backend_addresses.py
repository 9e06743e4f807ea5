"""The addresses that backends pick to be reached at, and why one of them cannot be right."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from distdoctor.check_api.duplicate_addresses import duplicate_addresses
from distdoctor.check_api.link_graph import FailingLink, link_graph
from distdoctor.check_api.nodes import gloo_dials, makes_gloo_group
from distdoctor.knowledge.interfaces import is_virtual
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node

Backend = Literal["gloo", "nccl"]
INTERFACE_VARIABLES: dict[Backend, str] = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME"}
"""The variable by which each is told its interface."""


@dataclass(frozen=True)
class PickedAddress:
    """An address that a backend picks on a node, and that cannot be right."""

    node: Node
    backend: Backend
    address: str
    interface: str | None
    shared_with: tuple[Node, ...]
    """Nodes on other hosts that have the same address."""
    unreached: tuple[FailingLink, ...]
    """The links on which it was tried in vain."""
    seen_as: str
    """The address at which other hosts see what the node sends from this one, where that is another; else empty."""
    fails: bool
    """Whether the job makes one of the connections that lead nowhere."""


def wrongly_picked(cluster: Cluster) -> tuple[PickedAddress, ...]:
    """The picks that are on an interface which other hosts do not share, loopback for NCCL among them, or whose address
    another host has, too.

    Not those with an address that two hosts of one network have: no interface is the right one then.
    """
    if not cluster.multi_host or len(cluster.nodes) < 2:
        return ()
    owners: dict[object, list[Node]] = {}
    for node in cluster.nodes:
        for address in node.addresses:
            owners.setdefault(parse_address(address), []).append(node)
    missed: dict[tuple[Node, str], list[FailingLink]] = {}
    graph = link_graph(cluster)
    for edge in (*graph.misled, *graph.doubled, *graph.hidden):
        missed.setdefault((edge.target, edge.link.address), []).append(edge)
    hidden = {(edge.target, edge.link.address) for edge in graph.hidden}
    found = []
    doubled = {one.address for one in duplicate_addresses(cluster)}
    for node in cluster.nodes:
        for backend, address in picks(node):
            if is_loopback(address) and backend == "nccl" and _told(node):  # of gloo a check of its own tells
                found.append(PickedAddress(node, backend, address, node.interface_of(address), (), (), "", True))
            if is_loopback(address) or address in doubled:
                continue
            others = tuple(other for other in owners.get(parse_address(address), ()) if other.host != node.host)
            edges = tuple(e for e in missed.get((node, address), ()) if backend in e.link.use)
            if others or (edges and (_odd(node, address) or (node, address) in hidden)):
                fails = _fails(backend, node, address, others, edges)
                seen = next((one.seen for one in node.mesh.translated if one.own == address), "")
                interface = node.interface_of(address)
                found.append(PickedAddress(node, backend, address, interface, others, edges, seen, fails))
    return tuple(found)


def picks(node: Node) -> list[tuple[Backend, str]]:
    """What each backend that this node's job uses picks."""
    found: list[tuple[Backend, str]] = []
    if makes_gloo_group(node):
        found += [("gloo", address) for address in node.gloo_addresses]
    nccl = node.system.nccl
    if nccl is not None and nccl.address and node.gpus and "nccl" in node.plan.backends(gpus=True):
        found.append(("nccl", nccl.address))
    return found


def _told(node: Node) -> bool:
    """Whether NCCL picks what it does because a setting says so, and not for want of another."""
    choice = node.system.nccl
    return choice is not None and choice.reason == "variable"


def _odd(node: Node, address: str) -> bool:
    parsed = parse_address(address)
    link_local = parsed is not None and parsed.is_link_local
    return link_local or is_virtual(node.interface_of(address))


def _fails(
    backend: Backend, node: Node, address: str, others: tuple[Node, ...], edges: tuple[FailingLink, ...]
) -> bool:
    """gloo connects from the numerically larger address to the smaller, nccl from anywhere."""
    if backend == "nccl":
        return True
    return any(gloo_dials(peer, node, address) for peer in (*others, *(edge.source for edge in edges)))
