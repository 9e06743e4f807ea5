"""Who measures throughput with whom, round by round, so that a pair is alone with its links."""

from __future__ import annotations

from collections.abc import Sequence

ALL_PAIRS_UP_TO = 32
"""Nodes: beyond it throughput is measured between neighbours only."""


def rounds(order: Sequence[int], place: int) -> list[int | None]:
    """This node's partner in each round (None: no partner), so that the pairs of a round are disjoint.

    Up to ALL_PAIRS_UP_TO nodes everyone meets everyone (the circle method); above, each meets its two neighbours.
    """
    count = len(order)
    if count > ALL_PAIRS_UP_TO:
        return [None if n is None else order[n] for n in _around_the_ring(place, count)]
    size = count + count % 2
    partners: list[int | None] = []
    for turn in range(size - 1):
        circle = [0, *((turn + offset) % (size - 1) + 1 for offset in range(size - 1))]
        partner = circle[size - 1 - circle.index(place)]
        partners.append(order[partner] if partner < count else None)
    return partners


def _around_the_ring(place: int, count: int) -> list[int | None]:
    """The neighbours in a ring: pairs that begin at even places, those that begin at odd ones, and the odd one out."""
    after, before = (place + 1) % count, (place - 1) % count
    if count % 2 == 0:
        return [after, before] if place % 2 == 0 else [before, after]
    if place == count - 1:
        return [None, before, after]
    if place == 0:
        return [after, None, before]
    return [after, before, None] if place % 2 == 0 else [before, after, None]
