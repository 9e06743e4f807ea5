"""Tests of what follows from what, by the milestones that checks declare; and a site's own checks among ours."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.cli.app import run
from distdoctor.judge.catalog import BadCheck, Check, load
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import NodeFacts
from distdoctor.model.facts.files import write
from distdoctor.model.findings import Finding, Severity
from tests.facts_builder import healthy, waited_in_vain
from tests.judge.test_catalog import PAGE

CLUSTER = build(healthy(3))


def check(
    check_id: str,
    *findings: Finding,
    prevents: str = "",
    symptom_of: str = "",
    follows: tuple[str, ...] = (),
    anywhere: tuple[str, ...] = (),
    severity: Severity = "fail",
) -> Check:
    """A check that finds just these."""

    def given(cluster: Cluster) -> Iterable[Finding]:
        return findings

    return Check(
        check_id,
        check_id,
        "page",
        severity,
        given,
        Path("x.py"),
        follows,
        anywhere,
        prevents=prevents,
        symptom_of=symptom_of,
    )


def on(*nodes: str, because_of: str | None = None) -> Finding:
    return Finding("seen.", nodes=nodes, because_of=because_of)


def causes(*checks: Check, ignore: tuple[str, ...] = ()) -> dict[str, str | None]:
    return {f.id: f.because_of for f in judge(CLUSTER, checks, ignore).findings}


def test_a_symptom_follows_from_what_prevents_its_milestone_or_one_before_it() -> None:
    symptom = check("store/s", on("host1"), prevents="all met", symptom_of="all met")
    for milestone in ("plan agreed", "store hosted", "all met"):
        assert causes(check("host/a", on("host0"), prevents=milestone), symptom)["store/s"] == "host/a"
    for milestone in ("store used", "results right", ""):
        assert causes(check("host/a", on("host0"), prevents=milestone), symptom)["store/s"] is None


def test_a_failure_of_its_own_follows_from_nothing() -> None:
    own = check("mesh/a", on("host0"), prevents="peers connected")
    assert causes(check("host/a", on("host0"), prevents="plan agreed"), own) == {"host/a": None, "mesh/a": None}


def test_a_nodes_own_way_keeps_no_other_node_from_meeting() -> None:
    way = check("network/w", on("host1"), prevents="store reached")
    missing = check("store/s", on("host1"), on("host2"), prevents="all met", symptom_of="all met")
    assert causes(way, missing) == {"network/w": None, "store/s": "network/w", "store/s#2": None}


def test_nor_is_what_another_node_lacks_why_a_node_misses_its_own_way() -> None:
    sure = replace(on("host1"), links=(("host1", "host0"),))
    for finding, cause in (
        (sure, None),
        (replace(sure, blame="one-of"), "host/a"),
        (replace(sure, nodes=()), "host/a"),
    ):
        way = check("network/w", finding, prevents="store reached", symptom_of="master resolved")
        assert causes(check("host/a", on("host0"), prevents="plan agreed"), way)["network/w"] == cause


def test_but_all_feel_it_in_what_they_do_together() -> None:
    way = check("network/w", on("host1"), prevents="store reached")
    group = check("gloo/s", on("host2"), prevents="gloo group formed", symptom_of="gloo group formed")
    assert causes(way, group)["gloo/s"] == "network/w"


def test_of_what_keeps_a_node_away_its_own_way_comes_before_what_keeps_all_away() -> None:
    way = check("network/w", on("host1"), prevents="store reached")
    port = check("network/p", on("host0", "host1"), prevents="store hosted")
    missing = check("store/s", on("host1"), prevents="all met", symptom_of="all met")
    assert causes(way, port, missing)["store/s"] == "network/w"


def test_of_what_fails_together_the_last_milestone_missed_is_the_likeliest() -> None:
    port = check("network/p", on("host0"), prevents="store hosted")
    peers = check("mesh/m", on("host0"), prevents="peers connected")
    group = check("gloo/s", on("host0"), prevents="gloo group formed", symptom_of="gloo group formed")
    assert causes(port, peers, group) == {"network/p": None, "mesh/m": None, "gloo/s": "mesh/m"}


def test_two_symptoms_of_one_milestone_are_not_each_others_cause() -> None:
    one = check("store/a", on("host0"), prevents="all met", symptom_of="all met")
    assert causes(one, replace(one, id="store/b")) == {"store/a": None, "store/b": None}
    assert causes(check("store/a", on("host0"), on("host0"), prevents="all met", symptom_of="all met")) == {
        "store/a": None,
        "store/a#2": None,
    }


def test_a_node_that_never_came_is_no_reason_of_a_failure_among_those_who_did() -> None:
    """Or the verdict would be incomplete where something is wrong."""
    missing = replace(check("store/s", on("node2"), prevents="all met", symptom_of="all met"), incomplete=True)
    group = check("gloo/g", on("host0"), prevents="gloo group formed", symptom_of="gloo group formed")
    assert causes(missing, group) == {"store/s": None, "gloo/g": None}
    assert judge(CLUSTER, [missing, group]).verdict == "fail"


def test_an_exception_may_name_a_milestone_and_means_just_that_one() -> None:
    lost = check("store/l", on("host0"), prevents="store used", follows=("store hosted",))
    hosted = check("network/p", on("host0"), prevents="store hosted")
    assert causes(hosted, lost)["store/l"] == "network/p"
    assert causes(replace(hosted, prevents="plan agreed"), lost)["store/l"] is None
    elsewhere = check("network/p", on("host1"), prevents="store hosted")
    assert causes(elsewhere, lost)["store/l"] is None
    assert causes(elsewhere, replace(lost, follows_anywhere=("store hosted",)))["store/l"] == "network/p"


def test_a_finding_may_say_that_a_missed_milestone_is_its_cause() -> None:
    """And is then not the cause of that one."""
    refused = check("network/r", on("host1", because_of="all met"), prevents="store reached")
    missing = check("store/s", on("host1"), prevents="all met", symptom_of="all met")
    assert causes(refused, missing) == {"store/s": None, "network/r": "store/s"}
    assert causes(refused) == {"network/r": None}


def test_an_ignored_finding_is_no_cause() -> None:
    plan = check("environment/p", on("host0"), prevents="plan agreed")
    missing = check("store/s", on("host1"), prevents="all met", symptom_of="all met")
    assert causes(plan, missing)["store/s"] == "environment/p"
    assert causes(plan, missing, ignore=("environment/*",)) == {"store/s": None}


def test_a_failure_does_not_follow_from_a_warning_that_prevents_something() -> None:
    plan = check("environment/p", on("host0"), prevents="plan agreed", severity="warn")
    missing = check("store/s", on("host1"), prevents="all met", symptom_of="all met")
    assert causes(plan, missing)["store/s"] is None


# -- a site's own checks ----------------------------------------------------------------------------------------------

SITE = """
from distdoctor.check_api import Cluster, Finding, Fix, Iterator

SEVERITY = "fail"
{declared}


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if node.facts.variables.get("OUR_SWITCH") == "closed":
            yield Finding("The switch is closed.", nodes=(node.name,), fixes=(Fix("Open it.", (node.name,)),))
"""


def of_a_site(folder: Path, declared: str, name: str = "network/our_switch") -> Path:
    path = folder / f"{name}.py"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(PAGE + SITE.format(declared=declared))
    return folder


def behind_the_switch() -> NodeFacts:
    """Node 0 of two, which waited for the other in vain; its switch is closed."""
    return replace(waited_in_vain(healthy(2)[0]), variables={"OUR_SWITCH": "closed"})


def test_a_sites_check_that_prevents_the_meeting_is_the_root_of_the_nodes_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With no other file that knows of it: from saved facts to the report that diagnose prints."""
    checks, facts = of_a_site(tmp_path / "checks", 'PREVENTS = "all met"'), tmp_path / "host0.json"
    write(facts, behind_the_switch(), leads_node=True)
    assert run(["diagnose", "--json", "--checks", str(checks), str(facts)]) == 1
    document = json.loads(capsys.readouterr().out)
    told = {found["id"]: found["because_of"] for found in document["findings"]}
    assert told == {"network/our-switch": None, "store/nodes-missing": "network/our-switch"}
    assert document["verdict"] == "fail"


def test_one_that_says_nothing_of_it_stands_beside_them(tmp_path: Path) -> None:
    found = judge(build([behind_the_switch()]), load([of_a_site(tmp_path, "")])).roots
    assert {finding.id for finding in found} == {"network/our-switch", "store/nodes-missing"}


@pytest.mark.parametrize("declared", ['FOLLOWS_ANYWHERE = ("store/nodes-missing",)', 'FOLLOWS_ANYWHERE = ["store/*"]'])
def test_one_that_names_what_it_follows_from_still_does(tmp_path: Path, declared: str) -> None:
    """As those that were written for 0.1.0."""
    found = judge(build([behind_the_switch()]), load([of_a_site(tmp_path, declared)])).findings
    assert {f.id: f.because_of for f in found} == {
        "store/nodes-missing": None,
        "network/our-switch": "store/nodes-missing",
    }


def test_one_in_place_of_ours_prevents_the_same(tmp_path: Path) -> None:
    checks = {c.id: c for c in load([of_a_site(tmp_path, "", "store/nodes_missing")])}
    assert (checks["store/nodes-missing"].prevents, checks["store/nodes-missing"].incomplete) == ("all met", True)
    checks = {c.id: c for c in load([of_a_site(tmp_path, 'PREVENTS = "store used"', "store/nodes_missing")])}
    assert (checks["store/nodes-missing"].prevents, checks["store/nodes-missing"].incomplete) == ("store used", False)


@pytest.mark.parametrize("declared", ['PREVENTS = "the meeting"', 'SYMPTOM_OF = "met"', "PREVENTS = 3"])
def test_what_is_no_milestone_is_told(tmp_path: Path, declared: str) -> None:
    with pytest.raises(BadCheck, match=r"is no milestone \(plan agreed, .*all met"):
        load([of_a_site(tmp_path, declared)])
