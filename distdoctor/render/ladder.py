"""The stages, one line each: how it ended, how long it took, and why it did not pass."""

from __future__ import annotations

from collections.abc import Iterable

from distdoctor.model.error_text import shortened
from distdoctor.model.report import Report, ReportStage
from distdoctor.model.sanitize import clean
from distdoctor.model.stages import BY_NAME, STAGES
from distdoctor.render.marks import STYLES
from distdoctor.render.page import Page
from distdoctor.render.words import fold

REASON_SHOWN = 100
"""Characters of the text of a failure, without ``-v``: the findings say it better."""
PARTIAL = "partial"
"""How a stage is shown that passed without the nodes that are missing: it has no tick."""
_WIDE, _TIME = 12, 9
Line = tuple[str, str, float, str, str]
"""Title, status, seconds, where, why."""


def write_ladder(page: Page, report: Report, marks: dict[str, str], *, whole: bool) -> None:
    """Every stage. Those left out for one reason, one after the other, share a line. ``whole``: reasons uncut."""
    for title, status, seconds, where, why in _merged(_lines(report, whole)):
        mark, style = marks["skip" if status == PARTIAL else status], STYLES["skip" if status == PARTIAL else status]
        page.prose(
            (f"{mark} ", style),
            (f"{title:<{_WIDE}}", "" if status == "pass" else style)
            if status != "skip"
            else f"{title:<{_WIDE + _TIME}}",
            (f"{seconds:7.2f} s" if status != "skip" else "", "dim"),
            f"  {where}" if where else "",
            (f"  {clean(why)}" if why else "", "dim" if status == "skip" else ""),
            hang=len(mark) + _WIDE + _TIME + 3,
        )


def _lines(report: Report, whole: bool) -> Iterable[Line]:
    several = len({stage.node for stage in report.stages}) > 1
    for name in STAGES:
        if BY_NAME[name].after_torch:
            yield from _torch(report)
        groups: dict[tuple[str, str], list[ReportStage]] = {}
        for stage in report.stages:
            if stage.stage == name:
                status = PARTIAL if stage.partial else stage.status
                groups.setdefault((status, "" if status == "pass" else stage.reason), []).append(stage)
        title = name
        for (status, reason), members in groups.items():
            where = fold(stage.node for stage in members) if several and len(groups) > 1 else ""
            why = reason if status in ("skip", "error", PARTIAL) or whole else shortened(reason, REASON_SHOWN)
            yield title, status, max(stage.seconds for stage in members), where, why
            title = ""


def _torch(report: Report) -> Iterable[Line]:
    """How long importing torch took where it took longest: neither network nor GPU is to blame for it."""
    nodes = {name: node for name, node in (report.details.get("nodes") or {}).items() if isinstance(node, dict)}
    took = [values.get("torch_seconds") for values in nodes.values()]
    seconds = [float(value) for value in took if isinstance(value, (int, float))]
    if not seconds:
        return
    without = [node.name for node in report.nodes if node.arrived and node.torch is None]
    # Where the check was ended meanwhile, the import is no failure.
    blamed = {name for found in report.findings if found.check.startswith("environment/") for name in found.nodes}
    ended = all(nodes.get(name, {}).get("torch_importing") and name not in blamed for name in without)
    where = fold(without) if len(nodes) > 1 else ""
    if without and ended:
        yield "import torch", "skip", 0.0, where, f"not through after {max(seconds):.1f} s, when the check ended"
    else:
        yield "import torch", "fail" if without else "pass", max(seconds), where, ""


def _merged(lines: Iterable[Line]) -> list[Line]:
    """The lines again; stages that were left out for the same reasons, one after the other, under one heading."""
    stages: list[list[Line]] = []
    for line in lines:
        if line[0] or not stages:
            stages.append([])
        stages[-1].append(line)
    merged: list[list[Line]] = []
    for stage in stages:
        out = all(status == "skip" for _, status, *_ in stage)
        if out and merged and _reasons(merged[-1]) == _reasons(stage):
            first = merged[-1][0]
            merged[-1][0] = (f"{first[0]}, {stage[0][0]}", *first[1:])
        else:
            merged.append(stage)
    return [line for stage in merged for line in stage]


def _reasons(lines: Iterable[Line]) -> list[tuple[str, str, str]]:
    return [(status, where, why) for _, status, _, where, why in lines]
