"""Results of smaller process groups, tried where the group of all nodes failed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from distdoctor.check_api.text import names_of, ranks_text, shorten_error
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import SmallerGroup

__all__ = [
    "AccusedMembers",
    "CrossSearch",
    "DeviceSearch",
    "GroupSearch",
    "cross_search",
    "device_searches",
    "group_search",
]


T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class AccusedMembers(Generic[T]):
    """Members that fail in groups of one and of two."""

    alone: tuple[T, ...] = ()
    """Members that fail alone."""
    bad: tuple[T, ...] = ()
    """Members that fail with every partner, while the partners pass with others."""
    links: tuple[tuple[T, T], ...] = ()
    """Pairs that fail together and pass with others."""
    unclear: tuple[T, ...] = ()
    """Members of which one fails, and it is unknown which."""

    def __bool__(self) -> bool:
        return bool(self.alone or self.bad or self.links)


@dataclass(frozen=True)
class GroupSearch:
    """Results of groups of fewer nodes."""

    nodes: AccusedMembers[Node]
    evidence: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class DeviceSearch:
    """Results of groups of one node's ranks, each on its own GPU."""

    node: Node
    ranks: AccusedMembers[int]
    evidence: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class CrossSearch:
    """Results of groups of two ranks on different nodes."""

    ranks: AccusedMembers[int]
    node_of: dict[int, Node]
    evidence: tuple[str, ...] = field(default=())


def group_search(cluster: Cluster) -> GroupSearch | None:
    """Return the results of node groups; None if no smaller group was tried."""
    groups = [group for facts in cluster.nodes for group in facts.facts.groups if not group.ranks]
    tried = [(_nodes(group, cluster.by_key), group) for group in groups]
    tried = [(nodes, group) for nodes, group in tried if nodes]
    if not tried:
        return None
    accused = _accused([(nodes, group.passed) for nodes, group in tried])
    return GroupSearch(accused, tuple(_result_text(_names(nodes), group) for nodes, group in tried))


def device_searches(cluster: Cluster) -> Iterator[DeviceSearch]:
    """Yield the results of GPU groups for each node with a failed group of its own."""
    tried: dict[Node, list[SmallerGroup]] = {}
    node_of = _node_of(cluster)
    for facts in cluster.nodes:
        for group in facts.facts.groups:
            for node in _nodes(group, cluster.by_key)[:1] if group.ranks and not _crosses(group, node_of) else ():
                tried.setdefault(node, []).append(group)
    for node, groups in tried.items():
        evidence = [_result_text(ranks_text(group.ranks), group) for group in groups]
        yield DeviceSearch(node, _accused([(group.ranks, group.passed) for group in groups]), tuple(evidence))


def cross_search(cluster: Cluster) -> CrossSearch | None:
    """Return the results of rank pairs across nodes; None if none was tried, or if all pairs failed or passed."""
    node_of = _node_of(cluster)
    groups = [group for facts in cluster.nodes for group in facts.facts.groups if _crosses(group, node_of)]
    tried: dict[tuple[int, ...], SmallerGroup] = {}
    for group in groups:  # both ranks of a pair report it
        if group.ranks not in tried or tried[group.ranks].passed:
            tried[group.ranks] = group
    if len({group.passed for group in tried.values()}) < 2:
        return None
    evidence = tuple(_result_text(_ranks_named(ranks, node_of), group) for ranks, group in tried.items())
    return CrossSearch(_accused([(ranks, group.passed) for ranks, group in tried.items()]), node_of, evidence)


def _node_of(cluster: Cluster) -> dict[int, Node]:
    return {rank.rank: node for node in cluster.nodes for rank in node.facts.ranks if rank.rank is not None}


def _crosses(group: SmallerGroup, node_of: dict[int, Node]) -> bool:
    """Return whether its ranks are of several nodes."""
    return len({node_of[rank] for rank in group.ranks if rank in node_of}) > 1


def _ranks_named(ranks: tuple[int, ...], node_of: dict[int, Node]) -> str:
    named = [f"rank {rank} of {node_of[rank].name}" for rank in ranks if rank in node_of]
    return f"{' and '.join(named)} together"


def _accused(tried: Sequence[tuple[tuple[T, ...], bool]]) -> AccusedMembers[T]:
    alone = tuple(members[0] for members, passed in tried if len(members) == 1 and not passed)
    pairs = [(members[0], members[1], passed) for members, passed in tried if len(members) == 2]
    good = {node for first, second, passed in pairs if passed for node in (first, second)}
    failing = [(first, second) for first, second, passed in pairs if not passed]
    partners: dict[T, list[T]] = {}
    for first, second in failing:
        partners.setdefault(first, []).append(second)
        partners.setdefault(second, []).append(first)
    bad = tuple(node for node, others in partners.items() if node not in good and all(o in good for o in others))
    links = tuple(pair for pair in failing if pair[0] in good and pair[1] in good)
    explained = {*bad, *(node for pair in links for node in pair)}
    unclear = tuple(node for node, others in partners.items() if node not in explained and not set(others) & set(bad))
    return AccusedMembers(alone, bad, links, unclear)


def _nodes(group: SmallerGroup, by_key: dict[str, Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(by_key[key] for key in group.nodes if key in by_key))


def _names(nodes: tuple[Node, ...]) -> str:
    return f"{names_of(nodes)} alone" if len(nodes) == 1 else f"{names_of(nodes)} together"


def _result_text(members: str, group: SmallerGroup) -> str:
    return f"{members}: " + ("passed" if group.passed else f"failed: {shorten_error(group.error or 'no text')}")
