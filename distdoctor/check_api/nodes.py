"""Roles of a node in the job: node 0, other hosts, ranks, backends, and its addresses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from distdoctor.knowledge.gloo import initiates
from distdoctor.knowledge.network import is_bridge, is_virtual
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.cluster import Cluster, Node


def node0_name(cluster: Cluster, seen_from: Node | None = None) -> str:
    """Return node 0's name: its own if its facts are here, else MASTER_ADDR's in /etc/hosts, else ``node0``.

    A node that is here and was started as another one does not have node 0's name.
    """
    if cluster.node0 is not None:
        return cluster.node0.name
    sources = (seen_from,) if seen_from else cluster.nodes
    others = {node.name for node in cluster.nodes if node.plan.node_rank}
    for node in sources:
        if node.network.master_name and node.network.master_name not in others:
            return node.network.master_name
    return "node0"


def claims_node0(node: Node) -> bool:
    """Return whether this node takes itself for node 0: by its rank, by hosting the store, or as the owner of
    MASTER_ADDR."""
    plan, network, meeting = node.plan, node.network, node.meeting
    if plan.started == "rank":
        return plan.rank == 0 or 0 in node.ranks
    if meeting.hosted:
        return True
    if plan.node_rank is not None:
        return plan.node_rank == 0
    return bool(network.master_is_own)


def joined_other_run(node: Node) -> bool:
    """Return whether another run of the check has the port of this node, which its own plan makes node 0.

    Node 0 hosts the store of its run. One that finds distdoctor's store on its own address was started next to another:
    of another job, or of the same one twice.
    """
    plan, network, meeting = node.plan, node.network, node.meeting
    zero = plan.rank == 0 if plan.started == "rank" else plan.node_rank == 0
    if not zero or plan.agent_store or meeting.hosted:
        return False
    if network.bind is not None:
        return not network.bind.ok and network.bind.answer is not None and network.bind.answer.kind == "distdoctor"
    if not node.saw("meeting") or not network.master_is_own:
        return False
    # It joined that store as a surplus node, and was not counted.
    return meeting.ended and (meeting.host_lost or meeting.late is not None)


def store_host(cluster: Cluster) -> Node | None:
    """Return node 0 if its facts show that it hosts the store, else None."""
    node = cluster.node0
    if node is None or not node.meeting.hosted:
        return None
    bind = node.network.bind
    return node if bind is None or bind.ok else None


def has_other_hosts(cluster: Cluster, node: Node) -> bool:
    """Return whether other hosts take part, as far as known: they may have to reach this node's addresses, too."""
    if len(cluster.nodes) > 1:
        return bool(cluster.peers(node))
    # Alone, and all its addresses are on loopback: the others may well be on this host.
    master = node.network.master
    local = master is not None and bool(master.addresses) and all(map(is_loopback, master.addresses))
    return cluster.multi_host and not local and node.reached_at is not None and not is_loopback(node.reached_at)


def makes_gloo_group(node: Node) -> bool:
    """Return whether a gloo group is planned, or was tried, on this node."""
    return node.plan.gloo_planned or any(s.stage == "gloo" and s.status != "skipped" for s in node.facts.stages)


# -- launch arithmetic ----------------------------------------------------------------------------------------------


def missing_ranks(cluster: Cluster) -> tuple[int, ...]:
    """Return the global ranks that nobody here claims, for processes started once per rank."""
    plans = [member.plan for member in cluster.slices or tuple(n.facts for n in cluster.nodes)]
    return _unclaimed((p.rank for p in plans), [p.world_size for p in plans])


def missing_node_ranks(cluster: Cluster) -> tuple[int, ...]:
    """Return the node ranks that no node here has, declared or assigned."""
    return _unclaimed((n.node_rank for n in cluster.nodes), [n.plan.nnodes for n in cluster.nodes])


def _unclaimed(claimed: Iterable[int | None], totals: Sequence[int | None]) -> tuple[int, ...]:
    known = [total for total in totals if total is not None]
    if not known:
        return ()
    total = max(known, key=lambda value: (known.count(value), value))
    # A total from a broken variable may be absurdly large; nobody needs the names of a million missing ranks.
    return tuple(sorted(set(range(min(total, 100_000))) - {rank for rank in claimed if rank is not None}))


def plans_nccl_group(node: Node) -> bool:
    """Return whether the job makes an NCCL group on this node."""
    return "nccl" in node.plan.backends(gpus=node.gpus)


def rank_count(node: Node) -> int:
    """Return the number of ranks of the node: planned if it was started once per node or that is known, else those
    seen."""
    return node.plan.nproc_per_node or len(node.facts.ranks)


@lru_cache(maxsize=4)
def planned_rank_count(cluster: Cluster) -> int:
    """Return the number of ranks of the job, as far as the plan or the nodes here show; at least 1."""
    return max(cluster.plan.world_size or 0, sum(rank_count(node) for node in cluster.nodes), 1)


def gloo_dials(node: Node, peer: Node, at: str | None) -> bool:
    """Return whether the node's gloo connects to the device of ``peer`` with the address ``at``, rather than the
    reverse.

    The larger address connects (see knowledge.gloo). With equal ones it is unknown beforehand, and True is returned.
    """
    theirs, mine = peer.gloo_addresses, node.gloo_addresses
    place = theirs.index(at) if at in theirs else 0
    own = mine[place] if place < len(mine) else node.gloo_address or ""
    return initiates(own, at or "") or own == at


# Addresses of a node, and the interface of its data.


def reachable_address(node: Node, cluster: Cluster | None = None, but: Container[str] = ()) -> str | None:
    """Return the address by which other hosts reach ``node``, None without any.

    By its routes, else one in a network it shares with another node of the cluster, else the first that is neither
    loopback nor on a container bridge. IPv6 (or IPv4) only if the other nodes have such addresses, too, or it has no
    other. ``but``: excluded addresses.
    """
    reached = [a for a in (node.reached_at,) if a and not is_loopback(a) and a not in but]
    candidates = [(address, network) for address, network in _candidates(node) if address not in but]
    spread = _spread(cluster) if cluster else _Spread()
    here = spread.at.get(node.host_key, frozenset())
    others = len(spread.at) - bool(here)
    spoken = [family for family in (False, True) if spread.hosts[family] - (family in here) == others]
    shared = [address for address, network in candidates if spread.hosts[network] - (network in here) > 0]
    in_order = [*reached, *shared, *(address for address, _ in candidates)]
    return next((a for a in in_order if (":" in a) in spoken), in_order[0] if in_order else None)


_Trait = bool | tuple[int, int]
"""Common property of hosts: addresses of a family (True for IPv6), or in a network."""


@dataclass(frozen=True)
class _Spread:
    """Number of hosts in the cluster with each property of reachable addresses."""

    at: dict[tuple[str, str, str], frozenset[_Trait]] = field(default_factory=dict)
    hosts: Counter[_Trait] = field(default_factory=Counter)


@lru_cache(maxsize=4)
def _spread(cluster: Cluster) -> _Spread:
    """Return the counts, cached: they are used for each of a thousand nodes."""
    traits: dict[tuple[str, str, str], set[_Trait]] = {}
    for node in cluster.nodes:
        for address, network in _candidates(node):
            traits.setdefault(node.host_key, set()).update((":" in address, network))
    return _Spread(
        {host: frozenset(its) for host, its in traits.items()}, Counter(t for its in traits.values() for t in its)
    )


def _candidates(node: Node) -> list[tuple[str, tuple[int, int]]]:
    """Return the addresses of a node's interfaces, each with its network: (prefix length, number)."""
    candidates = []
    interfaces = node.interfaces
    for interface in sorted(interfaces, key=lambda card: is_virtual(card.name)):
        if interface.loopback or not interface.up or is_bridge(interface.name):
            continue
        for address, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            parsed = parse_address(address)
            if parsed is not None and not parsed.is_loopback and not parsed.is_link_local:
                candidates.append((address, (length, int(parsed) >> (parsed.max_prefixlen - length))))
    return candidates


def primary_interface(node: Node) -> str | None:
    """Return the interface that reaches the other nodes, by this node's routes."""
    return node.network.primary.interface if node.network.primary else None


def own_host_names(node: Node) -> tuple[str, ...]:
    """Return a node's own names: its hostname and, if that has dots, the first label."""
    hostname = node.identity.hostname
    return tuple(dict.fromkeys((hostname, hostname.partition(".")[0])))


def master_means_itself(node: Node) -> bool:
    """Return whether MASTER_ADDR means, on this node, the node itself and no other.

    That is localhost, 127.x, ::1, 0.0.0.0 (a connection to it is one to this host: Linux's ip(7), INADDR_ANY), or
    another host's name that resolves to one of these. A node's own name may: the store listens on every address.
    """
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
    """Return (the interface of gloo, or else of the route to the others; its MTU in bytes, 0 if unknown)."""
    name = node.interface_of(node.gloo_address) or primary_interface(node)
    return name, next((i.mtu for i in node.interfaces if i.name == name), 0)


def data_interfaces(node: Node) -> set[str]:
    """Return the interface of the job's data, and the one below it if it is a VLAN."""
    name = data_interface(node)[0] or ""
    return {name, name.partition(".")[0]} - {""}


def is_cut_off(node: Node) -> bool:
    """Return whether the node lost its own link and then the other nodes, and the link was down at the last look."""
    alone = node.meeting.host_lost or bool(node.meeting.lost)
    return alone and bool(data_interfaces(node) & {*node.host.links_down})


def is_reserved(text: str, port: int) -> bool:
    """Return whether net.ipv4.ip_local_reserved_ports (``8080,29500-29510``) has the port."""
    for part in text.split(","):
        low, _, high = part.partition("-")
        if low.isdecimal() and int(low) <= port <= int(high if high.isdecimal() else low):
            return True
    return False
