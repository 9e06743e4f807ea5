"""Process groups of fewer nodes or ranks, tried after the group of all failed, and the members that they accuse."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from distdoctor.check_api.text import names_of, ranks_text, shorten_error
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import SmallerGroup

__all__ = ["Accused", "CrossSearch", "DeviceSearch", "GroupSearch", "cross_search", "device_searches", "group_search"]


T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True)
class Accused(Generic[T]):
    """Members accused by groups of one and of two."""

    alone: tuple[T, ...] = ()
    """Members that fail by themselves."""
    bad: tuple[T, ...] = ()
    """Members that fail with every other one they were tried with, while those pass with others."""
    links: tuple[tuple[T, T], ...] = ()
    """Pairs that fail together, and pass with others."""
    unclear: tuple[T, ...] = ()
    """Candidates, if it is one of these and unknown which."""

    def __bool__(self) -> bool:
        return bool(self.alone or self.bad or self.links)


@dataclass(frozen=True)
class GroupSearch:
    """Result of the groups of fewer nodes."""

    nodes: Accused[Node]
    evidence: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class DeviceSearch:
    """Result of the groups of one node's own ranks, each on its own GPU."""

    node: Node
    ranks: Accused[int]
    evidence: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class CrossSearch:
    """Result of the groups of two ranks on two nodes."""

    ranks: Accused[int]
    node_of: dict[int, Node]
    evidence: tuple[str, ...] = field(default=())


def group_search(cluster: Cluster) -> GroupSearch | None:
    """Return the accused nodes, None if no smaller group was tried."""
    groups = [group for facts in cluster.nodes for group in facts.facts.groups if not group.ranks]
    tried = [(_nodes(group, cluster.by_key), group) for group in groups]
    tried = [(nodes, group) for nodes, group in tried if nodes]
    if not tried:
        return None
    accused = _accused([(nodes, group.passed) for nodes, group in tried])
    return GroupSearch(accused, tuple(_result_line(_names(nodes), group) for nodes, group in tried))


def device_searches(cluster: Cluster) -> Iterator[DeviceSearch]:
    """Yield the accused GPUs of each node on which even its own group could not be made."""
    tried: dict[Node, list[SmallerGroup]] = {}
    node_of = _node_of(cluster)
    for facts in cluster.nodes:
        for group in facts.facts.groups:
            for node in _nodes(group, cluster.by_key)[:1] if group.ranks and not _crosses(group, node_of) else ():
                tried.setdefault(node, []).append(group)
    for node, groups in tried.items():
        lines = [_result_line(ranks_text(group.ranks), group) for group in groups]
        yield DeviceSearch(node, _accused([(group.ranks, group.passed) for group in groups]), tuple(lines))


def cross_search(cluster: Cluster) -> CrossSearch | None:
    """Return the accused pairs of ranks across nodes; None if none was tried, all pairs failed, or none failed."""
    node_of = _node_of(cluster)
    groups = [group for facts in cluster.nodes for group in facts.facts.groups if _crosses(group, node_of)]
    tried: dict[tuple[int, ...], SmallerGroup] = {}
    for group in groups:  # both of a pair report it
        if group.ranks not in tried or tried[group.ranks].passed:
            tried[group.ranks] = group
    if len({group.passed for group in tried.values()}) < 2:
        return None
    lines = tuple(_result_line(_ranks_named(ranks, node_of), group) for ranks, group in tried.items())
    return CrossSearch(_accused([(ranks, group.passed) for ranks, group in tried.items()]), node_of, lines)


def _node_of(cluster: Cluster) -> dict[int, Node]:
    return {rank.rank: node for node in cluster.nodes for rank in node.facts.ranks if rank.rank is not None}


def _crosses(group: SmallerGroup, node_of: dict[int, Node]) -> bool:
    """Return whether its ranks are of several nodes."""
    return len({node_of[rank] for rank in group.ranks if rank in node_of}) > 1


def _ranks_named(ranks: tuple[int, ...], node_of: dict[int, Node]) -> str:
    named = [f"rank {rank} of {node_of[rank].name}" for rank in ranks if rank in node_of]
    return f"{' and '.join(named)} together"


def _accused(tried: Sequence[tuple[tuple[T, ...], bool]]) -> Accused[T]:
    alone = tuple(members[0] for members, passed in tried if len(members) == 1 and not passed)
    pairs = [(members[0], members[1], passed) for members, passed in tried if len(members) == 2]
    good = {one for first, second, passed in pairs if passed for one in (first, second)}
    failing = [(first, second) for first, second, passed in pairs if not passed]
    partners: dict[T, list[T]] = {}
    for first, second in failing:
        partners.setdefault(first, []).append(second)
        partners.setdefault(second, []).append(first)
    bad = tuple(one for one, others in partners.items() if one not in good and all(o in good for o in others))
    links = tuple(pair for pair in failing if pair[0] in good and pair[1] in good)
    accused = {*bad, *(one for pair in links for one in pair)}
    unclear = tuple(one for one, others in partners.items() if one not in accused and not set(others) & set(bad))
    return Accused(alone, bad, links, unclear)


def _nodes(group: SmallerGroup, by_key: dict[str, Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(by_key[key] for key in group.nodes if key in by_key))


def _names(nodes: tuple[Node, ...]) -> str:
    return f"{names_of(nodes)} alone" if len(nodes) == 1 else f"{names_of(nodes)} together"


def _result_line(who: str, group: SmallerGroup) -> str:
    return f"{who}: " + ("passed" if group.passed else f"failed: {shorten_error(group.error or 'no text')}")
