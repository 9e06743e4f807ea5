"""Judging: what follows from what, in which order it is told, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import Judgement, judge
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import Trial
from distdoctor.model.findings import Finding, Fix, Severity
from tests.facts_builder import CHECKS, healthy, loopback_name, with_plan

CLUSTER = build(healthy(3))


def check(
    check_id: str,
    *findings: Finding,
    severity: Severity = "fail",
    follows: tuple[str, ...] = (),
    anywhere: tuple[str, ...] = (),
) -> Check:
    """A check that finds just these."""

    def given(cluster: Cluster) -> Iterable[Finding]:
        return findings

    return Check(check_id, f"Title of {check_id}", "page", severity, given, Path("x.py"), follows, anywhere)


def missing(*findings: Finding, anywhere: tuple[str, ...] = ()) -> Check:
    """A check whose failure is that something was not seen."""
    return replace(check("store/c", *findings, anywhere=anywhere), incomplete=True)


def on(*nodes: str, severity: Severity | None = None, because_of: str | None = None) -> Finding:
    return Finding("seen.", nodes=nodes, severity=severity, because_of=because_of)


def ids(result: Judgement) -> list[tuple[str, str | None]]:
    return [(f.id, f.because_of) for f in result.findings]


def test_id_title_and_severity_come_from_the_check() -> None:
    (finding,) = judge(CLUSTER, [check("host/a", on("host0"), severity="warn")]).findings
    assert (finding.id, finding.check, finding.title, finding.severity) == (
        "host/a",
        "host/a",
        "Title of host/a",
        "warn",
    )


def test_findings_of_one_check_are_numbered() -> None:
    result = judge(CLUSTER, [check("host/a", on("host0"), on("host1"), on("host2"))])
    assert sorted(f.id for f in result.findings) == ["host/a", "host/a#2", "host/a#3"]
    assert {f.check for f in result.findings} == {"host/a"}


def test_a_finding_follows_from_one_that_touches_the_same_node() -> None:
    result = judge(
        CLUSTER, [check("host/a", on("host1")), check("gloo/b", on("host0"), on("host1"), follows=("host/*",))]
    )
    assert ids(result) == [("host/a", None), ("gloo/b", None), ("gloo/b#2", "host/a")]


def test_a_link_touches_both_its_ends() -> None:
    links = Finding("seen.", nodes=("host2",), links=(("host0", "host1"),))
    result = judge(CLUSTER, [check("host/a", on("host0")), check("mesh/b", links, follows=("host/a",))])
    assert ids(result) == [("host/a", None), ("mesh/b", "host/a")]


def test_anywhere_needs_no_common_node() -> None:
    result = judge(CLUSTER, [check("host/a", on("host0")), check("store/b", on("host2"), anywhere=("host/a",))])
    assert ids(result) == [("host/a", None), ("store/b", "host/a")]


def test_what_follows_from_a_consequence_is_told_with_its_root() -> None:
    result = judge(
        CLUSTER,
        [
            check("environment/a", on("host0")),
            check("network/b", on("host0"), follows=("environment/a",)),
            check("store/c", on("host0"), follows=("network/b",)),
        ],
    )
    assert ids(result) == [("environment/a", None), ("network/b", "environment/a"), ("store/c", "environment/a")]


def test_a_failure_does_not_follow_from_a_warning() -> None:
    """Folded under a warning it would leave the verdict at warn."""
    result = judge(
        CLUSTER, [check("host/a", on("host0"), severity="warn"), check("gloo/b", on("host0"), follows=("host/a",))]
    )
    assert ids(result) == [("gloo/b", None), ("host/a", None)]
    assert result.verdict == "fail"


def test_a_warning_follows_from_a_failure() -> None:
    result = judge(
        CLUSTER, [check("gloo/a", on("host0")), check("host/b", on("host0"), severity="warn", follows=("gloo/a",))]
    )
    assert ids(result) == [("gloo/a", None), ("host/b", "gloo/a")]


def test_a_finding_may_name_its_own_cause() -> None:
    """And then it is not the cause of that one, whatever the checks declare."""
    refused = check("network/refused", on("host1", because_of="store/missing"))
    missing = check("store/missing", on("host1"), anywhere=("network/refused",))
    assert ids(judge(CLUSTER, [refused, missing])) == [("store/missing", None), ("network/refused", "store/missing")]
    proven = check("network/refused", on("host1"))
    assert ids(judge(CLUSTER, [proven, missing])) == [("network/refused", None), ("store/missing", "network/refused")]


def test_a_cause_that_was_not_found_leaves_a_root() -> None:
    assert ids(judge(CLUSTER, [check("network/a", on("host0", because_of="store/missing"))])) == [("network/a", None)]


def test_two_that_name_each_other_are_not_lost() -> None:
    result = judge(
        CLUSTER, [check("host/a", on("host0"), follows=("host/b",)), check("host/b", on("host0"), follows=("host/a",))]
    )
    assert any(f.because_of is None for f in result.findings)
    assert len(result.findings) == 2


def test_roots_come_first_by_gravity_then_by_the_ladder() -> None:
    result = judge(
        CLUSTER,
        [
            check("barrier/a", on("host0")),
            check("environment/b", on("host0"), severity="warn"),
            check("network/c", on("host1")),
            check("store/d", on("host1"), follows=("network/c",)),
            check("host/e", on("host1"), severity="info"),
        ],
    )
    assert [f.id for f in result.findings] == ["network/c", "barrier/a", "environment/b", "host/e", "store/d"]
    assert [f.id for f in result.roots] == ["network/c", "barrier/a", "environment/b", "host/e"]


@pytest.mark.parametrize(
    ("checks", "verdict"),
    [
        ([], "pass"),
        ([check("host/a", on("host0"), severity="info")], "pass"),
        ([check("host/a", on("host0"), severity="warn")], "warn"),
        ([check("host/a", on("host0"))], "fail"),
        ([missing(on("host2"))], "incomplete"),
        ([missing(on("host2")), check("host/a", on("host0"), severity="warn")], "incomplete"),
        ([missing(on("host2")), check("host/a", on("host0"))], "fail"),
        ([check("host/a", on("host0")), missing(on("host2"), anywhere=("host/a",))], "fail"),
    ],
)
def test_verdict(checks: list[Check], verdict: str) -> None:
    assert judge(CLUSTER, checks).verdict == verdict


def test_a_check_that_raises_is_a_result() -> None:
    def broken(cluster: Cluster) -> Iterator[Finding]:
        yield on("host0")
        raise KeyError("x")

    bad = Check("host/bad", "Bad", "page", "fail", broken, Path("x.py"))
    result = judge(CLUSTER, [bad, check("host/good", on("host0"), severity="warn")])
    assert result.broken == ("host/bad: KeyError: 'x'",)
    assert "host/good" in {f.id for f in result.findings}
    assert judge(CLUSTER, [Check("host/bad", "Bad", "page", "fail", at_once, Path("x.py"))]).verdict == "incomplete"


def at_once(cluster: Cluster) -> Iterable[Finding]:
    """A check that raises before it has found anything."""
    raise ZeroDivisionError


def test_ignored_findings_are_set_aside_and_listed() -> None:
    checks = [check("host/a", on("host0")), check("gloo/b", on("host1"), severity="warn")]
    result = judge(CLUSTER, checks, ignore=["host/*"])
    assert [f.check for f in result.ignored] == ["host/a"]
    assert [f.id for f in result.findings] == ["gloo/b"]
    assert result.verdict == "warn"


def test_a_backend_that_is_not_planned_only_warns() -> None:
    facts = [with_plan(loopback_name(one), backend="nccl") for one in healthy(2)]
    result = judge(build(facts), [check("gloo/a", on("host0"))])
    assert [f.severity for f in result.findings] == ["warn"]


def test_trials_mark_the_fixes_that_were_tried() -> None:
    tried = Fix("set", ("host0",), env={"A": "b"})
    other = Fix("edit", ("host0",), 2, commands=("x",))
    finding = Finding("seen.", nodes=("host0",), fixes=(tried, other))
    facts = list(healthy(2))
    for passed in (True, False):
        trial = Trial("gloo/a", 1, {"host0": {"A": "b"}}, ("gloo", "barrier"), passed)
        cluster = build([replace(facts[0], trials=(trial,)), facts[1]])
        (found,) = judge(cluster, [check("gloo/a", finding)]).findings
        assert [fix.verified for fix in found.fixes] == [passed, None]


def test_the_same_facts_give_the_same_findings_in_any_order() -> None:
    facts = [loopback_name(one) for one in healthy(3)]
    expected = judge(build(facts), CHECKS)
    assert judge(build(facts[::-1]), CHECKS) == expected
    assert judge(build([facts[1], facts[2], facts[0]]), CHECKS) == expected


def test_worst_is_the_gravest() -> None:
    checks = [check("host/a", on("host0"), severity="info"), check("host/b", on("host0"), severity="warn")]
    assert judge(CLUSTER, checks).worst() == "warn"
    assert judge(CLUSTER, []).worst() is None
