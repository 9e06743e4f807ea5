"""The report as a page: one file without a request to anywhere, for light and dark.

jinja2 escapes all that is put into it, and a policy in the page forbids what is not its own: nothing that a host, a log
or a store says is run or fetched.
"""

from __future__ import annotations

import hashlib
import statistics
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from distdoctor.model.facts.network import ROW_MOST
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report, ReportStage
from distdoctor.model.stages import STAGES
from distdoctor.model.text import clean
from distdoctor.render import jobs, json
from distdoctor.render.fixes import gathered, remedies
from distdoctor.render.next_step import next_step
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline, plan_line, sentence
from distdoctor.render.words import fold, link_target, ranks

FOLDER = Path(__file__).with_name("pages")
FACTS_MOST = 1 << 21
"""Characters of the folded facts; beyond that it is said that --json has them."""
Table = dict[str, Any]


def render(report: Report, style: Style = PLAIN) -> str:
    """The page. It is all there whatever the style. Raises MissingLibrary without jinja2."""
    script = (FOLDER / "report.js").read_text()
    page: str = _template().render(
        report=report,
        roots=[_root(report, finding) for finding in report.findings if finding.because_of is None],
        headline=headline(report),
        head=_head(report, style),
        next=_next(report, style),
        explain=style.explain,
        words=_WORDS,
        clean_lines=lambda lines: "\n".join(map(clean, lines)),
        plan=_plan(report),
        ladder=_stages(report),
        links=heat_map(report),
        nodes=_nodes(report),
        places=_places(report),
        facts=_facts(report),
        style=(FOLDER / "report.css").read_text(),
        script=script,
        script_hash=b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        clean=clean,
    )
    return page + "\n"


@lru_cache(1)
def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(FOLDER)
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("report.html.jinja")


_WORDS = {"pass": "passed", "warn": "warned", "fail": "failed", "skip": "skipped", "error": "error", "": ""}
"""Words for the end of a stage."""


def _head(report: Report, style: Style) -> list[str]:
    if jobs.is_on_logs(report):
        said = jobs.logs_line(report)
    else:
        said = jobs.job_line(report) if jobs.is_on_job(report) else plan_line(report)
    took = f"{report.seconds:.1f} s" if style.given is not None else ""
    return [clean(part) for part in (said, took, report.started_at) if part]


def _next(report: Report, style: Style) -> tuple[str, list[str]]:
    if jobs.is_on_logs(report):
        return jobs.log_next_step(report, style.program)
    return jobs.hang_next_step(report, style) if jobs.is_on_job(report) else next_step(report, style)


def _root(report: Report, finding: Finding) -> Table:
    parts = [fold(finding.nodes)] if finding.nodes else []
    parts += [ranks(finding.ranks)] if finding.ranks else []
    parts += [f"local {ranks(finding.local_ranks)}"] if finding.local_ranks else []
    unsure = "one of " if finding.blame == "one-of" and len(finding.nodes) > 1 else ""
    return {
        "finding": finding,
        "said": sentence(finding.summary),
        "evidence": gathered(finding.evidence, [node.name for node in report.nodes]),
        "severity": finding.severity or "info",
        "where": unsure + ", ".join(parts),
        "fixes": remedies(finding),
        "docs_url": link_target(finding.docs_url),
        "follows": [other for other in report.findings if other.because_of == finding.id],
    }


def _plan(report: Report) -> list[tuple[str, str, str]]:
    """Name, value, and where it comes from."""
    sources = report.plan.get("sources") or {}
    shown = ((name, value) for name, value in report.plan.items() if name != "sources" and value not in (None, "", []))
    return [(clean(name), clean(value), clean(sources.get(name, ""))) for name, value in shown]


def _stages(report: Report) -> Table:
    """A row for each group of nodes whose stages ended alike."""
    stages = sorted({entry.stage for entry in report.stages}, key=lambda s: STAGES.index(s) if s in STAGES else 99)
    of_node: dict[str, dict[str, Any]] = {}
    for entry in report.stages:
        of_node.setdefault(entry.node, {})[entry.stage] = entry
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for node, entries in of_node.items():
        ended = tuple(_ended(entries[s]) if s in entries else ("", "") for s in stages)
        groups.setdefault(ended, []).append(node)
    rows = []
    for ended, names in groups.items():
        seconds = [max((of_node[name][s].seconds for name in names if s in of_node[name]), default=0.0) for s in stages]
        rows.append(
            {"names": fold(names), "cells": [(*cell, f"{t:.2f} s") for cell, t in zip(ended, seconds, strict=True)]}
        )
    return {"stages": stages, "rows": rows}


def _ended(entry: ReportStage) -> tuple[str, str]:
    """Status and reason; a stage that passed without the nodes that are missing is not shown as passed."""
    return ("partial", entry.reason) if entry.partial else (entry.status, entry.reason)


def _nodes(report: Report) -> list[Table]:
    known = report.details.get("nodes") or {}
    rows = []
    for node in report.nodes:
        more = known.get(node.name) or {}
        rtt = more.get("rtt_median")
        rows.append(
            {
                "node": node,
                "ranks": ranks(node.ranks) if node.ranks else "",
                "rtt": f"{rtt * 1000:.2f} ms" if isinstance(rtt, float) else "",
                "interface": clean(more.get("gloo_interface") or ""),
            }
        )
    return rows


def _places(report: Report) -> list[tuple[str, str, str]]:
    """Return where the ranks of a job that runs are, those at one place together, the odd ones first."""
    return [jobs.job_row(group) for group in (report.details.get("job") or {}).get("groups") or ()]


def _facts(report: Report) -> str:
    text = json.render(report)
    return text if len(text) <= FACTS_MOST else "They are too many for a page: the report with -o json has them."


# The links between all nodes as a map: who connects, down, to whom, across, coloured by what was measured.
#
# Of more than ROW_MOST nodes neighbours stand together, with the worst of their links.


STEPS = (1.5, 3.0, 10.0, 30.0)
"""Factor over the median of all links at the upper end of each shade but the last."""
LOSSES = (0.0, 0.005, 0.02, 0.1)
"""The same of the share of segments that were sent again, which is 0 as a rule."""
Grid = Sequence[Sequence[float | None]]


@dataclass(frozen=True)
class Figure:
    """One of the figures that the map can show."""

    letter: str
    title: str
    legend: tuple[str, ...]
    """Meaning of each shade, from the best."""


@dataclass(frozen=True)
class HeatMap:
    """The map, ready to be drawn."""

    names: list[str]
    rows: list[list[tuple[str, str]]]
    """CSS classes of each cell (the shade of each figure by its letter, ``b`` bad, ``s`` nothing there), and its
    tooltip."""
    figures: list[Figure]
    bad: int
    folded: bool
    """True if an entry stands for several nodes."""


def heat_map(report: Report) -> HeatMap | None:
    """The map of the report's links; None where none was tried."""
    by_link: dict[tuple[str, str], str] = {}
    for finding in report.findings:
        for link in finding.links:
            by_link.setdefault(link, finding.id)
    links = report.details.get("links")
    if isinstance(links, dict) and len(links.get("names") or ()) > 1:
        return _measured(links, by_link)
    return _found_only(report, by_link) if by_link else None


def _measured(links: dict[str, Any], by_link: dict[tuple[str, str], str]) -> HeatMap:
    """Return the map of measured figures; a cell without one shows only its findings and failed connections."""
    names: list[list[str]] = links["names"]
    bad = links.get("bad") or [[0] * len(names) for _ in names]
    kinds = [(kind, kind.bounds(links[kind.key])) for kind in _KINDS if links.get(kind.key)]
    folded, why = any(len(entry) > 1 for entry in names), _findings_by_cell(names, by_link)

    def cell(row: int, other: int) -> tuple[str, str]:
        seen = [(kind, bounds, value) for kind, bounds in kinds if (value := links[kind.key][row][other]) is not None]
        broken, found = bad[row][other], sorted(why.get((row, other), ()))
        fails = [f"{broken} not working" if folded else "does not work"] if broken else []
        texts = [*(kind.told(value) for kind, _, value in seen), *fails, *found]
        state = ["b"] if broken or found else [] if texts else ["s"]
        return " ".join([*(kind.shade(value, bounds) for kind, bounds, value in seen), *state]), ", ".join(texts)

    return HeatMap(
        [fold(entry) or "?" for entry in names],
        [[cell(row, other) for other in range(len(names))] for row in range(len(names))],
        [Figure(kind.title[0], TITLES[kind.key], kind.legend(bounds)) for kind, bounds in kinds],
        sum(map(sum, bad)) if links.get("bad") else len(by_link),
        folded,
    )


def _findings_by_cell(
    names: Sequence[Sequence[str]], by_link: dict[tuple[str, str], str]
) -> dict[tuple[int, int], set[str]]:
    """Return the findings of each cell: an entry of ``names`` may stand for several nodes."""
    entry_of = {name: place for place, entry in enumerate(names) for name in entry}
    why: dict[tuple[int, int], set[str]] = {}
    for (source, to), finding in by_link.items():
        if source in entry_of and to in entry_of:
            why.setdefault((entry_of[source], entry_of[to]), set()).add(finding)
    return why


def _found_only(report: Report, by_link: dict[tuple[str, str], str]) -> HeatMap:
    """Return the links with findings, of a report without measured figures."""
    touched = {name for link in by_link for name in link}
    names = [node.name for node in report.nodes if node.arrived]
    if len(names) > ROW_MOST:
        names = [name for name in names if name in touched][:ROW_MOST]
    rows = [
        [("b" if (name, other) in by_link else "s", by_link.get((name, other), "")) for other in names]
        for name in names
    ]
    return HeatMap([fold([name]) for name in names], rows, [], len(by_link), False)


# -- figures ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Kind:
    """Reading of one figure from the report."""

    key: str
    """Its name in the report; the first letter of the title is that of its classes."""
    title: str
    told: Callable[[float], str]
    ends: Callable[[float], tuple[float, ...]]
    """The value at which each shade but the last ends, from the usual value."""
    falls: bool = False
    """True if less is worse."""

    def bounds(self, grid: Grid) -> tuple[float, ...]:
        """Return the bounds of the shades for these values."""
        return self.ends(statistics.median(value for row in grid for value in row if value is not None))

    def shade(self, value: float, bounds: Sequence[float]) -> str:
        """The class of a value: the letter, and 0 (as usual) to 4."""
        return f"{self.title[0]}{sum(value < end if self.falls else value > end for end in bounds)}"

    def legend(self, bounds: Sequence[float]) -> tuple[str, ...]:
        """Return what the shades stand for."""
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
