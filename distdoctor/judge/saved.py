"""Judgement of saved facts and of logs (``distdoctor diagnose FILE...``). Never imports torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from distdoctor.judge.catalog import Check
from distdoctor.judge.causes import linked
from distdoctor.judge.engine import Judgement, in_order, judge
from distdoctor.judge.report import assemble
from distdoctor.model.bounds import MOST_ABSENT
from distdoctor.model.cluster import Cluster, Node, build
from distdoctor.model.facts import HostCall, NodeFacts, RendezvousFacts
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report, Verdict
from distdoctor.model.stages import NETWORK, STAGES, STORE, stage_index

SAME_RUN = 3600.0
"""Seconds between the starts of facts from which they are probably not of one run."""
SHOWN = 8
"""Most hosts that a note names."""


def diagnose(
    facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Iterable[str] = (), calls: Sequence[HostCall] = ()
) -> Report:
    """Return the report on saved facts of one run on one or more nodes. Raises ValueError without any facts.

    ``calls``: the result of the command on each host of a remote run (``--hosts``).
    """
    started = time.monotonic()
    earlier = _of_earlier_runs(facts)
    facts = [one for one in facts if one.key not in earlier]
    cluster = build(facts, calls)
    judgement = judge(cluster, checks, ignore)
    times = [one.started_at for one in facts if one.started_at]
    begun = datetime.fromtimestamp(min(times, default=0.0), tz=timezone.utc)
    notes = [
        f"facts of an earlier run on {one.identity.hostname} (pid {one.identity.pid}) are left out"
        for one in earlier.values()
    ]
    if times and max(times) - min(times) > SAME_RUN:
        notes.append(
            f"the facts were taken {(max(times) - min(times)) / 3600:.0f} hours apart and may not be of one run"
        )
    absent, ranks_absent = _absent_nodes(cluster, judgement), _absent_ranks(cluster, judgement)
    if calls:  # a note names each of them with the reason
        absent, ranks_absent = [], []
    missing = absent or [f"rank {rank}" for rank in ranks_absent]
    unfinished = [*_unfinished(facts), *([_absence_text(missing)] if missing else [])]
    report = assemble(
        cluster,
        judgement,
        started_at=begun.isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
        notes=[*notes, *unfinished],
        extra_missing=absent,
    )
    # Facts that are missing cannot be called healthy.
    return replace(report, verdict="incomplete") if unfinished and report.verdict in ("pass", "warn") else report


def _unfinished(facts: Sequence[NodeFacts]) -> list[str]:
    """Return a note for each stage that runs ended before, interrupted or killed, with their hosts and pids."""
    reached = max(
        (stage_index(s.stage) for one in facts for s in one.stages if s.stage in STAGES), default=len(STAGES) - 1
    )
    ended = dict[str, list[str]]()
    for one in facts:
        last = stage_index(one.until) if one.until in STAGES else reached
        recorded = {stage.stage for stage in one.stages}
        missing = [stage for stage in STAGES[: last + 1] if stage not in recorded]
        if missing:
            seen = one.network.contact if one.network is not None and missing[0] in (NETWORK.name, STORE.name) else None
            way = f"{seen.address}:{seen.port} {seen.outcome.replace('-', ' ')}" if seen is not None else ""
            why = f"; its last connection to node 0: {way}" if seen is not None and seen.outcome != "open" else ""
            name = f"{one.identity.hostname} (pid {one.identity.pid})"
            ended.setdefault(f"ended before {missing[0]}{why}", []).append(name)
    return [f"the run{'s' if names[1:] else ''} on {', '.join(names)} {how}" for how, names in ended.items()]


def _absent_nodes(cluster: Cluster, judgement: Judgement) -> list[str]:
    """Return the nodes of the job whose facts are missing, except those that a finding reports as not joined.

    They are named by the hostnames in node 0's roll call, else by the missing node ranks.
    """
    reference = cluster.reference
    if reference.plan.started == "rank":
        return []
    met, here = reference.facts.meeting or RendezvousFacts(), {node.name for node in cluster.nodes}
    planned = max(reference.plan.nnodes or 1, len(met.arrived), met.expected)
    never_came = {name for finding in _never_came(judgement) for name in finding.nodes} - here
    count = min(planned - len(here) - len(never_came), MOST_ABSENT)
    if count <= 0:
        return []
    known = [key.partition(" ")[0] for key in met.arrived if key not in cluster.by_key]
    if not any(map(_is_node0, cluster.nodes)):
        networks = (node.facts.network for node in cluster.nodes)
        known.append(next((network.master_name for network in networks if network and network.master_name), "node0"))
    names = [name for name in dict.fromkeys(known) if name not in here | never_came][:count]
    taken = {0 if _is_node0(node) else node.node_rank for node in cluster.nodes}
    accounted = here | never_came | {*names}
    free = (f"node{rank}" for rank in range(min(planned, MOST_ABSENT)) if rank not in taken)
    rest = [name for name in free if name not in accounted]
    return [*names, *rest[max(len(rest) - (count - len(names)), 0) :]]


def _absent_ranks(cluster: Cluster, judgement: Judgement) -> list[int]:
    """Return the missing ranks of a job started once per rank, except those that did not join."""
    plan = cluster.plan
    if plan.started != "rank" or any(one.plan.rank is None for one in cluster.slices):
        return []
    known = {one.plan.rank for one in cluster.slices}
    known |= {rank for finding in _never_came(judgement) for rank in finding.ranks}
    return [rank for rank in range(min(plan.world_size or 0, MOST_ABSENT)) if rank not in known]


def _never_came(judgement: Judgement) -> list[Finding]:
    return [finding for finding in (*judgement.findings, *judgement.ignored) if finding.incomplete]


def _is_node0(node: Node) -> bool:
    """Return whether it is node 0, by its rank or as the owner of MASTER_ADDR."""
    if node.node_rank is not None:
        return node.node_rank == 0
    return bool(node.facts.network and node.facts.network.master_is_own)


def _absence_text(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"the facts of {', '.join(names[:SHOWN])}{more} are missing; what was seen there is not judged"


def _of_earlier_runs(facts: Iterable[NodeFacts]) -> dict[str, NodeFacts]:
    """Return, by key, the facts of earlier runs on hosts that were checked again: a folder keeps the files of both."""
    hosts: dict[tuple[str, str, str], list[NodeFacts]] = {}
    for one in facts:
        if one.plan.started == "node" and one.started_at:
            hosts.setdefault(one.identity.host, []).append(one)
    found = {}
    for group in hosts.values():
        latest = max(one.started_at for one in group)
        for one in group:
            waited = one.meeting.waited if one.meeting else 0.0
            if latest > one.started_at + waited + sum(stage.seconds for stage in one.stages):
                found[one.key] = one
    return found


# Joint judgement of the facts and logs of one job: findings in the facts explain the logs.


def together(facts: Report, logs: Report, checks: Sequence[Check]) -> Report:
    """Return the report on both.

    A failure in both is one finding; the declarations of ``checks`` link all findings to their causes.
    """
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
    """Return a finding in the facts with the log lines that show the same."""
    lines = (line for one in of_logs if one.check == finding.check for line in one.evidence)
    return replace(finding, evidence=(*finding.evidence, *lines))
