"""What the process groups of fewer nodes say, that were made where that of all could not be."""

from __future__ import annotations

from dataclasses import dataclass, field

from distdoctor.check_api.text import names_of, shorten_error
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import SmallerGroup

__all__ = ["GroupSearch", "group_search"]


@dataclass(frozen=True)
class GroupSearch:
    """Whom the smaller groups accuse."""

    alone: tuple[Node, ...] = ()
    """Nodes that fail by themselves."""
    nodes: tuple[Node, ...] = ()
    """Nodes that fail with every other they were tried with, which pass with others."""
    links: tuple[tuple[Node, Node], ...] = ()
    """Nodes that fail together, and pass with others."""
    unclear: tuple[Node, ...] = ()
    """Nodes of which it is one, and cannot be told which."""
    evidence: tuple[str, ...] = field(default=())


def group_search(cluster: Cluster) -> GroupSearch | None:
    """What was found; None where no smaller group was tried."""
    tried = [(_nodes(group, cluster.by_key), group) for facts in cluster.nodes for group in facts.facts.groups]
    tried = [(nodes, group) for nodes, group in tried if nodes]
    if not tried:
        return None
    alone = tuple(nodes[0] for nodes, group in tried if len(nodes) == 1 and not group.passed)
    pairs = [(nodes[0], nodes[1], group.passed) for nodes, group in tried if len(nodes) == 2]
    good = {node for first, second, passed in pairs if passed for node in (first, second)}
    failing = [(first, second) for first, second, passed in pairs if not passed]
    partners: dict[Node, list[Node]] = {}
    for first, second in failing:
        partners.setdefault(first, []).append(second)
        partners.setdefault(second, []).append(first)
    bad = tuple(node for node, others in partners.items() if node not in good and all(o in good for o in others))
    links = tuple(pair for pair in failing if pair[0] in good and pair[1] in good)
    told = {*bad, *(node for pair in links for node in pair)}
    unclear = tuple(node for node, others in partners.items() if node not in told and not set(others) & set(bad))
    return GroupSearch(alone, bad, links, unclear, tuple(_said(nodes, group) for nodes, group in tried))


def _nodes(group: SmallerGroup, by_key: dict[str, Node]) -> tuple[Node, ...]:
    return tuple(dict.fromkeys(by_key[key] for key in group.nodes if key in by_key))


def _said(nodes: tuple[Node, ...], group: SmallerGroup) -> str:
    who = f"{names_of(nodes)} alone" if len(nodes) == 1 else f"{names_of(nodes)} together"
    return f"{who}: " + ("passed" if group.passed else f"failed: {shorten_error(group.error or 'no text')}")
