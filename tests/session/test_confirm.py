"""Tests of what a process tells of a report of node 0's that nothing confirms."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from distdoctor.model.facts import StageFacts
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.stages import ALL_STAGES, STAGES
from distdoctor.session.options import Options
from distdoctor.session.protocol.confirm import proven, with_unconfirmed
from tests.facts_builder import CHECKS, healthy


def report(*checks: str, verdict: str = "fail") -> Report:
    """One with a finding of host1 by each of these checks."""
    found = tuple(Finding("seen", check=one, id=one, severity="fail", nodes=("host1",)) for one in checks)
    return Report(verdict, "0.1.0", "2.13.0", "", 1.0, {}, (), (), found)  # type: ignore[arg-type]


def test_what_follows_from_what_node_0_is_said_to_have_found_is_no_second_failure() -> None:
    """Its port is forwarded alone: node 0 cannot be asked, and the ranks' own failure has the cause that it names."""
    told = with_unconfirmed(report("gloo/init-failed"), report("network/no-route"), CHECKS, proven=False)
    assert [(one.id, one.because_of) for one in told.findings] == [
        ("network/no-route", None),
        ("gloo/init-failed", "network/no-route"),
    ]


def test_a_failure_of_its_own_stays_one() -> None:
    told = with_unconfirmed(report("environment/torch-missing"), report("network/no-route"), CHECKS, proven=False)
    assert {one.id for one in told.findings if one.because_of is None} >= {"environment/torch-missing"}


@pytest.mark.parametrize(
    ("proven", "own", "told", "verdict"),
    [
        (True, "pass", "pass", "pass"),
        (True, "pass", "warn", "warn"),
        (True, "warn", "pass", "warn"),
        (False, "pass", "pass", "incomplete"),
        (True, "incomplete", "pass", "incomplete"),
        (True, "fail", "pass", "fail"),
        # A forged report can still withhold a pass; it cannot make one.
        (True, "pass", "fail", "fail"),
        (True, "pass", "incomplete", "incomplete"),
    ],
)
def test_a_pass_rests_on_this_processs_own_evidence(proven: bool, own: str, told: str, verdict: str) -> None:
    merged = with_unconfirmed(report(verdict=own), report(verdict=told), CHECKS, proven)
    assert merged.verdict == verdict and any("not confirmed" in note for note in merged.notes)


def recorded(**changes: Any) -> Any:
    """Return what a process of 2 nodes has recorded in which every stage passed, but for these; without GPUs."""
    a, _ = healthy(2)
    plan = replace(a.plan, nnodes=2, backend="gloo")
    status = dict.fromkeys(STAGES, "ok") | {"gpu": "skipped", "nccl": "skipped"} | changes
    stages = tuple(StageFacts(name, status[name], 0.1) for name in STAGES if status[name])
    facts = replace(a, plan=plan, stages=stages)
    return SimpleNamespace(options=Options(plan, CHECKS), plan=plan, facts=facts, leads_node=True)


ALL = {stage.name: 2 for stage in ALL_STAGES if stage.opened}


def test_all_stages_with_all_nodes_in_them_are_proof() -> None:
    assert proven(recorded(), ALL)


@pytest.mark.parametrize(
    ("changes", "together"),
    [
        pytest.param({"collective": "skipped"}, ALL, id="node 0 skipped the collectives"),
        pytest.param({"collective": ""}, ALL, id="node 0 never opened them"),
        pytest.param({"gloo": "failed"}, ALL, id="a stage failed"),
        pytest.param({"mesh": "skipped"}, ALL, id="no link was tried"),
        pytest.param({}, {**ALL, "collective": 1}, id="the collectives ran among this node's own ranks"),
        pytest.param({}, {}, id="nothing ran with others"),
    ],
)
def test_what_was_left_out_or_ran_with_fewer_nodes_is_none(changes: dict[str, str], together: dict[str, int]) -> None:
    assert not proven(recorded(**changes), together)
