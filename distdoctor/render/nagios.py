"""The report as one line for Nagios and what reads its plugins (Icinga, Naemon, Checkmk): status, words, figures.

As in the Nagios Plugins Development Guidelines: the words before ``|``, the figures after it as
``'label'=value[unit];warn;crit;min``, and the exit status (:data:`STATUS`) says the same as the first word.
"""

from __future__ import annotations

from distdoctor.model.findings import SEVERITIES
from distdoctor.model.report import Report
from distdoctor.model.text import clean, shortened
from distdoctor.render.style import PLAIN, Style
from distdoctor.render.verdict import headline
from distdoctor.render.words import fold

STATUS = {"pass": 0, "warn": 1, "fail": 2, "incomplete": 3}
"""The plugin's exit status by the verdict."""
UNKNOWN = STATUS["incomplete"]
WORDS = ("OK", "WARNING", "CRITICAL", "UNKNOWN")
MOST = 300
"""Characters of words: what a pager shows."""


def render(report: Report, style: Style = PLAIN) -> str:
    roots = [finding for finding in report.findings if finding.because_of is None]
    failures = sum(finding.severity == "fail" for finding in roots)
    warnings = sum(finding.severity == "warn" for finding in roots)
    failing = sorted(roots, key=lambda finding: -SEVERITIES.index(finding.severity or "info"))
    if failing:
        first = failing[0]
        more = f" (and {len(failing) - 1} more)" if len(failing) > 1 else ""
        where = f" on {fold(first.nodes)}" if first.nodes else ""
        words = f"{first.id}{where}: {first.summary}{more}"
    else:
        words = headline(report).text
    figures = {
        "time": f"{report.seconds:.2f}s;;;0",
        "failures": f"{failures};;;0",
        "warnings": f"{warnings};;;0",
        "nodes": f"{sum(node.arrived for node in report.nodes)};;;0",
    }
    return line(STATUS[report.verdict], words) + " | " + " ".join(f"{k}={v}" for k, v in figures.items()) + "\n"


def line(status: int, words: str) -> str:
    """The part before the figures; the bar that divides them is in none of it."""
    said = shortened(clean(" ".join(words.split())).replace("|", "/"), MOST)
    return f"DISTDOCTOR {WORDS[status]} - {said}"
