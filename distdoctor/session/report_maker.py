"""Making reports of this run: with when it began, how long it took, and whether it was ended before its end."""

from __future__ import annotations

import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from distdoctor.judge.build_report import assemble
from distdoctor.judge.engine import Judgement
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, Report
from distdoctor.model.stages import needs_torch
from distdoctor.session.baseline import changes, with_own_changes
from distdoctor.session.interruption import (
    interruption,
    not_joined,
    pending_failures,
    seen_from_another,
    seen_meanwhile,
    without_curable,
)
from distdoctor.session.recorder import Recorder

EACH_BY_ITSELF = (
    "up to {stage} each node is judged by itself, and this is {name}: what the others find they say on stderr, and end "
    "with its status"
)


class ReportMaker:
    """Makes the reports of one process; it begins with the run."""

    def __init__(self, until: str, baseline: Sequence[NodeFacts] = (), began: float | None = None) -> None:
        """``until``: the last stage that is to be climbed. ``baseline``: an earlier run, to tell what changed since.

        ``began``: when the import of torch did, on the clock of ``time.monotonic``, where that was before; the seconds
        that are told count from there.
        """
        self._until, self._baseline = until, baseline
        self.started = time.monotonic()
        self._began = self.started if began is None else min(began, self.started)
        self._started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.signal: int | None = None
        """The signal that interrupted the run."""

    def make(self, cluster: Cluster, judgement: Judgement, unfinished: bool, pending: Sequence[Finding] = ()) -> Report:
        """The report of what was judged; ``unfinished``: of a run that did not come to its end.

        ``pending``: what would be found if waiting had ended, of a run that was interrupted while it waited.
        """
        missing = not_joined(cluster, pending)
        notes = [cluster.plan.note] if cluster.plan.note else []
        if self.signal is not None:
            notes.append(f"interrupted by {signal.Signals(self.signal).name}: this is what was known then")
            notes += seen_meanwhile(pending)
        elif unfinished:
            notes.append("not finished within --wait and --timeout: this is what was known then")
        if cluster.plan.task is not None and not needs_torch(self._until) and not cluster.plan.one_node:
            notes.append(EACH_BY_ITSELF.format(stage=self._until, name=cluster.reference.name))
        notes += changes(cluster.nodes, self._baseline)
        report = assemble(
            cluster,
            judgement,
            started_at=self._started_at,
            seconds=round(time.monotonic() - self._began, 2),
            notes=tuple(notes),
            extra_missing=missing,
            until=self._until,
        )
        if self.signal is not None:
            told = interruption(self.signal, report.seconds, cluster, missing, self._until)
            report = replace(report, details={**report.details, INTERRUPTED: told})
        if unfinished and report.verdict in ("pass", "warn"):
            report = replace(report, verdict="incomplete")
        return report

    def with_own_changes(self, report: Report, own: NodeFacts) -> Report:
        """Node 0's report, with what changed on this node since its own baseline."""
        return with_own_changes(seen_from_another(report), own, self._baseline)

    def of_own(self, recorder: Recorder, judgement: Judgement | None = None, unfinished: bool = False) -> Report:
        """The report of this process's own facts; they are judged here where that is not done."""
        judgement = recorder.judge_alone() if judgement is None else judgement
        pending: tuple[Finding, ...] = ()
        if self.signal is not None:
            judgement = without_curable(judgement, recorder.facts)
            pending = pending_failures([recorder.facts], recorder.options, judgement)
        return self.make(build([recorder.facts]), judgement, unfinished, pending)
