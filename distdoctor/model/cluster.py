"""The cluster as the checks see it: the facts of all nodes side by side, each node under one unique name.

A probe that was not reached leaves its part of the facts None. A check need not ask for that: a node's views
(``system``, ``network``, ``meeting``, ``mesh``) are never None, and of what was not seen they are empty. Where "not
seen" and "seen, and nothing there" are two things, :meth:`Node.saw` tells them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from distdoctor.model.facts import (
    FirewallChain,
    HostCall,
    HostFacts,
    Identity,
    Interface,
    Limits,
    MeetingFacts,
    MeshFacts,
    NetworkFacts,
    NodeFacts,
    Resolution,
)
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES, position

__all__ = ["Cluster", "Node", "Part", "build"]


@dataclass(frozen=True, eq=False)
class Cluster:
    """The nodes whose facts are known, node 0 first. Made by :func:`build`."""

    nodes: tuple[Node, ...]
    slices: tuple[NodeFacts, ...] = ()
    """The facts as they came, one per started process (once per rank: several per node)."""
    calls: tuple[HostCall, ...] = ()
    """Of a run from one place: what became of the command that was sent to each host."""

    @cached_property
    def by_key(self) -> dict[str, Node]:
        """The node of each process key."""
        return {key: node for node in self.nodes for key in node.keys}

    @cached_property
    def slices_of(self) -> dict[str, tuple[NodeFacts, ...]]:
        """The facts as they came, of each node by its name."""
        found: dict[str, list[NodeFacts]] = {}
        for one in self.slices:
            if one.key in self.by_key:
                found.setdefault(self.by_key[one.key].name, []).append(one)
        return {name: tuple(ones) for name, ones in found.items()}

    @cached_property
    def node0(self) -> Node | None:
        """Node 0 as the meeting knew it (the host of the store), else the one node that calls itself 0, else None."""
        hosts = [n for n in self.nodes if n.meeting.hosted]
        named = [n for n in self.nodes if n.plan.node_rank == 0 or 0 in n.ranks]
        if len(hosts) == 1:
            return hosts[0]
        return named[0] if len(named) == 1 else None

    @property
    def reference(self) -> Node:
        """The node whose plan stands for the job's where one has to: node 0, else the first."""
        return self.node0 or self.nodes[0]

    @property
    def plan(self) -> Plan:
        """The reference node's plan."""
        return self.reference.plan

    @property
    def meeting(self) -> MeetingFacts | None:
        """Node 0's record of the meeting, None where its facts are not here."""
        return self.node0.facts.meeting if self.node0 else None

    @cached_property
    def hosts(self) -> frozenset[tuple[str, str, str]]:
        """The hosts that the nodes are on."""
        return frozenset(node.host_key for node in self.nodes)

    @property
    def met(self) -> bool:
        """Return whether more than one process met in a store."""
        return any(len(n.meeting.arrived) > 1 for n in self.nodes)

    @property
    def multi_host(self) -> bool:
        """Return whether the job spans several hosts: as seen, or as planned where only one node's facts are here."""
        if len(self.hosts) > 1:
            return True
        return len(self.nodes) == 1 and (self.plan.nnodes or 1) > 1

    @property
    def gloo_planned(self) -> bool:
        """Return whether the job makes a gloo group on any node."""
        return any(node.plan.gloo_planned for node in self.nodes)

    def peers(self, node: Node) -> tuple[Node, ...]:
        """The nodes on other hosts than ``node``."""
        return tuple(other for other in self.nodes if other.host_key != node.host_key)


def build(facts: Iterable[NodeFacts], calls: Iterable[HostCall] = ()) -> Cluster:
    """The cluster of these facts. Processes started once per rank are put together into their nodes.

    Raises ValueError if there are none.
    """
    slices, calls = tuple(facts), tuple(calls)
    if not slices:
        raise ValueError("no facts")
    groups: dict[tuple[object, ...], list[NodeFacts]] = {}
    for one in slices:
        groups.setdefault(_group(one), []).append(one)
    merged = [_merge(sorted(group, key=_slice_order)) for group in groups.values()]
    merged.sort(key=lambda pair: _node_order(pair[0]))
    repeats = Counter(one.identity.hostname for one, _ in merged)
    nodes, used = [], set()
    for number, (one, keys) in enumerate(merged):
        name = one.identity.hostname
        rank = one.node_rank if one.node_rank is not None else one.plan.node_rank
        if repeats[name] > 1:
            name = f"{name}#{rank if rank is not None else number}"
        while name in used:  # two processes that claim the same node rank on hosts of the same name
            name += "+"
        used.add(name)
        nodes.append(Node(name, one, rank, keys))
    return Cluster(tuple(nodes), slices, calls)


def _group(one: NodeFacts) -> tuple[object, ...]:
    if one.plan.started == "node":
        return (one.key,)
    return *one.identity.host, one.plan.node_rank


def _slice_order(one: NodeFacts) -> tuple[bool, int, int]:
    plan = one.plan
    return one.host is None, plan.local_rank or 0, plan.rank if plan.rank is not None else 1 << 30


def _node_order(one: NodeFacts) -> tuple[int, int, int, str, int]:
    hosted = bool(one.meeting and one.meeting.hosted)
    rank = one.node_rank if one.node_rank is not None else one.plan.node_rank
    first = min((r.rank for r in one.ranks if r.rank is not None), default=1 << 30)
    return 0 if hosted else 1, 1 << 30 if rank is None else rank, first, one.identity.hostname, one.identity.pid


def _merge(group: list[NodeFacts]) -> tuple[NodeFacts, tuple[str, ...]]:
    """One node's facts out of those of its ranks, the first of which also did the node's probes."""
    first, keys = group[0], tuple(one.key for one in group)
    if len(group) == 1:
        return first, keys
    problems = tuple(dict.fromkeys(p for one in group for p in one.plan.problems))
    return (
        replace(
            first,
            plan=replace(first.plan, problems=problems),
            ranks=tuple(sorted((r for one in group for r in one.ranks), key=lambda r: (r.rank is None, r.rank or 0))),
            meeting=next((one.meeting for one in group if one.meeting and one.meeting.hosted), first.meeting),
            trials=tuple(t for one in group for t in one.trials),
            groups=tuple(g for one in group for g in one.groups),
        ),
        keys,
    )


# A node as the checks see it: its facts, its name, and views of them that are never None.


Part = Literal["host", "network", "meeting", "mesh"]
"""The parts of a node's facts, each of which one stage's probes see as a whole, or do not come to."""
NO_HOST, NO_LIMITS, NO_NETWORK = HostFacts(Resolution("")), Limits(), NetworkFacts()
NO_MEETING, NO_MESH = MeetingFacts(), MeshFacts()


@dataclass(frozen=True, eq=False)
class Node:
    """One node that was met (or whose facts file was given)."""

    name: str
    """Unique in the cluster: the host name, with ``#<node_rank>`` where several nodes have the same."""
    facts: NodeFacts
    node_rank: int | None
    keys: tuple[str, ...]
    """The keys of the processes this node's facts come from (one, or one per rank)."""

    @property
    def plan(self) -> Plan:
        """This node's plan."""
        return self.facts.plan

    def saw(self, part: Part) -> bool:
        """Return whether this part of the facts is there; where it is not, its view is empty."""
        return getattr(self.facts, part) is not None

    @property
    def stood_still(self) -> str:
        """The stage at which node 0 waited for it in vain though its process was there, if it was not heard of after
        that; else empty."""
        stages = [entry for entry in self.facts.stages if entry.stage in STAGES]
        last = max(stages, key=lambda entry: position(entry.stage), default=None)
        return last.stage if last is not None and last.stood_still else ""

    @property
    def identity(self) -> Identity:
        """Return which process on which host this is, its user, its Python and its torch."""
        return self.facts.identity

    @property
    def variables(self) -> dict[str, str]:
        """The launch and backend variables that were set."""
        return self.facts.variables

    @property
    def host(self) -> HostFacts:
        """Return what the host is like (``facts.host``): its names, its interfaces, what the backends pick, its
        left-overs."""
        return self.facts.host or NO_HOST

    def where_set(self, name: str) -> str:
        """The file that NCCL takes this variable from; empty where it is in the environment, or not set."""
        return self.facts.variable_files.get(name, "")

    @property
    def limits(self) -> Limits:
        """Return what the kernel lets the node's processes use: each value is None where it is not known."""
        return self.host.limits or NO_LIMITS

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        """The interfaces of the host."""
        return self.host.interfaces

    @property
    def network(self) -> NetworkFacts:
        """Return what the node saw of the way to its master."""
        return self.facts.network or NO_NETWORK

    @property
    def master_addresses(self) -> tuple[str, ...]:
        """The addresses of MASTER_ADDR, as this node resolves it."""
        return self.network.master.addresses if self.network.master else ()

    @property
    def filter_chains(self) -> tuple[FirewallChain, ...]:
        """The chains of the host's packet filter that can block, as far as they could be read."""
        return self.network.firewall.chains if self.network.firewall else ()

    @property
    def meeting(self) -> MeetingFacts:
        """Return how the meeting of the nodes went, as this node saw it."""
        return self.facts.meeting or NO_MEETING

    @property
    def mesh(self) -> MeshFacts:
        """Return what the node saw of its links to the others."""
        return self.facts.mesh or NO_MESH

    @cached_property
    def host_key(self) -> tuple[str, str, str]:
        """Return what two nodes on the same host (and network namespace) have in common; what it is like:
        ``system``."""
        return self.facts.identity.host

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """The global ranks known to be on this node."""
        return tuple(r.rank for r in self.facts.ranks if r.rank is not None)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Every address on an interface of this node."""
        return tuple(a for i in self.interfaces for a in i.addresses)

    def interface_of(self, address: str | None) -> str | None:
        """The interface of this node that has ``address``, or None."""
        return self._interfaces.get(address) if address else None

    @cached_property
    def _interfaces(self) -> dict[str, str]:
        """Address -> the interface that has it; the first one, where several do."""
        return {a: i.name for i in reversed(self.interfaces) for a in i.addresses}

    @cached_property
    def gloo_address(self) -> str | None:
        """The address gloo really advertised on this node, else the one predicted; of several devices, the first's."""
        choice = self.host.gloo
        if self.host.gloo_more:
            return choice.address if choice else None  # a rank listens on the addresses of all of them
        for rank in self.facts.ranks:
            for stage in rank.stages:
                if stage.stage == "gloo" and stage.detail.get("address"):
                    return str(stage.detail["address"])
        return choice.address if choice else None

    @cached_property
    def gloo_addresses(self) -> tuple[str, ...]:
        """The addresses of all of gloo's devices on this node, in their order: the ranks connect on each of them."""
        more = (choice.address for choice in self.host.gloo_more)
        return tuple(address for address in (self.gloo_address, *more) if address is not None)

    @cached_property
    def gpus(self) -> bool:
        """Return whether any rank here sees a device."""
        return any(rank.gpu is not None and bool(rank.gpu.visible) for rank in self.facts.ranks)

    @cached_property
    def reached_at(self) -> str | None:
        """The address by which other hosts reach this node, as far as this node's routes say."""
        return self.network.primary.address if self.network.primary else None
