"""The figures of all links as one matrix, from the row that each node told."""

from __future__ import annotations

from collections import Counter
from typing import Any

from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import LinkRow

FIGURES = ("rtt", "rates", "lost")


def link_matrix(cluster: Cluster) -> dict[str, Any] | None:
    """Who connects, down, to whom, across, each entry a node or neighbours (``names``): seconds of a round trip, bytes
    per second, share of segments sent again; ``bad`` has how many links do not work. None where no figures are.

    Of several nodes in an entry it is the worst. A row that is not of the run's own size is left out.
    """
    rows = [(node, node.mesh.row) for node in cluster.nodes if node.mesh.row is not None]
    sizes = Counter(row.nodes for _, row in rows)
    if not rows:
        return None
    nodes = sizes.most_common(1)[0][0]
    rows = [(node, row) for node, row in rows if row.nodes == nodes]
    frame = rows[0][1]
    names: list[list[str]] = [[] for _ in range(frame.entries)]
    for node, row in sorted(rows, key=lambda pair: pair[1].place):
        names[row.entry(row.place)].append(node.name)
    return {
        "names": names,
        **{figure: _worst(rows, figure, frame.entries) for figure in FIGURES},
        "bad": _bad(rows, frame.entries),
    }


def _worst(rows: list[tuple[Node, LinkRow]], figure: str, entries: int) -> list[list[float | None]]:
    choose = min if figure == "rates" else max
    found: list[list[float | None]] = [[None] * entries for _ in range(entries)]
    for _, row in rows:
        line = found[row.entry(row.place)]
        for place, value in enumerate(getattr(row, figure)):
            if value is not None:
                before = line[place]
                line[place] = value if before is None else choose(before, value)
    return found if any(value is not None for line in found for value in line) else []


def _bad(rows: list[tuple[Node, LinkRow]], entries: int) -> list[list[int]]:
    entry_of = {key: row.entry(row.place) for node, row in rows for key in node.keys}
    found = [[0] * entries for _ in range(entries)]
    for node, row in rows:
        for link in node.mesh.bad:
            if link.to in entry_of:
                found[row.entry(row.place)][entry_of[link.to]] += 1
    return found if any(any(line) for line in found) else []
