"""InfiniBand and RoCE ports of nodes, as NCCL would use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

from distdoctor.check_api.nodes import plans_nccl_group
from distdoctor.check_api.text import some_of
from distdoctor.knowledge import nccl
from distdoctor.knowledge.nccl import GID_INDEX, HCA, gid_index, kind_of_address, looked_for, subnet
from distdoctor.knowledge.settings import of_backends
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Gid, RdmaPort

__all__ = [
    "ADDRESS_SETTINGS",
    "GID_INDEX",
    "HCA",
    "Gid",
    "RdmaPort",
    "active_ports",
    "chosen_ports",
    "deviating_ports",
    "differ_by_settings",
    "gid_index",
    "has_no_device",
    "is_active",
    "is_forbidden",
    "kind_of_address",
    "kinds_looked_for",
    "looked_for",
    "looks_itself",
    "needs_devices",
    "openable",
    "over_tcp",
    "ports_text",
    "roce_ports",
    "subnet",
    "uses_rdma",
]
T = TypeVar("T", bool, float)
ADDRESS_SETTINGS = ("NCCL_IB_ROCE_VERSION_NUM", "NCCL_IB_ADDR_FAMILY")
"""Settings by which NCCL chooses the address of a RoCE port without an index."""


def uses_rdma(cluster: Cluster, node: Node) -> bool:
    """Return whether NCCL of this job would use RDMA ports of the node if it can: on a single node it needs no
    network."""
    return cluster.multi_host and plans_nccl_group(node) and not nccl.rdma_switched_off(node.variables)


def needs_devices(node: Node) -> bool:
    """Return whether the node's settings leave NCCL nothing but InfiniBand or RoCE."""
    return node.variables.get("NCCL_NET", "").upper() == "IB"


def is_forbidden(node: Node) -> bool:
    """Return whether NCCL_IB_DISABLE keeps NCCL from InfiniBand and RoCE."""
    return nccl.rdma_number(node.variables.get(nccl.RDMA_DISABLED, "0")) not in (0, None)


def over_tcp(nodes: Iterable[Node]) -> dict[str, str | None]:
    """Return the setting that makes NCCL use TCP on these nodes, whatever their settings are now."""
    return {"NCCL_NET": "Socket"} if any(map(needs_devices, nodes)) else {nccl.RDMA_DISABLED: "1"}


def chosen_ports(node: Node) -> list[RdmaPort]:
    """Return the ports that NCCL_IB_HCA allows, up or not."""
    return nccl.chosen_devices(node.facts.rdma.ports, node.variables) if node.facts.rdma else []


def is_active(port: RdmaPort) -> bool:
    """Return whether NCCL would use the port."""
    return port.state == "ACTIVE"


def active_ports(node: Node) -> list[RdmaPort]:
    """Return the allowed ports that NCCL would use."""
    return [port for port in chosen_ports(node) if is_active(port)]


def openable(node: Node) -> bool:
    """Return whether a program of this user can use any RDMA device."""
    facts = node.facts.rdma
    return facts is not None and len(facts.files) > len(facts.unusable)


def roce_ports(node: Node) -> list[RdmaPort]:
    """Return the active Ethernet ports that have GIDs; InfiniBand ports use no index."""
    return [port for port in active_ports(node) if port.link_layer == "Ethernet" and port.gids]


def looks_itself(node: Node) -> bool:
    """Return whether the node's NCCL searches a RoCE address if no index is set: 2.21 and later do."""
    numbers = [int(part) for part in (node.identity.nccl or "").split(".")[:2] if part.isdecimal()]
    return numbers >= [2, 21]


def kinds_looked_for(node: Node, without: Iterable[str] = ()) -> dict[str, str]:
    """Return version and kind of the address that NCCL finds on each RoCE port, with the node's settings except
    ``without``.

    Empty if one is unknown, or if NCCL does not search.
    """
    settings = {name: value for name, value in of_backends(node.variables).items() if name not in without}
    if not looks_itself(node) or gid_index(settings) is not None:
        return {}
    taken = {port.name: looked_for(port.gids, settings) for port in roce_ports(node)}
    kinds = {name: f"RoCE v{gid.version}, {kind_of_address(gid.address)}" for name, gid in taken.items() if gid}
    return kinds if len(kinds) == len(taken) else {}


def differ_by_settings(cluster: Cluster) -> bool:
    """Return whether only these settings make NCCL use RoCE addresses of different kinds on the nodes."""
    nodes = [node for node in cluster.nodes if uses_rdma(cluster, node)]

    def kinds(without: Iterable[str] = ()) -> set[str]:
        return {kind for node in nodes for kind in kinds_looked_for(node, without).values()}

    return len(kinds()) > 1 and len(kinds(ADDRESS_SETTINGS)) == 1


def ports_text(ports: Iterable[RdmaPort]) -> str:
    """Return the names of ports for a sentence."""
    return some_of([port.name for port in ports], 4)


def has_no_device(node: Node) -> bool:
    """Return whether the kernel was asked and has no RDMA device for this host, or container."""
    return node.facts.rdma is None and node.limits.open_files is not None and not node.limits.rdma_devices


def deviating_ports(
    cluster: Cluster, value: Callable[[Node, RdmaPort], T | None]
) -> Iterator[tuple[Node, RdmaPort, T, T]]:
    """Yield chosen ports whose value differs from that of the same port on at least half of the nodes: node, port,
    value, usual value.

    Of two usual values the greater counts. Equal nodes have equal names for their ports.
    """
    by_name: dict[str, list[tuple[Node, RdmaPort, T]]] = {}
    for node in cluster.nodes:
        if not uses_rdma(cluster, node):
            continue
        for port in chosen_ports(node):
            measured = value(node, port)
            if measured is not None:
                by_name.setdefault(port.name, []).append((node, port, measured))
    for of_name in by_name.values():
        counts = Counter(measured for _, _, measured in of_name)
        usual = max(counts, key=lambda measured: (counts[measured], measured))
        if counts[usual] * 2 >= len(of_name):
            yield from ((node, port, measured, usual) for node, port, measured in of_name if measured != usual)
