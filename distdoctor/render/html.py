"""The report as a page: one file without a request to anywhere, for light and dark.

jinja2 escapes all that is put into it, and a policy in the page forbids what is not its own: nothing that a host, a log
or a store says is run or fetched.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from functools import lru_cache
from pathlib import Path
from typing import Any

from distdoctor.model.findings import Finding
from distdoctor.model.report import Report, ReportStage
from distdoctor.model.sanitize import clean
from distdoctor.model.stages import STAGES
from distdoctor.render import hang, json, logs
from distdoctor.render.fixes import remedies
from distdoctor.render.heat_map import heat_map
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.words import count, fold, ranks

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
        word=_word(report),
        head=_head(report),
        plan=_plan(report),
        ladder=_ladder(report),
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


def _word(report: Report) -> str:
    if logs.is_on_logs(report):
        return logs.word(report)
    return hang.word(report) if hang.is_on_job(report) else report.verdict.upper()


def _head(report: Report) -> list[str]:
    arrived = sum(node.arrived for node in report.nodes)
    parts = [f"distdoctor {report.distdoctor}", f"torch {report.torch}" if report.torch else ""]
    if report.nodes:
        whole = count(len(report.nodes), "node")
        parts.append(whole if arrived == len(report.nodes) else f"{arrived} of {whole}")
    return [clean(part) for part in (*parts, f"{report.seconds:.1f} s", report.started_at) if part]


def _root(report: Report, finding: Finding) -> Table:
    parts = [fold(finding.nodes)] if finding.nodes else []
    parts += [ranks(finding.ranks)] if finding.ranks else []
    parts += [f"local {ranks(finding.local_ranks)}"] if finding.local_ranks else []
    unsure = "one of " if finding.blame == "one-of" and len(finding.nodes) > 1 else ""
    return {
        "finding": finding,
        "severity": finding.severity or "info",
        "where": unsure + ", ".join(parts),
        "fixes": remedies(finding),
        "follows": [other for other in report.findings if other.because_of == finding.id],
    }


def _plan(report: Report) -> list[tuple[str, str, str]]:
    """Name, value, and where it comes from."""
    sources = report.plan.get("sources") or {}
    shown = ((name, value) for name, value in report.plan.items() if name != "sources" and value not in (None, "", []))
    return [(clean(name), clean(value), clean(sources.get(name, ""))) for name, value in shown]


def _ladder(report: Report) -> Table:
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
    """Where the ranks of a job that runs are, those at one place together, the odd ones first."""
    return [hang.row(group) for group in (report.details.get("job") or {}).get("groups") or ()]


def _facts(report: Report) -> str:
    text = json.render(report)
    return text if len(text) <= FACTS_MOST else "They are too many for a page: the report with -o json has them."
