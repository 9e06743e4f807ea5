"""The report: everything the renderers tell, in the shape of the JSON document."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from distdoctor.model.findings import Candidate, Finding
from distdoctor.model.stages import STAGES, needs_torch, position

SCHEMA_VERSION = 1


@dataclass(frozen=True)
class ReportNode:
    """One node of the plan: met, or known to be missing."""

    name: str
    node_rank: int | None
    arrived: bool
    hostname: str | None = None
    ranks: tuple[int, ...] = ()
    address: str | None = None
    torch: str | None = None
    distdoctor: str | None = None


INTERRUPTED = "interrupted"
"""The entry of ``details`` that a signal leaves: the first line of the report, in words."""
ONE_HOST = " nodes on one host: "
"""What the note on nodes that share a host has in it; it stands in the first lines of a report."""


ONLY = " only"
"""How the reason of a stage ends that passed without the nodes that are missing: ``this node only``."""


@dataclass(frozen=True)
class ReportStage:
    """How one stage ended on one node: pass, warn, fail, skip or error."""

    stage: str
    node: str
    status: str
    seconds: float
    reason: str = ""
    """With ``pass``: who alone took part in a stage between nodes where some are missing (``this node only``)."""
    blocked_by: str | None = None

    @property
    def partial(self) -> bool:
        """Return whether it passed without the nodes that are missing: that is no pass of the job's."""
        return self.status == "pass" and self.reason.endswith(ONLY)


@dataclass(frozen=True)
class ReportCheck:
    """What became of one check."""

    id: str
    status: CheckStatus
    why: str = ""
    """With ``not-judged``: why what it looks at was not seen; with ``found``: ``ignored`` where that was asked for."""


@dataclass(frozen=True)
class Report:
    """One run (or one ``diagnose``), told whole."""

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
    """What else a reader should know: what could not be seen, interrupted by which signal, a check that crashed."""
    details: dict[str, Any] = field(default_factory=dict)
    """For ``-v``: addresses, round-trip times and other values seen where all is well."""
    candidates: tuple[Candidate, ...] = ()
    """Where the verdict is incomplete because a log shows only a symptom: what it may be, likeliest first."""
    schema_version: int = SCHEMA_VERSION
    checks: tuple[ReportCheck, ...] = ()
    """Every check that was run; empty in a report of 0.1.0, and in what node 0 tells the other nodes."""

    @property
    def until(self) -> str:
        """The highest stage that is told of; the whole ladder's where none is."""
        return max((s.stage for s in self.stages if s.stage in STAGES), key=position, default=STAGES[-1])

    @property
    def apart(self) -> bool:
        """Return whether it is of some of the planned nodes, as each climbs by itself up to the stage where they
        meet."""
        return not needs_torch(self.until) and len(self.nodes) < (self.plan.get("nnodes") or 1)


Verdict = Literal["pass", "warn", "fail", "incomplete"]
"""``incomplete``: something could not be seen, such as a node that never came, and nothing else failed."""
CheckStatus = Literal["found", "clear", "not-judged"]
"""It found something; all that it looks at was seen, and nothing is wrong; or it was not, which says nothing."""
