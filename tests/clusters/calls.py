"""What became of the command that a run from one place sent to each host."""

from __future__ import annotations

from distdoctor.judge.catalog import load
from distdoctor.judge.engine import Judgement, judge, judge_calls
from distdoctor.model.cluster import build
from distdoctor.model.facts import CallOutcome, HostCall, HostTransport, NodeFacts


def call(rank: int, outcome: CallOutcome, *said: str, status: int | None = 255, way: HostTransport = "ssh") -> HostCall:
    """The call of ``host<rank>``, with what was said on its stderr."""
    return HostCall(f"host{rank}", rank, way, outcome, status, said, "", 1.5)


def judged_calls(*calls: HostCall, facts: tuple[NodeFacts, ...] = ()) -> Judgement:
    """Return what the checks say of these calls, beside the facts of those hosts that told any."""
    checks = load()
    return judge(build(facts, calls), checks) if facts else judge_calls(calls, checks)
