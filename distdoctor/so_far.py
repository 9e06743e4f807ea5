"""What is told while waiting may still cure it."""

from __future__ import annotations

from collections.abc import Sequence

from distdoctor.cluster import build
from distdoctor.facts import NodeFacts
from distdoctor.findings import Finding
from distdoctor.judge import judge
from distdoctor.options import Options

SO_FAR_AFTER = 3.5


def judge_facts(facts: Sequence[NodeFacts], options: Options) -> tuple[Finding, ...]:
    """The root causes of severity fail in these facts."""
    found = judge(build(facts), options.checks, options.ignore).roots
    return tuple(finding for finding in found if finding.severity == "fail")


def so_far(finding: Finding, left: float) -> str:
    """The line that tells what is wrong while waiting may still cure it."""
    return f"so far: {finding.check}: {finding.summary} Still waiting, up to {left:.0f} s."
