"""Nodes that lose so many packets that a new connection may come to nothing by chance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from distdoctor.check_api.routes import route_obstacle
from distdoctor.knowledge.packet_filter import concerns
from distdoctor.knowledge.ruleset import FilterHook
from distdoctor.model.cluster import Node
from distdoctor.model.facts import Link

NEARLY_ALL = 0.75
"""The share of a node's measured links that must lose so much: it is the node's own loss, and not its peers'."""
UNHEARD = ("no-answer", "unreachable", "stalled")
"""What lost packets look like: not like an answer of anybody's."""
ENETUNREACH = 101
"""The own kernel's word that it knows no way."""


def losing_nodes(nodes: Sequence[Node], number_of: Mapping[str, int]) -> set[Node]:
    """Those of these nodes of which nearly all measured links lose much, or nearly all of one direction: who loses what
    it is sent does not lose what it sends; of one whose own packet filter drops by chance, any. ``number_of``: the
    place of each key in it."""
    out, into = dict[int, list[bool]](), dict[int, list[bool]]()
    for number, node in enumerate(nodes):
        for rate in node.mesh.rates:
            target = number_of.get(rate.to)
            if target is not None and target != number:
                out.setdefault(number, []).append(rate.heavy_loss)
                into.setdefault(target, []).append(rate.heavy_loss)
    both = {number: [*out.get(number, ()), *into.get(number, ())] for number in {*out, *into}}
    return {
        nodes[number]
        for seen in (both, out, into)
        for number, lossy in seen.items()
        if sum(lossy) > NEARLY_ALL * len(lossy)
        or (any(lossy) and any(c.by_chance for c in nodes[number].filter_chains))
    }


def lost_by_chance(source: Node, target: Node, link: Link) -> bool:
    """Whether nothing but the packets that one of the two loses explains why this link was silent, or went dead: no
    router or filter answered, no rule shuts it, and both know the way."""
    if (link.outcome not in UNHEARD and link.dead_after is None) or link.icmp or link.errno == ENETUNREACH:
        return False
    if route_obstacle(source, target, link.address) is not None:
        return False
    return not _shut(target, "input", link.port) and not _shut(source, "output", link.port)


def _shut(node: Node, hook: FilterHook, port: int) -> bool:
    """Whether a rule of the node, other than one that drops by chance, stops this connection or its answers."""
    chains = (
        replace(chain, blocking_rules=tuple(rule for rule in chain.blocking_rules if rule not in chain.by_chance))
        for chain in node.filter_chains
    )
    return any(concerns(chain, port, "dport" if chain.hook == hook else "sport") for chain in chains)
