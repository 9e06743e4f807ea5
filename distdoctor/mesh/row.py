"""What one node measured of its links to all others, small enough to be told to node 0."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from distdoctor.mesh.link import Tried
from distdoctor.mesh.target import Target
from distdoctor.model.facts import LinkRow

Figures = tuple[float | None, ...]


def row(me: int, targets: Sequence[Target], tried: Iterable[Tried]) -> LinkRow | None:
    """This node's row; ``me`` is its participant's number. None where it is no target itself, or the only one.

    The order is that of the host names, so that neighbours by name, a rack as a rule, stand together.
    """
    names = {target.member: _by_number(target.key) for target in targets}
    order = sorted(names, key=lambda member: (names[member], member))
    if me not in names or len(order) < 2:
        return None
    places = {member: place for place, member in enumerate(order)}
    frame = LinkRow(places[me], len(order))
    works = [t for t in tried if t.outcome == "open"]

    def worst(figure: Callable[[Tried], float | None], choose: Callable[[float, float], float]) -> Figures:
        entries: list[float | None] = [None] * frame.entries
        for one in works:
            value, entry = figure(one), frame.entry(places[one.target.member])
            before = entries[entry]
            if value is not None:
                entries[entry] = value if before is None else choose(before, value)
        return tuple(entries) if any(value is not None for value in entries) else ()

    return LinkRow(
        frame.place,
        frame.nodes,
        rtt=worst(lambda t: round(t.seconds, 6), max),
        rates=worst(lambda t: t.rate.bytes_per_second if t.rate else None, min),
        lost=worst(_lost, max),
    )


def _lost(tried: Tried) -> float | None:
    rate = tried.rate
    return round(rate.retransmitted / rate.segments, 4) if rate is not None and rate.segments else None


def _by_number(key: str) -> tuple[tuple[int, str], ...]:
    """A process key by its host's name, gpu2 before gpu10."""
    parts = re.split(r"([0-9]{1,18})", key.split(" ")[0])
    return tuple((int(part), "") if place % 2 else (-1, part) for place, part in enumerate(parts))
