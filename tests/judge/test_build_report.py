"""The report made of facts and findings: one status for every stage of every node, and nothing silent."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.judge.engine import Judgement
from distdoctor.judge.report import assemble
from distdoctor.model.cluster import build
from distdoctor.model.facts import NodeFacts, StageFacts, Trial
from distdoctor.model.findings import Finding, Severity
from distdoctor.model.report import Report, Verdict
from distdoctor.model.stages import BY_NAME, LOG_STAGES, STAGES
from distdoctor.render import html, json, markdown
from distdoctor.render.text import render
from tests.checks.network import test_no_route as no_route
from tests.checks.network import test_wrong_interface as wrong_interface
from tests.checks.row import Facts
from tests.facts_builder import CHECKS, healthy, judged, rank_node, with_meeting, with_plan


def made(*facts: NodeFacts, findings: tuple[Finding, ...] = (), verdict: Verdict = "pass", **more: Any) -> Report:
    return assemble(build(facts), Judgement(verdict, findings), started_at="t", seconds=1.0, **more)


def finding(check: str, *nodes: str, severity: Severity = "fail", because_of: str | None = None) -> Finding:
    return Finding("said", nodes=nodes, severity=severity, check=check, id=check, because_of=because_of)


def with_stage(facts: NodeFacts, stage: StageFacts) -> NodeFacts:
    return replace(facts, stages=tuple(stage if s.stage == stage.stage else s for s in facts.stages))


def statuses(report: Report, stage: str) -> dict[str, str]:
    return {s.node: s.status for s in report.stages if s.stage == stage}


def test_healthy() -> None:
    facts = healthy(2)
    report = assemble(build(facts), judged(*facts), started_at="t", seconds=1.23456)
    assert (report.verdict, report.seconds, report.notes, report.torch) == ("pass", 1.235, (), "2.13.0")
    assert [(s.stage, s.node) for s in report.stages] == [(s, n) for n in ("host0", "host1") for s in STAGES]
    assert {s.status for s in report.stages} == {"pass"}
    assert [(n.name, n.node_rank, n.arrived, n.ranks) for n in report.nodes] == [
        ("host0", 0, True, (0, 1)),
        ("host1", 1, True, (2, 3)),
    ]
    assert {name: report.plan[name] for name in ("nnodes", "world_size", "backends", "started", "node_rank")} == {
        "nnodes": 2,
        "world_size": 4,
        "backends": ["gloo"],
        "started": "node",
        "node_rank": 0,
    }


def test_a_finding_marks_the_stage_of_the_nodes_it_touches() -> None:
    report = made(*healthy(3), findings=(finding("gloo/x", "host1"),), verdict="fail")
    assert statuses(report, "gloo") == {"host0": "pass", "host1": "fail", "host2": "pass"}
    linked = replace(finding("mesh/x", severity="warn"), links=(("host0", "host2"),))
    assert statuses(made(*healthy(3), findings=(linked,)), "mesh") == {
        "host0": "warn",
        "host1": "pass",
        "host2": "warn",
    }


def test_a_stage_that_ran_through_is_marked_for_a_finding_and_says_for_which() -> None:
    """What it says of itself (``10.77.0.10 port 29500``) is no reason for a failure."""
    host0, host1 = healthy(2)
    host1 = with_stage(host1, StageFacts("network", "ok", 0.1, "10.77.0.10 port 29500"))
    report = made(host0, host1, findings=(finding("network/wrong-interface", "host1"),), verdict="fail")
    told = {s.node: (s.status, s.reason) for s in report.stages if s.stage == "network"}
    assert told == {"host0": ("pass", ""), "host1": ("fail", "network/wrong-interface")}
    lost = replace(host1, stages=host1.stages[:4])
    report = made(host0, lost, findings=(finding("store/node-lost", "host1"),), verdict="fail")
    told = {s.stage: (s.status, s.reason) for s in report.stages if s.node == "host1"}
    assert (told["store"], told["mesh"]) == (("fail", "store/node-lost"), ("skip", "not reached"))


def test_info_does_not_mark_a_stage() -> None:
    report = made(*healthy(2), findings=(finding("host/x", "host1", severity="info"),))
    assert statuses(report, "host") == {"host0": "pass", "host1": "pass"}


def test_a_failure_that_is_only_a_warning_for_this_job() -> None:
    host0, host1 = healthy(2)
    host1 = with_stage(host1, StageFacts("gloo", "failed", 0.1, "refused"))
    report = made(host0, host1, findings=(finding("gloo/x", "host1", severity="warn"),), verdict="warn")
    assert statuses(report, "gloo") == {"host0": "pass", "host1": "warn"}
    host0, host1 = (with_plan(f, backend="nccl") for f in (host0, host1))
    assert statuses(made(host0, host1), "gloo") == {"host0": "pass", "host1": "warn"}


def test_stages_that_were_not_run_say_why() -> None:
    host0, host1 = healthy(2)
    stages = (*host1.stages[:4], StageFacts("store", "failed", 1.0, "no answer"))
    report = made(host0, replace(host1, stages=stages), findings=(finding("store/x", "host1"),), verdict="fail")
    left = {s.stage: (s.status, s.reason, s.blocked_by) for s in report.stages if s.node == "host1"}
    assert left["store"] == ("fail", "no answer", None)
    assert left["mesh"] == ("skip", "not run: needs store", "store")
    assert len(left) == len(STAGES)


def test_a_stage_that_was_not_run_is_not_said_to_have_failed() -> None:
    host0, host1 = healthy(2)
    waiting = with_stage(host1, StageFacts("gloo", "skipped", reason="needs mesh", blocked_by="mesh"))
    report = made(host0, waiting, findings=(finding("gloo/x", "host0", "host1"),), verdict="fail")
    assert statuses(report, "gloo") == {"host0": "fail", "host1": "skip"}


def test_no_stage_above_the_last_one_climbed() -> None:
    host0, _ = healthy(2)
    report = made(replace(host0, stages=host0.stages[:4]))
    assert [s.stage for s in report.stages] == list(STAGES[:4])


def test_every_stage_that_was_to_be_climbed_is_there() -> None:
    host0, _ = healthy(2)
    failed = replace(host0, stages=(*host0.stages[:6], StageFacts("gloo", "failed", 0.1, "refused")))
    judgement = Judgement("fail", (finding("gloo/x", "host0"),))
    report = assemble(build([failed]), judgement, started_at="t", seconds=1.0, until="barrier")
    assert [(s.stage, s.status, s.reason) for s in report.stages[6:]] == [
        ("gloo", "fail", "refused"),
        ("nccl", "skip", "not run: needs gloo"),
        ("barrier", "skip", "not run: needs gloo"),
    ]


def test_skip_reasons_read_alike() -> None:
    host0, host1 = healthy(2)
    host0 = with_stage(host0, StageFacts("nccl", "skipped", 0.0, "needs gloo", "gloo"))
    host1 = with_stage(host1, StageFacts("nccl", "skipped", 0.0, "", "gloo"))
    reasons = {s.node: (s.reason, s.blocked_by) for s in made(host0, host1).stages if s.stage == "nccl"}
    assert reasons == {"host0": ("not run: needs gloo", "gloo"), "host1": ("not run: needs gloo", "gloo")}


def test_an_unexplained_failure_is_neither_silent_nor_a_pass() -> None:
    host0, host1 = healthy(2)
    report = made(host0, with_stage(host1, StageFacts("collective", "failed", 0.1, "wrong sum")))
    assert report.verdict == "incomplete"
    assert report.notes == ("collective failed on host1; the cause is unknown: wrong sum",)


def test_a_crashed_probe_makes_it_incomplete() -> None:
    host0, host1 = healthy(2)
    report = made(host0, with_stage(host1, StageFacts("host", "error", 0.1, "ValueError: x")))
    assert (report.verdict, statuses(report, "host")["host1"]) == ("incomplete", "error")


def test_a_crashed_check_is_a_note() -> None:
    judgement = Judgement("incomplete", (), broken=("a/b: ValueError: x",))
    (note,) = assemble(build(healthy(1)), judgement, started_at="t", seconds=1.0).notes
    assert "a/b: ValueError: x" in note


def test_missing_nodes_are_listed_once() -> None:
    report = made(
        healthy(2)[0],
        findings=(replace(finding("store/nodes-missing", "node1", "gpu7"), incomplete=True),),
        verdict="incomplete",
        extra_missing=("gpu7", "late"),
        notes=("a", "a"),
    )
    assert [(n.name, n.node_rank, n.arrived) for n in report.nodes] == [
        ("host0", 0, True),
        ("node1", 1, False),
        ("gpu7", None, False),
        ("late", None, False),
    ]
    assert report.notes == ("a",)
    assert {s.node for s in report.stages} == {"host0"}


def test_ranks_of_one_node_give_the_worst_of_their_statuses() -> None:
    ranks = [rank_node("host0", n, local=n, per_node=2) for n in range(2)]
    ranks[1] = with_stage(ranks[1], StageFacts("store", "failed", 0.1, "refused"))
    report = made(*ranks, findings=(finding("store/x", "host0"),), verdict="fail")
    assert [n.ranks for n in report.nodes] == [(0, 1)]
    assert statuses(report, "store") == {"host0": "fail"}


def test_trials_are_kept_for_the_renderers() -> None:
    host0, host1 = healthy(2)
    trial = Trial("gloo/loopback-address", 1, {"host0": {"A": "b"}}, ("gloo", "barrier"), True)
    (kept,) = made(replace(host0, trials=(trial,)), host1).details["trials"]
    assert (kept["check"], kept["option"], kept["stages"], kept["passed"]) == (
        trial.check,
        1,
        ["gloo", "barrier"],
        True,
    )


def test_the_checks_are_there() -> None:
    assert {check.stage for check in CHECKS} <= {*STAGES, *LOG_STAGES}


@pytest.mark.parametrize(
    "facts",
    [no_route.behind_nat("172.28.0.2"), wrong_interface.vpn_on_one("100.64.0.6")],
    ids=["a route that gloo does not need", "an interface that dials"],
)
def test_a_link_that_a_check_of_another_stage_explains_is_no_riddle(facts: Facts) -> None:
    """The mesh failed for a link that the job does not need, and a warning of another stage says why."""
    host0, host1 = facts
    host0 = with_stage(host0, StageFacts("mesh", "failed", 0.6, "1 link does not work"))
    report = assemble(build([host0, host1]), judged(host0, host1), started_at="t", seconds=1.0)
    assert (report.verdict, report.notes) == ("warn", ())
    assert statuses(report, "mesh") == {"host0": "warn", "host1": "pass"}


def test_a_host_that_is_two_nodes_where_others_are_one_is_noted() -> None:
    """Nobody has numbered them: one of the two may be left over from an earlier run."""
    a, b, c = healthy(3)
    again = replace(b, identity=replace(b.identity, pid=4711), node_rank=2)
    (note,) = made(a, b, again).notes
    assert note.startswith("host1 is 2 of the 3 nodes (pids 1001, 4711)")
    assert made(a, b, c).notes == ()
    # two on each host, or numbered by who started them: that is meant
    also = replace(a, identity=replace(a.identity, pid=4712), node_rank=3)
    for meant in ((a, also, b, again), (a, with_plan(b, node_rank=1), with_plan(again, node_rank=2))):
        assert made(*meant).notes == ()


def test_nodes_that_all_run_on_one_host_are_noted_and_no_failure() -> None:
    _, one, _ = healthy(3)
    again = replace(one, identity=replace(one.identity, pid=4711), node_rank=0)
    third = replace(one, identity=replace(one.identity, pid=4712), node_rank=2)
    report = made(one, again)
    assert report.notes == ("2 nodes on one host: host1 runs both. No link between hosts was checked.",)
    assert made(one, again, third).notes[0].startswith("3 nodes on one host: host1 runs all 3.")
    assert "host1 runs both" in "".join(render(report).splitlines()[2:4])
    assert made(one).notes == ()
    # a container with a network of its own is a host of its own, whatever its name
    apart = replace(again, identity=replace(again.identity, netns="net:[4]"))
    assert made(one, apart).notes == ()


def partial(*facts: NodeFacts, expected: int, **meeting: Any) -> Report:
    """A report of a job from which nodes are missing."""
    first, *others = facts
    arrived = tuple(one.key for one in facts)
    return made(with_meeting(first, arrived=arrived, expected=expected, hosted=True, ended=True, **meeting), *others)


def test_a_stage_without_all_nodes_has_no_tick() -> None:
    a, b, _ = healthy(3)
    for report, told in (
        (partial(a, expected=3), "this node only"),
        (partial(a, b, expected=3), "these 2 nodes only"),
        (partial(a, b, expected=4, counts="ranks"), "2 of 4 ranks only"),
    ):
        between = [stage for stage in report.stages if BY_NAME[stage.stage].opened and stage.status == "pass"]
        assert {stage.reason for stage in between} == {told}
        assert {"store", "barrier", "collective"} <= {stage.stage for stage in between}
        assert {s.reason for s in report.stages if not BY_NAME[s.stage].opened and s.status == "pass"} == {""}
        line = next(line for line in render(report).splitlines() if " store, " in line)
        assert line.startswith(f"{told}  store, ")
        row = next(line for line in markdown.render(report).splitlines() if line.startswith("| store"))
        assert told in row and markdown.MARKS["pass"] not in row
        assert f'<td class="skip">{told} <span' in html.render(report)
        assert {"stage": "store", "status": "pass", "reason": told}.items() <= next(
            stage.items() for stage in json.document(report)["stages"] if stage["stage"] == "store"
        )
    assert {stage.reason for stage in made(*healthy(2)).stages if stage.status == "pass"} == {""}
