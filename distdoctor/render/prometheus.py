"""The report as metrics in Prometheus' text format, for the textfile collector of its node exporter.

Labels have few values: a check's id, a severity, a stage, and the names of at most MAX_NODES nodes that are blamed.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import get_args

from distdoctor.model.findings import SEVERITIES
from distdoctor.model.report import CheckStatus, Report, Verdict
from distdoctor.model.text import clean
from distdoctor.render.style import PLAIN, Style

VERDICTS: tuple[str, ...] = get_args(Verdict)
STATUSES: tuple[str, ...] = get_args(CheckStatus)
MAX_NODES = 64
"""Nodes with a series of their own; what blames more is of none of them."""
Sample = tuple[dict[str, str], float]


def render(report: Report, style: Style = PLAIN) -> str:
    """The metrics of one run."""
    roots = [finding for finding in report.findings if finding.because_of is None]
    by_severity = {s: sum(finding.severity == s for finding in roots) for s in SEVERITIES}
    checks = {(finding.check, finding.severity or "info") for finding in roots}
    blamed = list(dict.fromkeys(node for finding in roots if finding.severity == "fail" for node in finding.nodes))
    stages: dict[str, float] = {}
    for stage in report.stages:
        if stage.status == "skip":  # it did not run
            continue
        stages[stage.stage] = max(stages.get(stage.stage, 0.0), stage.seconds)
    became: list[str] = [check.status for check in report.checks]
    arrived = [node.arrived for node in report.nodes]
    build = {"version": report.distdoctor, **({"torch": report.torch} if report.torch else {})}
    families: list[tuple[str, str, Iterable[Sample]]] = [
        ("build_info", "Version of distdoctor, and of torch on the first node.", [(build, 1)]),
        ("verdict", "1 for the verdict of the last run.", [({"verdict": v}, v == report.verdict) for v in VERDICTS]),
        ("findings", "Root causes found, by severity.", [({"severity": s}, n) for s, n in by_severity.items()]),
        (
            "check_found",
            "1 for each check that found a root cause.",
            [({"check": check, "severity": severity}, 1) for check, severity in sorted(checks)],
        ),
        ("node_blamed", "1 for each node that a failure affects.", [({"node": n}, 1) for n in blamed[:MAX_NODES]]),
        ("checks", "Checks by result.", [({"status": s}, became.count(s)) for s in STATUSES]),
        (
            "nodes",
            "Nodes of the run, by whether they joined.",
            [({"arrived": str(came).lower()}, arrived.count(came)) for came in (True, False)],
        ),
        (
            "stage_seconds",
            "Seconds of a stage that ran, on the node that took longest.",
            [({"stage": stage}, seconds) for stage, seconds in stages.items()],
        ),
        ("duration_seconds", "Seconds of the run.", [({}, report.seconds)]),
        ("run_timestamp_seconds", "When the run began, since the epoch.", [({}, _epoch(report.started_at))]),
    ]
    lines = []
    for name, about, samples in families:
        lines += [f"# HELP distdoctor_{name} {about}", f"# TYPE distdoctor_{name} gauge"]
        lines += [f"distdoctor_{name}{_labels(labels)} {float(value):.10g}" for labels, value in samples]
    return "\n".join(lines) + "\n"


def _labels(labels: dict[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}" if labels else ""


def _escaped(value: str) -> str:
    return clean(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _epoch(when: str) -> float:
    """Return the time of a report's start since 1970 in seconds, 0 if it is invalid."""
    try:
        return datetime.fromisoformat(when).timestamp()
    except (ValueError, OverflowError, OSError):
        return 0.0
