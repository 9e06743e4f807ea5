"""One judgement of the facts and the logs of one job: what was found in the facts explains what the logs show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from distdoctor.judge.catalog import Check
from distdoctor.judge.causes import linked
from distdoctor.judge.engine import in_order
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report, Verdict


def together(facts: Report, logs: Report, checks: Sequence[Check]) -> Report:
    """The report on both. A failure that both show is one; what a check of ``checks`` says of causes links them all."""
    by_id = {check.id: check for check in checks}
    ids = {finding.check for finding in facts.findings}
    added = [finding for finding in logs.findings if finding.check not in ids]
    merged = [_with_lines(finding, logs.findings) for finding in facts.findings]
    findings = tuple(in_order(linked([*merged, *added], by_id)))
    roots = [one for one in findings if one.severity == "fail" and one.because_of is None]
    nodes = {node.name for node in facts.nodes}
    return replace(
        facts,
        verdict=_verdict(facts, logs, any(not one.incomplete for one in roots)),
        findings=findings,
        ignored=(*facts.ignored, *logs.ignored),
        notes=(*facts.notes, *logs.notes),
        nodes=(*facts.nodes, *(node for node in logs.nodes if node.name not in nodes)),
        candidates=() if roots else logs.candidates,
        details={**facts.details, **logs.details},
    )


def _verdict(facts: Report, logs: Report, failing: bool) -> Verdict:
    if failing:
        return "fail"
    if "incomplete" in (facts.verdict, logs.verdict):
        return "incomplete"
    return "warn" if "warn" in (facts.verdict, logs.verdict) else "pass"


def _with_lines(finding: Finding, of_logs: Sequence[Finding]) -> Finding:
    """A finding in the facts, with the lines by which the logs show the same."""
    lines = (line for one in of_logs if one.check == finding.check for line in one.evidence)
    return replace(finding, evidence=(*finding.evidence, *lines))
