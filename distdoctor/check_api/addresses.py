"""Duplicate and wrongly picked addresses: IP addresses of two hosts, hardware addresses of two cards, backends'
choices.

Evidence for duplicates: the nodes' own interfaces, and the ARP tables of the others, also with manual entries.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from distdoctor.check_api.firewall import suspect
from distdoctor.check_api.links import FailingLink, link_graph
from distdoctor.check_api.nodes import gloo_dials, makes_gloo_group
from distdoctor.check_api.routes import lookup
from distdoctor.knowledge.network import is_bridge, is_virtual
from distdoctor.model.addresses import in_network, is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node


@dataclass(frozen=True)
class DuplicateAddress:
    """Address of several nodes, each on a host of its own, or of a node and a host without facts."""

    address: str
    owners: tuple[Node, ...]
    spare: tuple[Node, ...] = ()
    """Owners that can do without it: the others reach them at another address, or it is outside their network (on
    loopback, as a /32 of another interface)."""
    seen_by: tuple[Node, ...] = ()
    """With one owner: the nodes for which another host answered."""
    mac: str = ""
    """With one owner: the hardware address of that other host. With several owners: the one that their cards share,
    each at an address of its own."""
    written: bool = False
    """True if no host answered for it: it is a manual entry in the tables of ``seen_by``."""


def duplicate_addresses(cluster: Cluster) -> tuple[DuplicateAddress, ...]:
    """Return every duplicate address."""
    if not cluster.multi_host or len(cluster.nodes) < 2:
        return ()
    clashes = tuple(_of_nodes(cluster))
    known = {clash.address for clash in clashes}
    strangers = (stranger for stranger in _of_strangers(cluster) if stranger.address not in known)
    return (*clashes, *strangers, *_of_cards(cluster))


def _of_cards(cluster: Cluster) -> Iterator[DuplicateAddress]:
    """Yield hardware addresses of several hosts in one network, if one of these hosts does not get through.

    Otherwise nothing is wrong: containers of one machine may share its card (ipvlan).
    """
    cards: dict[str, dict[tuple[str, str, str], tuple[Node, str]]] = {}
    for node in cluster.nodes:
        for address in _shared(node):
            mac = next((i.mac for i in node.interfaces if address in i.addresses), "")
            if mac:
                cards.setdefault(mac, {}).setdefault(node.host_key, (node, address))
    for mac, by_host in cards.items():
        owners = dict(by_host.values())
        if len(owners) > 1 and len({*owners.values()}) == len(owners) and _cut_off(cluster, owners):
            yield DuplicateAddress(", ".join(owners.values()), tuple(owners), mac=mac)


def _cut_off(cluster: Cluster, owners: Mapping[Node, str]) -> bool:
    """Return whether one of these nodes did not get through to another node, or another to it."""
    for node, address in owners.items():
        for peer in cluster.peers(node):
            if peer.host_key != node.host_key and _failed(peer, node, address):
                return True
            if peer.host_key != node.host_key and any(_failed(node, peer, at) for at in _shared(peer)):
                return True
    return False


def _of_nodes(cluster: Cluster) -> Iterator[DuplicateAddress]:
    owners: dict[str, dict[tuple[str, str, str], Node]] = {}
    for node in cluster.nodes:
        for address in _shared(node):
            owners.setdefault(address, {}).setdefault(node.host_key, node)
    foreign = {node: tuple(_outside_its_network(node)) for node in cluster.nodes}
    reached: dict[str | None, list[Node]] = {}
    for node in cluster.nodes:
        reached.setdefault(node.reached_at, []).append(node)
    in_networks = set(owners)
    for node in cluster.nodes:
        for address in foreign[node]:
            # A service's address is duplicated on purpose, unless another node itself is reached at it.
            others = [peer for peer in reached.get(address, ()) if peer.host_key != node.host_key]
            if address in in_networks:
                others = [peer for peer in others if peer.host_key in owners[address]]
            elif node.reached_at in (None, address) or address in node.master_addresses:
                continue  # the local meaning of MASTER_ADDR is another matter
            for holder in (*others, node) if others else ():
                owners.setdefault(address, {})[holder.host_key] = holder
    for address, by_host in owners.items():
        nodes = tuple(by_host.values())
        spare = tuple(node for node in nodes if node.reached_at != address)
        if address in in_networks:
            spare = tuple(node for node in nodes if node in spare or address in foreign[node])
        if len(nodes) > 1 and len(spare) < len(nodes):
            yield DuplicateAddress(address, nodes, spare)


def _shared(node: Node) -> Iterator[str]:
    """Yield the addresses of a node in the network in which it meets the others.

    A container network behind address translation has the same addresses on every host. So has a service's address on
    a bridge or on loopback, or one without a network of its own (/32). Hosts share no network that has them, and the
    route from them to the master leads over a gateway.
    """
    for interface in node.interfaces:
        if interface.loopback or not interface.up or is_virtual(interface.name):
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            parsed = parse_address(address)
            if parsed is None or parsed.is_link_local or not 0 < length < parsed.max_prefixlen:
                continue
            if any(in_network(address, length, master) for master in node.master_addresses):
                yield address


def _outside_its_network(node: Node) -> Iterator[str]:
    """Yield the addresses of a node outside the networks that it shares with others.

    Packets to them stay on the node. Not loopback's own, nor those of container bridges, which are the same on every
    host.
    """
    for interface in node.interfaces:
        if not interface.loopback and (not interface.up or is_bridge(interface.name)):
            continue
        for number, address in enumerate(interface.addresses):
            parsed = parse_address(address)
            if parsed is None or parsed.is_loopback or parsed.is_link_local:
                continue
            if interface.loopback or interface.prefix_lengths[number : number + 1] == (parsed.max_prefixlen,):
                yield address


def _of_strangers(cluster: Cluster) -> Iterator[DuplicateAddress]:
    """Yield addresses of nodes for which another host answered a peer that did not get through.

    A router or a cloud's network may answer for all: then its hardware address has other addresses as well. Table
    entries are searched first: with a thousand nodes there are a million pairs, and few entries.
    """
    owners: dict[str, list[Node]] = {}
    for node in cluster.nodes:
        if any(interface.mac for interface in node.interfaces):
            for address in dict.fromkeys(_shared(node)):
                owners.setdefault(address, []).append(node)
    answers: dict[tuple[Node, str, bool], dict[Node, str]] = {}
    for peer in cluster.nodes:
        for node, address, written, mac in _wrong_answers(peer, owners):
            answers.setdefault((node, address, written), {})[peer] = mac
    for address, nodes in owners.items():
        for node in nodes:
            for written in (False, True):
                if by := answers.get((node, address, written)):
                    yield DuplicateAddress(address, (node,), (), tuple(by), next(iter(by.values())), written)


def _wrong_answers(peer: Node, owners: Mapping[str, list[Node]]) -> Iterator[tuple[Node, str, bool, str]]:
    """Yield (node, address, whether the table has it permanently, hardware address) where another host answered."""
    table = peer.network.hardware_addresses
    permanent = {entry.address for entry in table if entry.permanent}
    for address in dict.fromkeys(entry.address for entry in table):
        for node in owners.get(address, ()):
            mac = _answered(peer, address) if node.host_key != peer.host_key else ""
            if mac and mac not in {i.mac for i in node.interfaces} and _failed(peer, node, address):
                yield node, address, address in permanent, mac


def _failed(peer: Node, node: Node, address: str) -> bool:
    """Return whether a peer did not get through to an address of the node, without a packet filter's rule as the
    reason."""
    contact = peer.network.contact
    ports = [link.port for link in peer.mesh.bad if link.address == address and link.to in node.keys]
    if contact is not None and contact.address == address and not peer.meeting.joined:
        ports.append(contact.port)
    return any(suspect(peer, node, port) == "either" for port in ports)


def _answered(peer: Node, address: str) -> str:
    """Return the hardware address that answered the peer for ``address`` and for nothing else, empty if none did."""
    entry = lookup(peer, address)
    if entry is None or entry.gateway is not None:
        return ""
    table = [entry for entry in peer.network.hardware_addresses if (":" in entry.address) == (":" in address)]
    mac = next((known.mac for known in table if known.address == address and known.interface == entry.interface), "")
    others = (entry for entry in table if entry.address != address and not entry.address.startswith("fe80:"))
    return "" if any(other.mac == mac and not other.permanent for other in others) else mac


# Addresses that backends advertise, and the reason why one of them cannot be right.


Backend = Literal["gloo", "nccl"]
INTERFACE_VARIABLES: dict[Backend, str] = {"gloo": "GLOO_SOCKET_IFNAME", "nccl": "NCCL_SOCKET_IFNAME"}
"""Interface variable of each backend."""


@dataclass(frozen=True)
class PickedAddress:
    """Address that a backend picks on a node, and that cannot be right."""

    node: Node
    backend: Backend
    address: str
    interface: str | None
    shared_with: tuple[Node, ...]
    """Nodes on other hosts with the same address."""
    unreached: tuple[FailingLink, ...]
    """Links on which it was tried without success."""
    seen_as: str
    """Source address that other hosts see for packets from this one, if it is another; else empty."""
    fails: bool
    """True if the job makes one of the failing connections."""


def wrongly_picked(cluster: Cluster) -> tuple[PickedAddress, ...]:
    """Return the picks on an interface that other hosts do not share, loopback for NCCL included, or with another
    host's address.

    Duplicate addresses within one network are left out: no interface is the right one then.
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
    picked = []
    doubled = {clash.address for clash in duplicate_addresses(cluster)}
    for node in cluster.nodes:
        for backend, address in picks(node):
            if is_loopback(address) and backend == "nccl" and _is_forced(node):  # gloo has a check of its own
                picked.append(PickedAddress(node, backend, address, node.interface_of(address), (), (), "", True))
            if is_loopback(address) or address in doubled:
                continue
            others = tuple(other for other in owners.get(parse_address(address), ()) if other.host_key != node.host_key)
            edges = tuple(e for e in missed.get((node, address), ()) if backend in e.link.use)
            if others or (edges and (_odd(node, address) or (node, address) in hidden)):
                fails = _fails(backend, node, address, others, edges)
                translated = next((nat.seen for nat in node.mesh.translated if nat.own == address), "")
                interface = node.interface_of(address)
                picked.append(PickedAddress(node, backend, address, interface, others, edges, translated, fails))
    return tuple(picked)


def picks(node: Node) -> list[tuple[Backend, str]]:
    """Return the pick of each backend that this node's job uses."""
    picked: list[tuple[Backend, str]] = []
    if makes_gloo_group(node):
        picked += [("gloo", address) for address in node.gloo_addresses]
    nccl = node.host.nccl
    if nccl is not None and nccl.address and node.gpus and "nccl" in node.plan.backends(gpus=True):
        picked.append(("nccl", nccl.address))
    return picked


def _is_forced(node: Node) -> bool:
    """Return whether NCCL's choice comes from a setting, rather than from the lack of alternatives."""
    choice = node.host.nccl
    return choice is not None and choice.reason == "variable"


def _odd(node: Node, address: str) -> bool:
    parsed = parse_address(address)
    link_local = parsed is not None and parsed.is_link_local
    return link_local or is_virtual(node.interface_of(address))


def _fails(
    backend: Backend, node: Node, address: str, others: tuple[Node, ...], edges: tuple[FailingLink, ...]
) -> bool:
    """Return whether the job makes a failing connection: gloo connects from the numerically larger address, nccl from
    any."""
    if backend == "nccl":
        return True
    return any(gloo_dials(peer, node, address) for peer in (*others, *(edge.source for edge in edges)))
