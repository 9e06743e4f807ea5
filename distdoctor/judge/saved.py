"""Judging saved facts: what ``distdoctor diagnose FILE...`` does. Never imports torch."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone

from distdoctor.judge.build_report import assemble
from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.report import Report
from distdoctor.model.stages import STAGES, position

SAME_RUN = 3600.0
"""Facts whose starts are further apart than this many seconds are probably not of one run."""


def diagnose(facts: Sequence[NodeFacts], checks: Sequence[Check], ignore: Iterable[str] = ()) -> Report:
    """The report on saved facts of one run, one or more nodes. Raises ValueError without any facts."""
    started = time.monotonic()
    earlier = _of_earlier_runs(facts)
    facts = [one for one in facts if one.key not in earlier]
    cluster = build(facts)
    judgement = judge(cluster, checks, ignore)
    times = [one.started_at for one in facts if one.started_at]
    begun = datetime.fromtimestamp(min(times, default=0.0), tz=timezone.utc)
    notes = [
        f"what {one.identity.hostname} (pid {one.identity.pid}) saw in an earlier run is left out"
        for one in earlier.values()
    ]
    if times and max(times) - min(times) > SAME_RUN:
        notes.append(f"the facts were taken {(max(times) - min(times)) / 3600:.0f} hours apart: are they of one run?")
    unfinished = _unfinished(facts)
    report = assemble(
        cluster,
        judgement,
        started_at=begun.isoformat(timespec="seconds"),
        seconds=time.monotonic() - started,
        notes=[*notes, *unfinished],
    )
    # What was not looked at cannot be called healthy.
    return replace(report, verdict="incomplete") if unfinished and report.verdict in ("pass", "warn") else report


def _unfinished(facts: Sequence[NodeFacts]) -> list[str]:
    """A note for each process whose run ended before its last stage: interrupted, or killed."""
    reached = max(
        (position(s.stage) for one in facts for s in one.stages if s.stage in STAGES), default=len(STAGES) - 1
    )
    notes = []
    for one in facts:
        last = position(one.until) if one.until in STAGES else reached
        recorded = {stage.stage for stage in one.stages}
        missing = [stage for stage in STAGES[: last + 1] if stage not in recorded]
        if missing:
            notes.append(f"the run on {one.identity.hostname} (pid {one.identity.pid}) ended before {missing[0]}")
    return notes


def _of_earlier_runs(facts: Iterable[NodeFacts]) -> dict[str, NodeFacts]:
    """Those, by key, whose host was checked again after their run had ended: a folder keeps the files of both."""
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
