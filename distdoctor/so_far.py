"""What is told while waiting may still cure it."""

from __future__ import annotations

from collections.abc import Sequence

from distdoctor.cluster import build
from distdoctor.facts import NodeFacts
from distdoctor.findings import Finding
from distdoctor.judge import INCOMPLETE, judge
from distdoctor.options import Options
from distdoctor.render.words import fold

SO_FAR_AFTER = 3.5


def judge_facts(facts: Sequence[NodeFacts], options: Options) -> tuple[Finding, ...]:
    """The root causes of severity fail in these facts."""
    found = judge(build(facts), options.checks, options.ignore).roots
    return tuple(finding for finding in found if finding.severity == "fail")


def so_far(finding: Finding, left: float, limit: float) -> str:
    """The line that tells what is wrong while waiting may still cure it. ``left`` of ``limit`` seconds remain."""
    waited = f"{max(limit - left, 0):.0f} s of {limit:.0f} s"
    if finding.check != INCOMPLETE:
        return f"so far: {finding.check}: {finding.summary} Still waiting ({waited})."
    # As a finding it says that they never came, which is not known yet. What was seen last stands behind its evidence.
    last = finding.evidence[-1].partition("; ")[2] if finding.evidence else ""
    said = f"still waiting for {fold(finding.nodes)} ({waited})"
    return f"so far: {finding.check}: {said}{f'; {last}' if last else ''}"
