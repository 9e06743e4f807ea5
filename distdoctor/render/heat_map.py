"""The links between all nodes as a map: who connects, down, to whom, across, coloured by what was measured.

Of more than ROW_MOST nodes neighbours stand together, with the worst of their links.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from distdoctor.model.facts.mesh import ROW_MOST
from distdoctor.model.report import Report
from distdoctor.render.words import fold

STEPS = (1.5, 3.0, 10.0, 30.0)
"""How many times worse than the median of all links a figure is at the end of each shade but the last."""
LOSSES = (0.0, 0.005, 0.02, 0.1)
"""The same of the share of segments that were sent again, which is 0 as a rule."""
Grid = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Figure:
    """One of the figures that the map can show."""

    letter: str
    title: str
    legend: tuple[str, ...]
    """What each shade stands for, from the best."""


@dataclass(frozen=True)
class HeatMap:
    """The map, ready to be drawn."""

    names: list[str]
    rows: list[list[tuple[str, str]]]
    """Of each cell the classes (the shade of each figure by its letter, ``b`` bad, ``s`` nothing there), and what is
    told of it."""
    figures: list[Figure]
    bad: int
    folded: bool
    """Whether an entry stands for several nodes."""


def heat_map(report: Report) -> HeatMap | None:
    """The map of the report's links; None where none was tried."""
    found: dict[tuple[str, str], str] = {}
    for finding in report.findings:
        for link in finding.links:
            found.setdefault(link, finding.id)
    links = report.details.get("links")
    if isinstance(links, dict) and len(links.get("names") or ()) > 1:
        return _measured(links, found)
    return _found_only(report, found) if found else None


def _measured(links: dict[str, Any], found: dict[tuple[str, str], str]) -> HeatMap:
    names: list[list[str]] = links["names"]
    size = len(names)
    entry_of = {name: place for place, entry in enumerate(names) for name in entry}
    why: dict[tuple[int, int], set[str]] = {}
    for (source, to), finding in found.items():
        if source in entry_of and to in entry_of:
            why.setdefault((entry_of[source], entry_of[to]), set()).add(finding)
    bad = links.get("bad") or []
    kinds = [(kind, kind.bounds(links[kind.key])) for kind in _KINDS if links.get(kind.key)]
    folded = any(len(entry) > 1 for entry in names)

    def cell(one: int, other: int) -> tuple[str, str]:
        values = [(kind, bounds, links[kind.key][one][other]) for kind, bounds in kinds]
        seen = [(kind, bounds, value) for kind, bounds, value in values if value is not None]
        broken = bad[one][other] if bad else 0
        told = [kind.told(value) for kind, _, value in seen]
        told += [f"{broken} not working" if folded else "does not work"] if broken else []
        told += sorted(why.get((one, other), ()))
        classes = [kind.shade(value, bounds) for kind, bounds, value in seen]
        classes += ["b"] if broken or (one, other) in why else [] if told else ["s"]
        return " ".join(classes), ", ".join(told)

    return HeatMap(
        [fold(entry) or "?" for entry in names],
        [[cell(one, other) for other in range(size)] for one in range(size)],
        [Figure(kind.title[0], TITLES[kind.key], kind.legend(bounds)) for kind, bounds in kinds],
        sum(map(sum, bad)) if bad else len(found),
        folded,
    )


def _found_only(report: Report, found: dict[tuple[str, str], str]) -> HeatMap:
    """Of a report without figures: the links that something was found of."""
    touched = {name for link in found for name in link}
    names = [node.name for node in report.nodes if node.arrived]
    if len(names) > ROW_MOST:
        names = [name for name in names if name in touched][:ROW_MOST]
    rows = [[("b" if (one, other) in found else "s", found.get((one, other), "")) for other in names] for one in names]
    return HeatMap([fold([name]) for name in names], rows, [], len(found), False)


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """How one of the figures is read."""

    key: str
    """Its name in the report; the first letter of the title is that of its classes."""
    title: str
    told: Callable[[float], str]
    ends: Callable[[float], tuple[float, ...]]
    """The value at which each shade but the last ends, from the usual value."""
    falls: bool = False
    """Whether less is worse."""

    def bounds(self, grid: Grid) -> tuple[float, ...]:
        """The same for these values."""
        return self.ends(statistics.median(value for row in grid for value in row if value is not None))

    def shade(self, value: float, bounds: Sequence[float]) -> str:
        """The class of a value: the letter, and 0 (as usual) to 4."""
        return f"{self.title[0]}{sum(value < end if self.falls else value > end for end in bounds)}"

    def legend(self, bounds: Sequence[float]) -> tuple[str, ...]:
        """What the shades stand for."""
        near, far = ("from", "below") if self.falls else ("up to", "over")
        return (*(f"{near} {self.told(end)}" for end in bounds), f"{far} {self.told(bounds[-1])}")


def _rate(value: float) -> str:
    return f"{value / 1e6:,.0f} MB/s" if value >= 1e7 else f"{value / 1e6:.2g} MB/s"


_KINDS = (
    _Kind("rtt", "trip", lambda value: f"{value * 1000:.3g} ms", lambda usual: tuple(usual * s for s in STEPS)),
    _Kind("rates", "rate", _rate, lambda usual: tuple(usual / s for s in STEPS), falls=True),
    _Kind("lost", "loss", lambda value: f"{value * 100:.2g} % sent again", lambda _: LOSSES),
)
TITLES = {"rtt": "round trip", "rates": "throughput", "lost": "loss"}
