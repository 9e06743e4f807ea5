"""Judging saved facts."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts import FactsFile, NodeFacts, encode
from distdoctor.model.facts.files import BadFile, read
from distdoctor.model.plan import PlanProblem
from distdoctor.render.exit_status import exit_status
from distdoctor.render.text import render
from tests.facts_builder import (
    CHECKS,
    healthy,
    judged,
    loopback_name,
    node,
    outside,
    rank_node,
    waited_in_vain,
    with_meeting,
    with_plan,
)


def save(path: Path, *facts: NodeFacts) -> Path:
    path.write_bytes(encode(FactsFile(facts, "0.1.0")))
    return path


def test_one_file_per_node(tmp_path: Path) -> None:
    facts = healthy(2)
    paths = [save(tmp_path / f"{n}.json", one) for n, one in enumerate(facts)]
    assert read(paths) == facts
    assert diagnose(read(paths), CHECKS).verdict == "pass"


def test_a_folder_and_a_node_saved_twice(tmp_path: Path) -> None:
    host0, host1 = healthy(2)
    later = replace(host1, started_at=host1.started_at + 5)
    save(tmp_path / "a.json", host0, host1)
    save(tmp_path / "b.json", later)
    (tmp_path / "notes.txt").write_text("not facts")
    assert read([tmp_path]) == (host0, later)


def test_compressed_files_alone_and_in_a_folder(tmp_path: Path) -> None:
    facts = healthy(2)
    first = tmp_path / "a.json.gz"
    first.write_bytes(gzip.compress(encode(FactsFile(facts[:1], "0.1.0"))))
    assert read([first]) == facts[:1]
    save(tmp_path / "b.json", facts[1])
    assert read([tmp_path]) == facts


def test_the_same_findings_as_live(tmp_path: Path) -> None:
    facts = tuple(loopback_name(one) for one in healthy(2))
    report = diagnose(read([save(tmp_path / "f.json", *facts)]), CHECKS)
    assert report.findings == judged(*facts).findings
    assert report.findings[0].id == "gloo/loopback-address"


def test_ignored(tmp_path: Path) -> None:
    facts = tuple(loopback_name(one) for one in healthy(2))
    report = diagnose(facts, CHECKS, ["gloo/*", "host/*"])
    assert (report.verdict, report.findings) == ("pass", ())
    assert "gloo/loopback-address" in {finding.check for finding in report.ignored}


ABSENT: dict[str, tuple[tuple[NodeFacts, ...], tuple[str, ...], str]] = {
    "of node 0 alone, who met the other": (healthy(2)[:1], ("host1",), "host1"),
    "of the other alone": (healthy(2)[1:], ("node0",), "node0"),
    "of two in the middle": (healthy(4)[1:3], ("node0", "node3"), "node0, node3"),
    "with a warning": ((loopback_name(healthy(2)[1]),), ("node0",), "node0"),
    "of one that was shut out of three": ((outside(healthy(3)[1]),), ("node0", "node2"), "node2"),
    "of two ranks of three": ((rank_node("host0", 0, world=3), rank_node("host2", 2, world=3)), (), "rank 1"),
}


@pytest.mark.parametrize("name", ABSENT)
def test_nodes_whose_facts_are_not_given_are_named_and_it_is_no_pass(name: str) -> None:
    facts, nodes, told = ABSENT[name]
    report = diagnose(facts, CHECKS)
    assert (report.verdict, exit_status(report, "fail")) == ("incomplete", 3)
    assert tuple(node.name for node in report.nodes if not node.arrived) == nodes
    assert report.notes == (f"the facts of {told} are missing; what was seen there is not judged",)


def test_whom_to_ask_for_facts_is_the_next_step() -> None:
    shown = render(diagnose(healthy(2)[1:], CHECKS))
    assert shown.startswith("INCOMPLETE: 1 of 2 nodes checked; missing: node0\n")
    assert shown.splitlines()[-1] == "Next: save the facts of node0 too, then diagnose all of them together."


def test_a_failure_in_the_facts_that_are_here_stays_one() -> None:
    host0, _ = healthy(2)
    report = diagnose([with_plan(host0, problems=(PlanProblem("MASTER_PORT", "x", "is not a whole number"),))], CHECKS)
    assert report.verdict == "fail" and "host1" in report.notes[-1]


def test_of_who_never_came_no_facts_are_missed() -> None:
    report = diagnose([waited_in_vain(healthy(2)[0])], CHECKS)
    assert (report.verdict, report.notes) == ("incomplete", ())
    assert "run this on node1, and here again" in render(report)


def test_facts_of_different_days_are_remarked_on() -> None:
    host0, host1 = healthy(2)
    (note,) = diagnose([replace(host0, started_at=1e9), replace(host1, started_at=1e9 + 7200)], CHECKS).notes
    assert "2 hours apart" in note


def test_an_earlier_run_of_a_host_is_left_out() -> None:
    """Its node rank was not known then, so its file has another name."""
    host0, host1 = (replace(one, started_at=1e9) for one in healthy(2))
    before = replace(host1, identity=replace(host1.identity, pid=1), started_at=1e9 - 60, node_rank=None)
    report = diagnose([host0, before, host1], CHECKS)
    assert (report.verdict, len(report.nodes)) == ("pass", 2)
    assert report.notes == ("facts of an earlier run on host1 (pid 1) are left out",)


def test_nodes_on_one_host_are_not_earlier_runs_of_each_other() -> None:
    """Node 0 waited 50 s for the other, which was started in another terminal."""
    facts = [
        replace(node("h", n, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=n), started_at=1e9) for n in (0, 1)
    ]
    first, second = with_meeting(facts[0], waited=51.0), replace(facts[1], started_at=1e9 + 50)
    report = diagnose([first, second], CHECKS)
    note = "2 nodes on one host: h runs both. No link between hosts was checked."
    assert (len(report.nodes), report.notes) == (2, (note,))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ("", "not a facts file"),
        ("hello", "not a facts file"),
        ("{}", "not a facts file"),
        ('{"facts": [{"identity": 3}], "distdoctor": "1"}', "not a facts file"),
        ('{"facts": [], "distdoctor": "9.9", "schema_version": 99}', "newer distdoctor (9.9)"),
        ("[" * 100_000, "not a facts file"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: str, says: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(content)
    with pytest.raises(BadFile) as caught:
        read([path])
    assert str(caught.value).startswith(str(path))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_facts_at_all(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="No such file"):
        read([tmp_path / "nowhere.json"])
    with pytest.raises(BadFile, match=r"no \*\.json file"):
        read([tmp_path])
    with pytest.raises(BadFile, match="no facts"):
        read([save(tmp_path / "empty.json")])


def test_facts_survive_being_made_pretty(tmp_path: Path) -> None:
    path = save(tmp_path / "f.json", *healthy(2))
    path.write_text(json.dumps(json.loads(path.read_text()), indent=1))
    assert read([path]) == healthy(2)
