"""Pairs of nodes, by their numbers: which hang together, what is common to them, who is together without them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

Pair = tuple[int, int]


def parts_of(total: int, bad: Mapping[int, Mapping[int, object]], inward: Sequence[set[int]]) -> list[list[int]]:
    """The groups of nodes that reach each other, in any direction and over others; largest first. ``bad``: those that a
    node does not reach; ``inward``: of each node, those that do not reach it."""
    unseen = set(range(total))
    parts = []
    while unseen:
        start = min(unseen)
        unseen.discard(start)
        part, edge = [start], [start]
        while edge and unseen:
            node = edge.pop()
            cut = inward[node] & bad[node].keys() if node in bad and inward[node] else set()
            near = unseen - cut
            unseen -= near
            part += near
            edge += near
        parts.append(part)
    parts.sort(key=lambda part: (-len(part), part[0]))
    return parts


def hanging_together(pairs: Iterable[Pair]) -> list[list[Pair]]:
    """The pairs, gathered so that those which share a node are together; in the order of their first pairs."""
    leader: dict[int, int] = {}

    def find(node: int) -> int:
        root = node
        while leader.setdefault(root, root) != root:
            root = leader[root]
        while leader[node] != root:
            leader[node], node = root, leader[node]
        return root

    listed = list(pairs)
    for source, target in listed:
        leader[find(source)] = find(target)
    gathered: dict[int, list[Pair]] = {}
    for pair in listed:
        gathered.setdefault(find(pair[0]), []).append(pair)
    return list(gathered.values())


def common(pairs: Iterable[Pair]) -> int | None:
    """The node that takes part in all pairs, where these have more than one other node in them."""
    listed = list(pairs)
    shared = set(listed[0])
    for pair in listed[1:]:
        shared &= set(pair)
        if not shared:
            return None
    return next(iter(shared)) if len(shared) == 1 else None
