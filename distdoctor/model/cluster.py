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

from distdoctor.model.facts import HostCall, MeetingFacts, NodeFacts
from distdoctor.model.node import Node, Part
from distdoctor.model.plan import Plan

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
        return frozenset(node.host for node in self.nodes)

    @property
    def met(self) -> bool:
        """Whether more than one process met in a store."""
        return any(len(n.meeting.arrived) > 1 for n in self.nodes)

    @property
    def multi_host(self) -> bool:
        """Whether the job spans several hosts: as seen, or as planned where only one node's facts are here."""
        if len(self.hosts) > 1:
            return True
        return len(self.nodes) == 1 and (self.plan.nnodes or 1) > 1

    @property
    def gloo_planned(self) -> bool:
        """Whether the job makes a gloo group on any node."""
        return any(node.plan.gloo_planned for node in self.nodes)

    def peers(self, node: Node) -> tuple[Node, ...]:
        """The nodes on other hosts than ``node``."""
        return tuple(other for other in self.nodes if other.host != node.host)


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
    for position, (one, keys) in enumerate(merged):
        name = one.identity.hostname
        rank = one.node_rank if one.node_rank is not None else one.plan.node_rank
        if repeats[name] > 1:
            name = f"{name}#{rank if rank is not None else position}"
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
