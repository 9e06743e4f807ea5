"""Report: the content of all renderers, in the shape of the JSON document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from distdoctor.model.findings import Finding, PossibleCause
from distdoctor.model.stages import STAGES, needs_torch, stage_index

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ReportNode:
    """One node of the plan: joined, or known to be missing."""

    name: str
    node_rank: int | None
    arrived: bool
    hostname: str | None = None
    ranks: tuple[int, ...] = ()
    address: str | None = None
    torch: str | None = None
    distdoctor: str | None = None


INTERRUPTED = "interrupted"
"""Entry of ``details`` after a signal: the first line of the report, in words."""
ONE_HOST = " nodes on one host: "
"""Part of the note on nodes that share a host; it belongs to the first lines of a report."""


ONLY = " only"
"""End of the reason of a stage that passed without the missing nodes: ``this node only``."""


@dataclass(frozen=True)
class ReportStage:
    """Result of one stage on one node: pass, warn, fail, skip or error."""

    stage: str
    node: str
    status: str
    seconds: float
    reason: str = ""
    """With ``pass``: the only participants of a stage between nodes if some are missing (``this node only``)."""
    blocked_by: str | None = None

    @property
    def partial(self) -> bool:
        """True if it passed without the missing nodes: that is no pass of the job's."""
        return self.status == "pass" and self.reason.endswith(ONLY)


@dataclass(frozen=True)
class ReportCheck:
    """Result of one check."""

    id: str
    status: CheckStatus
    why: str = ""
    """With ``not-judged``: why its facts were not seen; with ``found``: ``ignored`` if that was requested."""


@dataclass(frozen=True)
class Report:
    """One run (or one ``diagnose``) as a whole."""

    verdict: Verdict
    distdoctor: str
    torch: str | None
    started_at: str
    seconds: float
    plan: dict[str, Any]
    nodes: tuple[ReportNode, ...]
    stages: tuple[ReportStage, ...]
    findings: tuple[Finding, ...]
    ignored: tuple[Finding, ...] = ()
    notes: tuple[str, ...] = ()
    """Further information: what could not be seen, interrupted by which signal, a check that crashed."""
    details: dict[str, Any] = field(default_factory=dict)
    """Values for ``-v``: addresses, round-trip times and others if all is well."""
    candidates: tuple[PossibleCause, ...] = ()
    """Possible causes, likeliest first, if the verdict is incomplete because a log shows only a symptom."""
    schema_version: int = SCHEMA_VERSION
    checks: tuple[ReportCheck, ...] = ()
    """Every check that ran; in node 0's report to the other nodes only a site's; empty in a report of 0.1.0."""

    @property
    def until(self) -> str:
        """Last stage of the report; the last of all if it has none."""
        return max((s.stage for s in self.stages if s.stage in STAGES), key=stage_index, default=STAGES[-1])

    @property
    def apart(self) -> bool:
        """True if it is of some of the planned nodes, as each runs by itself the stages before the rendezvous."""
        return not needs_torch(self.until) and len(self.nodes) < (self.plan.get("nnodes") or 1)


Verdict = Literal["pass", "warn", "fail", "incomplete"]
"""``incomplete``: something could not be seen, such as a node that did not join, and nothing else failed."""
CheckStatus = Literal["found", "clear", "not-judged"]
"""``found``: it has a finding; ``clear``: all its facts were seen, without a finding; ``not-judged``: they were not
seen."""
