"""Of each check: found something, clear, or not judged; a check whose facts were not there is never called clear."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.judge.catalog import BadCheck, load
from distdoctor.judge.engine import OF_CALLS, judge
from distdoctor.judge.report import assemble
from distdoctor.judge.saved import diagnose
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import NodeFacts, StageFacts
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.render import json as as_json
from distdoctor.render.style import Style
from distdoctor.render.text import render
from tests.facts_builder import CHECKS, alone, healthy, loopback_name, met, node, waited_in_vain, with_gpus, with_host
from tests.judge.test_catalog import CODE, PAGE

JUDGED = [check for check in CHECKS if not check.of_logs_alone and check.stage not in OF_CALLS]
"""Those that judge facts of nodes."""
MESH_CHECKS = {check.id for check in JUDGED if check.stage == "mesh"}
CPU = {check.id for check in JUDGED if check.stage in ("gpu", "nccl")}
CLOCKS = {"host/clock-skew", "environment/late-for-rendezvous"}
"""They compare clocks, which facts of no mesh do not."""


def report(*facts: NodeFacts, ignore: Iterable[str] = (), until: str | None = None) -> Report:
    cluster = build(facts)
    return assemble(cluster, judge(cluster, JUDGED, ignore), started_at="", seconds=1.0, until=until)


def statuses(told: Report) -> dict[str, str]:
    return {check.id: check.status for check in told.checks}


def not_judged(told: Report) -> dict[str, str]:
    """Check -> why."""
    return {check.id: check.why for check in told.checks if check.status == "not-judged"}


def up_to(facts: NodeFacts, stage: str) -> NodeFacts:
    """As a run with --until leaves them, at a stage that each node climbs by itself."""
    stages = tuple(s for s in facts.stages if s.stage in ("environment", "host", "gpu", "network"))
    without_torch = replace(facts.identity, torch=None)
    ranks = tuple(replace(rank, stages=(), gpu=None, work=None) for rank in facts.ranks)
    return replace(
        facts, stages=stages, ranks=ranks, meeting=None, mesh=None, identity=without_torch, until=stage, node_rank=None
    )


def test_every_check_is_told_once_in_the_order_of_the_ladder() -> None:
    assert [check.id for check in report(*healthy(2)).checks] == [check.id for check in JUDGED]


def test_a_healthy_job_is_clear_but_for_what_it_does_not_have() -> None:
    told = report(*healthy(2))
    assert set(statuses(told).values()) <= {"clear", "not-judged"}
    never_seen = {"collective/slow-rank", "mesh/slow-link", "mesh/packet-loss", *CLOCKS, *CPU}
    not_in_these_facts = ("host.limits", "host.temporary", "host.folders", "host.build_locks", "host.kernel_log")
    assert set(not_judged(told)) <= never_seen | {
        check.id for check in JUDGED if any(part.startswith(not_in_these_facts) for part in check.looks_at)
    }


def test_with_devices_the_checks_of_devices_are_judged() -> None:
    told = statuses(report(*met(*(with_gpus(node(f"host{n}", n, nproc=8), 8) for n in range(2)))))
    assert told["gpu/fewer-than-ranks"] == told["gpu/shared-device"] == "clear"


def test_what_was_found_is_found_also_where_it_is_ignored() -> None:
    facts = [loopback_name(one) for one in healthy(2)]
    assert statuses(report(*facts))["gloo/loopback-address"] == "found"
    (ignored,) = (c for c in report(*facts, ignore=["gloo/loopback-address"]).checks if c.id == "gloo/loopback-address")
    assert (ignored.status, ignored.why) == ("found", "ignored")


def test_one_node_has_no_links() -> None:
    one = met(node("host0", 0, of=1, ip="127.0.0.1", master="127.0.0.1"))[0]
    skipped = StageFacts("mesh", "skipped", reason="one node: there are no links")
    one = replace(one, mesh=None, stages=tuple(skipped if s.stage == "mesh" else s for s in one.stages))
    why = not_judged(report(one))
    assert {why[check] for check in MESH_CHECKS} == {"one node: there are no links"}
    assert "environment/version-mismatch" not in why and "network/port-in-use" not in why


def test_up_to_a_stage_what_is_seen_above_it_is_not_judged_nor_what_compares_nodes() -> None:
    """Each node is alone then: it sees nothing of the others."""
    why = not_judged(report(up_to(healthy(2)[0], "network"), until="network"))
    assert why["environment/version-mismatch"] and why["mesh/one-way"] == "not reached: mesh"
    assert why["environment/master-mismatch"] == "1 of 2 nodes was seen"
    assert why["network/port-filtered"] == "not reached: store"
    assert why["host/clock-skew"] == "not reached: mesh"
    seen = {check.id for check in JUDGED} - set(why)
    assert "environment/missing-variable" in seen and "host/hostname-loopback" in seen
    assert not seen & {c.id for c in JUDGED if c.stage in ("store", "mesh", "nccl", "barrier", "collective")}


def test_where_a_node_never_came_nothing_is_clear() -> None:
    told = report(waited_in_vain(healthy(2)[0]))
    assert set(statuses(told).values()) == {"found", "not-judged"}
    assert set(not_judged(told).values()) == {"node1 was not seen"}


def test_nothing_is_clear_where_the_facts_of_a_node_are_not_here() -> None:
    told = diagnose(healthy(2)[:1], JUDGED)
    assert "clear" not in statuses(told).values()


def test_a_stage_that_was_cut_short_leaves_its_checks_not_judged() -> None:
    a, b = healthy(2)
    cut = StageFacts("gloo", "error", reason="killed after 20 s")
    b = replace(b, stages=tuple(cut if s.stage == "gloo" else s for s in b.stages))
    assert not_judged(report(a, b))["gloo/init-failed"] == "gloo did not finish on host1"


def test_a_rank_that_did_not_get_there_is_not_passed_over() -> None:
    a, b = healthy(2)
    first, *rest = b.ranks
    b = replace(b, ranks=(replace(first, stages=tuple(s for s in first.stages if s.stage != "collective")), *rest))
    why = not_judged(report(a, b))
    assert why["collective/wrong-result"] == "collective did not record it on host1"


def test_a_part_of_a_probe_that_could_not_be_read_is_not_passed_over() -> None:
    a, b = healthy(2)
    why = not_judged(report(a, with_host(b, gloo=None)))
    assert why["gloo/loopback-address"] == "host did not record it on host1"


def test_a_check_that_crashed_is_not_judged() -> None:
    def broken(cluster: Cluster) -> Iterable[Finding]:
        raise KeyError("x")

    cluster = build(healthy(2))
    told = assemble(cluster, judge(cluster, [replace(JUDGED[0], judge=broken)]), started_at="", seconds=1.0)
    assert [(c.status, c.why) for c in told.checks] == [("not-judged", "the check crashed")]


def test_json_has_them_and_the_page_counts_them() -> None:
    told = report(alone(waited_in_vain(healthy(2)[0])))
    checks = json.loads(as_json.render(told))["checks"]
    assert {"id": "mesh/one-way", "status": "not-judged", "why": "node1 was not seen"} in checks
    assert {"id": "store/nodes-missing", "status": "found", "why": ""} in checks
    page = render(told, Style(verbose=1))
    assert (
        "not judged, node1 was not seen: environment/accelerate-processes, environment/agent-store-hijack"
        in " ".join(page.split())
    )
    assert "looked and found nothing: environment 0 of" in page
    assert "not judged" not in render(told, Style())
    assert len(page.splitlines()) < 60


@pytest.mark.parametrize("words", [("mesh",), ("host.limits", "ranks.gloo"), ("everyone", "ranks.devices", "meeting")])
def test_what_a_check_looks_at_is_known(tmp_path: Path, words: tuple[str, ...]) -> None:
    assert of_a_site(tmp_path, f"LOOKS_AT = {list(words)}") == words


def test_without_a_word_it_is_what_its_stage_sees(tmp_path: Path) -> None:
    assert of_a_site(tmp_path, "") == ("host",)


@pytest.mark.parametrize("words", ['("host.limit",)', '("ranks.golo",)', '("the mesh",)', '"host"', "(1,)", "3"])
def test_what_is_no_part_of_the_facts_is_told(tmp_path: Path, words: str) -> None:
    with pytest.raises(BadCheck, match="LOOKS_AT"):
        of_a_site(tmp_path, f"LOOKS_AT = {words}")


def of_a_site(folder: Path, declared: str) -> tuple[str, ...]:
    (folder / "host").mkdir()
    (folder / "host" / "x.py").write_text(PAGE + declared + CODE)
    (check,) = (check for check in load([folder]) if check.id == "host/x")
    return check.looks_at
