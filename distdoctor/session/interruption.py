"""First line of the report on a run that a signal ended: the nodes that had not joined, or the running stage."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.judge.engine import Judgement, judge
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import NodeFacts, RendezvousFacts
from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, Report, Verdict
from distdoctor.model.stages import NETWORK, STAGES, spoken, stage_index
from distdoctor.render.words import count, fold
from distdoctor.session.options import Options


def pending_failures(facts: Sequence[NodeFacts], options: Options, certain: Judgement) -> tuple[Finding, ...]:
    """Return the further root causes that these facts would show if waiting ended now. None of them is certain yet."""
    ended = [
        replace(entry, meeting=replace(entry.meeting or RendezvousFacts(), ended=True))
        if entry.meeting is None or entry.meeting.hosted or not entry.meeting.joined
        else entry
        for entry in facts
    ]
    known = {(finding.check, finding.nodes) for finding in certain.findings}
    findings = judge(build(ended), options.checks, options.ignore).findings
    return tuple(
        finding
        for finding in findings
        if finding.severity == "fail" and (finding.check, finding.nodes) not in known and _root(finding)
    )


def certain_judgement(judgement: Judgement, facts: NodeFacts) -> Judgement:
    """Return the part of the judgement that is certain in a process that a signal ended."""
    if not _joins(facts):
        return judgement
    kept, verdict = _certain(judgement.findings)
    return replace(judgement, findings=kept, verdict=verdict)


def certain_report(report: Report, facts: Iterable[NodeFacts]) -> Report:
    """Return the part of a report on several nodes that is certain if a signal ended them all."""
    if not any(map(_joins, facts)):
        return report
    kept, verdict = _certain(report.findings)
    return replace(report, findings=kept, verdict=verdict)


def _joins(facts: NodeFacts) -> bool:
    """Return whether the process still waits to join.

    It waits because its failures of the network stage and later may pass by themselves: permanent ones end the wait at
    once.
    """
    return facts.meeting is not None and not (facts.meeting.joined or facts.meeting.ended)


def _certain(findings: Sequence[Finding]) -> tuple[tuple[Finding, ...], Verdict]:
    """Return the findings but for those failures and what they explain, and the verdict."""
    curable = {finding.id for finding in findings if finding.severity == "fail" and _from_network_on(finding)}
    kept = tuple(finding for finding in findings if finding.id not in curable and finding.because_of not in curable)
    failing = any(finding.severity == "fail" and not finding.incomplete for finding in kept)
    return kept, "fail" if failing else "incomplete"


def _from_network_on(finding: Finding) -> bool:
    stage = finding.check.partition("/")[0]
    return stage in STAGES and stage_index(stage) >= stage_index(NETWORK.name)


def _root(finding: Finding) -> bool:
    """Return whether the finding is reported: a missing node always is, even as a consequence."""
    return finding.because_of is None or finding.incomplete


def not_joined(cluster: Cluster, pending: Sequence[Finding]) -> tuple[str, ...]:
    """Return the names of the nodes that had not joined when the run was interrupted."""
    here = {node.name for node in cluster.nodes}
    names = (name for finding in pending if finding.incomplete for name in finding.nodes)
    return tuple(dict.fromkeys(name for name in names if name not in here))


def pending_notes(pending: Sequence[Finding]) -> list[str]:
    """Return notes on the failures that might still have passed by themselves."""
    notes = []
    for finding in pending:
        last = finding.evidence[-1].partition("; ")[2] if finding.evidence else ""
        if not finding.incomplete:
            notes.append(f"so far: {finding.check}: {finding.summary}")
        elif last:
            notes.append(f"so far: {fold(finding.nodes)}: {last}")
    return notes


def interruption(number: int, seconds: float, cluster: Cluster, missing: Sequence[str], until: str) -> str:
    """Return the line ``Interrupted after 6 s; node1 had not joined``."""
    began = "Interrupted" if number == signal.SIGINT else f"Ended by {signal.Signals(number).name}"
    return f"{began} after {seconds:.0f} s; {_state(cluster, missing, until)}"


def for_another_node(report: Report) -> Report:
    """Return node 0's report for another node: the signal reached node 0 only."""
    text = report.details.get(INTERRUPTED)
    if not text or not report.nodes:
        return report
    text = f"{report.nodes[0].name} was {text[:1].lower()}{text[1:]}"
    return replace(report, details={**report.details, INTERRUPTED: text})


def _state(cluster: Cluster, missing: Sequence[str], until: str) -> str:
    if missing:
        return f"{fold(missing)} had not joined"
    node = cluster.reference
    planned = cluster.plan.nnodes or 1
    running = _running(node.facts, until)
    if planned == 1:
        return running
    if node.meeting.joined and len(cluster.nodes) >= planned:
        return f"all {count(planned, 'node')} had joined, {running}"
    if node.meeting.joined:
        return f"{node.name} had joined, {running}"
    return f"{node.name} had not joined the other nodes, {running}"


def _running(facts: NodeFacts, until: str) -> str:
    if facts.identity.torch_importing:
        return "torch still being imported"
    recorded = {entry.stage for entry in facts.stages}
    stage = next((name for name in STAGES[: stage_index(until) + 1] if name not in recorded), None)
    return f"stage {spoken(stage)} was running" if stage is not None else "all stages had ended"
