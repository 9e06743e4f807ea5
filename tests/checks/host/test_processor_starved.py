"""host/processor-starved: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.judge.report import assemble
from distdoctor.model.facts import NodeFacts, StageFacts
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.limits import limited
from tests.facts_builder import cluster, failing, healthy, judged, with_meeting

CHECK = "host/processor-starved"


def ended(facts: NodeFacts, stage: str, error: str, **detail: Any) -> NodeFacts:
    """The same, with the stage as it ended on the node."""
    stages = (*(one for one in facts.stages if one.stage != stage), StageFacts(stage, "failed", 17.0, error))
    return replace(failing(facts, stage, error, **detail), stages=stages)


def starved(stage: str = "collective", quota: float | None = None) -> Facts:
    """host1's ranks had no processor for most of the stage; host0's waited for them."""
    a, b = healthy(2)
    waited = ended(a, stage, "ended after 17.0 s: it did not return", killed=True)
    return waited, limited(
        ended(b, stage, "ended after 17.0 s: it was kept waiting", killed=True, starved=15.2),
        cpus=8,
        cpus_online=8,
        cpu_quota=quota,
    )


ROWS = [
    Row("in the collective", starved, ("host1",), "warn", together=True),
    Row("in gloo's stage", lambda: starved("gloo"), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("healthy", lambda: healthy(2)),
    LookAlike("waited for a peer", lambda: starved()[:1], "collective/failed"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_it_is_why_the_check_could_not_be_finished() -> None:
    """Not that no check knows why; and that the job would fail is not said."""
    report = assemble(cluster(*starved()), judged(*starved()), started_at="", seconds=20.0)
    assert report.verdict == "incomplete" and not any("no check knows" in note for note in report.notes)


def test_a_limit_that_is_known_is_the_cause() -> None:
    findings = {finding.check: finding for finding in judged(*starved(quota=0.05)).findings}
    assert findings[CHECK].because_of == "host/cpu-affinity"
    assert "0.05 CPUs" in findings[CHECK].fixes[0].text


def test_one_that_waited_does_not_say_more_by_itself_than_node_0_said() -> None:
    """Its facts alone: that host1 had no processor is in host1's."""
    (waited,) = (with_meeting(one, verdict="incomplete") for one in starved()[:1])
    assert [finding.check for finding in judged(waited).findings] == []
    assert assemble(cluster(waited), judged(waited), started_at="", seconds=20.0).verdict == "incomplete"
    assert [finding.check for finding in judged(*starved()[:1]).findings] == ["collective/failed"]
