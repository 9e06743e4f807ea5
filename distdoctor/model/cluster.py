"""Cluster of all nodes' facts, as the checks read it, each node under a unique name.

A part of the facts whose probe did not run is None. A check need not ask for that: a node's views (``host``,
``network``, ``meeting``, ``mesh``) are never None, and empty if nothing was seen. :meth:`Node.saw` tells "not seen"
from "seen and empty".
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
    MeshFacts,
    NetworkFacts,
    NodeFacts,
    RendezvousFacts,
    Resolution,
)
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES, stage_index

__all__ = ["Cluster", "Node", "Part", "build"]


@dataclass(frozen=True, eq=False)
class Cluster:
    """Nodes whose facts are known, node 0 first. Made by :func:`build`."""

    nodes: tuple[Node, ...]
    slices: tuple[NodeFacts, ...] = ()
    """Facts as they came, one per started process (once per rank: several per node)."""
    calls: tuple[HostCall, ...] = ()
    """Result of the command on each host, in a remote run."""

    @cached_property
    def by_key(self) -> dict[str, Node]:
        """Node of each process key."""
        return {key: node for node in self.nodes for key in node.keys}

    @cached_property
    def slices_of(self) -> dict[str, tuple[NodeFacts, ...]]:
        """Facts as they came, by the name of their node."""
        by_name: dict[str, list[NodeFacts]] = {}
        for facts in self.slices:
            if facts.key in self.by_key:
                by_name.setdefault(self.by_key[facts.key].name, []).append(facts)
        return {name: tuple(slices) for name, slices in by_name.items()}

    @cached_property
    def node0(self) -> Node | None:
        """Return node 0: the host of the store, else the one node that calls itself 0, else None."""
        hosts = [n for n in self.nodes if n.meeting.hosted]
        named = [n for n in self.nodes if n.plan.node_rank == 0 or 0 in n.ranks]
        if len(hosts) == 1:
            return hosts[0]
        return named[0] if len(named) == 1 else None

    @property
    def reference(self) -> Node:
        """Return the node whose plan stands for the job's: node 0, else the first."""
        return self.node0 or self.nodes[0]

    @property
    def plan(self) -> Plan:
        """Return the reference node's plan."""
        return self.reference.plan

    @property
    def meeting(self) -> RendezvousFacts | None:
        """Return node 0's record of the rendezvous; None if its facts are not here."""
        return self.node0.facts.meeting if self.node0 else None

    @cached_property
    def hosts(self) -> frozenset[tuple[str, str, str]]:
        return frozenset(node.host_key for node in self.nodes)

    @property
    def met(self) -> bool:
        """Return whether more than one process joined a store."""
        return any(len(n.meeting.arrived) > 1 for n in self.nodes)

    @property
    def multi_host(self) -> bool:
        """Return whether the job spans several hosts: as seen, or as planned if only one node's facts are here."""
        if len(self.hosts) > 1:
            return True
        return len(self.nodes) == 1 and (self.plan.nnodes or 1) > 1

    @property
    def gloo_planned(self) -> bool:
        """Return whether the job makes a gloo group on any node."""
        return any(node.plan.gloo_planned for node in self.nodes)

    def peers(self, node: Node) -> tuple[Node, ...]:
        """Return the nodes on other hosts than ``node``."""
        return tuple(other for other in self.nodes if other.host_key != node.host_key)


def build(facts: Iterable[NodeFacts], calls: Iterable[HostCall] = ()) -> Cluster:
    """Return the cluster of these facts. Processes started once per rank are merged into their nodes.

    Raises ValueError if there are none.
    """
    slices, calls = tuple(facts), tuple(calls)
    if not slices:
        raise ValueError("no facts")
    groups: dict[tuple[object, ...], list[NodeFacts]] = {}
    for entry in slices:
        groups.setdefault(_group(entry), []).append(entry)
    merged = [_merge(sorted(group, key=_slice_order)) for group in groups.values()]
    merged.sort(key=lambda pair: _node_order(pair[0]))
    repeats = Counter(facts.identity.hostname for facts, _ in merged)
    nodes, used = [], set()
    for number, (entry, keys) in enumerate(merged):
        name = entry.identity.hostname
        rank = entry.node_rank if entry.node_rank is not None else entry.plan.node_rank
        if repeats[name] > 1:
            name = f"{name}#{rank if rank is not None else number}"
        while name in used:  # two processes that claim the same node rank on hosts of the same name
            name += "+"
        used.add(name)
        nodes.append(Node(name, entry, rank, keys))
    return Cluster(tuple(nodes), slices, calls)


def _group(facts: NodeFacts) -> tuple[object, ...]:
    if facts.plan.started == "node":
        return (facts.key,)
    return *facts.identity.host, facts.plan.node_rank


def _slice_order(facts: NodeFacts) -> tuple[bool, int, int]:
    plan = facts.plan
    return facts.host is None, plan.local_rank or 0, plan.rank if plan.rank is not None else 1 << 30


def _node_order(facts: NodeFacts) -> tuple[int, int, int, str, int]:
    hosted = bool(facts.meeting and facts.meeting.hosted)
    rank = facts.node_rank if facts.node_rank is not None else facts.plan.node_rank
    first = min((r.rank for r in facts.ranks if r.rank is not None), default=1 << 30)
    return 0 if hosted else 1, 1 << 30 if rank is None else rank, first, facts.identity.hostname, facts.identity.pid


def _merge(group: list[NodeFacts]) -> tuple[NodeFacts, tuple[str, ...]]:
    """Return one node's facts from those of its ranks, the first of which also ran the node's probes."""
    first, keys = group[0], tuple(facts.key for facts in group)
    if len(group) == 1:
        return first, keys
    problems = tuple(dict.fromkeys(p for facts in group for p in facts.plan.problems))
    return (
        replace(
            first,
            plan=replace(first.plan, problems=problems),
            ranks=tuple(
                sorted((r for facts in group for r in facts.ranks), key=lambda r: (r.rank is None, r.rank or 0))
            ),
            meeting=next((facts.meeting for facts in group if facts.meeting and facts.meeting.hosted), first.meeting),
            trials=tuple(t for facts in group for t in facts.trials),
            groups=tuple(g for facts in group for g in facts.groups),
        ),
        keys,
    )


# Node as the checks read it: its facts, its name, and views of them that are never None.


Part = Literal["host", "network", "meeting", "mesh"]
"""Parts of a node's facts. One stage's probes see a part as a whole, or do not run."""
NO_HOST, NO_LIMITS, NO_NETWORK = HostFacts(Resolution("")), Limits(), NetworkFacts()
NO_MEETING, NO_MESH = RendezvousFacts(), MeshFacts()


@dataclass(frozen=True, eq=False)
class Node:
    """One node that joined (or whose facts file was given)."""

    name: str
    """Unique name in the cluster: the hostname, with ``#<node_rank>`` if several nodes have the same."""
    facts: NodeFacts
    node_rank: int | None
    keys: tuple[str, ...]
    """Keys of the processes that these facts come from (one, or one per rank)."""

    @property
    def plan(self) -> Plan:
        """Return this node's plan."""
        return self.facts.plan

    def saw(self, part: Part) -> bool:
        """Return whether this part of the facts is there; if not, its view is empty."""
        return getattr(self.facts, part) is not None

    @property
    def stood_still(self) -> str:
        """Return the stage at which the node stopped responding although its process existed; else empty."""
        stages = [entry for entry in self.facts.stages if entry.stage in STAGES]
        last = max(stages, key=lambda entry: stage_index(entry.stage), default=None)
        return last.stage if last is not None and last.stood_still else ""

    @property
    def identity(self) -> Identity:
        """Return the identity of this node: host, process, user, Python and torch."""
        return self.facts.identity

    @property
    def variables(self) -> dict[str, str]:
        """Return the launch and backend variables that were set."""
        return self.facts.variables

    @property
    def host(self) -> HostFacts:
        """Return the facts of the host: names, interfaces, addresses the backends pick, left-over processes."""
        return self.facts.host or NO_HOST

    def where_set(self, name: str) -> str:
        """Return the file that NCCL takes this variable from; empty if it is in the environment, or unset."""
        return self.facts.variable_files.get(name, "")

    @property
    def limits(self) -> Limits:
        """Return the kernel's limits of the node's processes: each value is None if unknown."""
        return self.host.limits or NO_LIMITS

    @property
    def interfaces(self) -> tuple[Interface, ...]:
        return self.host.interfaces

    @property
    def network(self) -> NetworkFacts:
        """Return the facts of the route to the master."""
        return self.facts.network or NO_NETWORK

    @property
    def master_addresses(self) -> tuple[str, ...]:
        """Return the addresses of MASTER_ADDR, as this node resolves it."""
        return self.network.master.addresses if self.network.master else ()

    @property
    def filter_chains(self) -> tuple[FirewallChain, ...]:
        """Return the chains of the host's packet filter that can block, as far as they are readable."""
        return self.network.firewall.chains if self.network.firewall else ()

    @property
    def meeting(self) -> RendezvousFacts:
        """Return the facts of the rendezvous, as this node saw it."""
        return self.facts.meeting or NO_MEETING

    @property
    def mesh(self) -> MeshFacts:
        """Return the facts of this node's links to the others."""
        return self.facts.mesh or NO_MESH

    @cached_property
    def host_key(self) -> tuple[str, str, str]:
        """Return the key that nodes on the same host (and network namespace) share."""
        return self.facts.identity.host

    @cached_property
    def ranks(self) -> tuple[int, ...]:
        """Return the global ranks known to be on this node."""
        return tuple(r.rank for r in self.facts.ranks if r.rank is not None)

    @cached_property
    def addresses(self) -> tuple[str, ...]:
        """Return every address on an interface of this node."""
        return tuple(a for i in self.interfaces for a in i.addresses)

    def interface_of(self, address: str | None) -> str | None:
        """Return the interface of this node that has ``address``, or None."""
        return self._interfaces.get(address) if address else None

    @cached_property
    def _interfaces(self) -> dict[str, str]:
        """Address -> the interface that has it; the first if several do."""
        return {a: i.name for i in reversed(self.interfaces) for a in i.addresses}

    @cached_property
    def gloo_address(self) -> str | None:
        """Return the address gloo advertised on this node, else the predicted one; the first of several devices."""
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
        """Return the addresses of all of gloo's devices on this node, in order: the ranks connect on each of them."""
        more = (choice.address for choice in self.host.gloo_more)
        return tuple(address for address in (self.gloo_address, *more) if address is not None)

    @cached_property
    def gpus(self) -> bool:
        """Return whether any rank here sees a device."""
        return any(rank.gpu is not None and bool(rank.gpu.visible) for rank in self.facts.ranks)

    @cached_property
    def reached_at(self) -> str | None:
        """Return the address by which other hosts reach this node, by this node's routes."""
        return self.network.primary.address if self.network.primary else None
