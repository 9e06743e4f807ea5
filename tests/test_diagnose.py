"""Judging saved facts."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.judge.saved import diagnose
from distdoctor.model.facts import FactsFile, NodeFacts, encode
from distdoctor.model.facts.files import BadFile, read
from tests.facts_builder import CHECKS, healthy, judged, loopback_name, node, with_meeting


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
    assert report.notes == ("what host1 (pid 1) saw in an earlier run is left out",)


def test_nodes_on_one_host_are_not_earlier_runs_of_each_other() -> None:
    """Node 0 waited 50 s for the other, which was started in another terminal."""
    facts = [
        replace(node("h", n, ip="127.0.0.1", master="127.0.0.1", netns="n", pid=n), started_at=1e9) for n in (0, 1)
    ]
    first, second = with_meeting(facts[0], waited=51.0), replace(facts[1], started_at=1e9 + 50)
    report = diagnose([first, second], CHECKS)
    assert (len(report.nodes), report.notes) == (2, ())


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
