"""The benchmark that others can use: adapters, scores, baselines, and one fault run for real."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from benchmark import lab, reports
from tests.facts_builder import CHECKS
from tests.helpers.namespaces import ROOT
from tests.lab.cases import ALL_CASES
from tests.lab.harness.namespaces import why_not

IDS = {check.id for check in CHECKS}
TABLE = "Root Cause (first observed failure):\n[0]:\n  time      : 1\n  host      : host1\n  rank      : 2"
CASES = {case.name: case for case in ALL_CASES}


def document(*nodes: str) -> str:
    finding = {"check": "gloo/loopback-address", "severity": "fail", "nodes": nodes, "because_of": None}
    return "a line\n" + json.dumps({"verdict": "fail", "findings": [finding]})


@pytest.mark.parametrize(
    ("adapter", "status", "output", "found", "causes", "nodes"),
    [
        ("status", 0, "", False, set(), set()),
        ("status", 1, "", True, set(), set()),
        ("status", None, "", False, set(), set()),
        ("torchrun", 1, TABLE, True, set(), {"host1"}),
        ("json", 1, document("host0", "host1"), True, {"gloo/loopback-address"}, {"host0", "host1"}),
        ("json", 1, "Traceback", False, set(), set()),
    ],
)
def test_an_adapter_reads_an_answer(
    adapter: str, status: int | None, output: str, found: bool, causes: set[str], nodes: set[str]
) -> None:
    answer = lab.ADAPTERS[adapter]([lab.Ended("host0", status, 1.0, output), lab.Ended("host1", 0, 1.0, "")])
    assert (answer.found, set(answer.causes), set(answer.nodes)) == (found, causes, nodes)


def test_only_the_whole_truth_scores() -> None:
    case = CASES["127.0.1.1 on both"]
    for nodes, exact in ((("host0", "host1"), True), (("host0",), False)):
        score = lab.Score(case, lab.from_json([lab.Ended("host0", 1, 1.0, document(*nodes))]), 1.0)
        assert (score.right, score.cause, score.node) == (True, True, exact)
    assert not lab.Score(case, lab.Answer(True), None).right and not lab.Score(case, lab.Answer(False), 1.0).right
    assert (
        not lab.Score(lab.HEALTHY, lab.Answer(True), 1.0).right and lab.Score(lab.HEALTHY, lab.Answer(False), 1).right
    )
    assert set(lab.NINE) <= {case.name for case in lab.chosen(None)}


@pytest.mark.long
def test_a_program_is_started_on_each_host_with_the_launch_flags() -> None:
    if reason := why_not():
        pytest.skip(reason)
    case = CASES["GLOO_SOCKET_IFNAME names no interface"]
    told = "printf '%s ' {flags} ${{GLOO_SOCKET_IFNAME:-none}}; [ -z \"$GLOO_SOCKET_IFNAME\" ]"
    program = lab.Program(f"sh -c '{told}'".replace("'%s '", '"%s "'), "status", 20.0)
    score = program.on(case)
    assert score.right and score.words().startswith("fails")
    outputs = {one.host: one.output for one in program.seen}
    assert set(outputs) == {"host0", "host1"} and "--node-rank 1" in outputs["host1"]
    assert "none" in outputs["host0"] and "none" not in outputs["host1"]


def test_baselines_name_checks_that_exist_and_abstaining_claims_nothing() -> None:
    assert {cause for _, cause in reports.KEYWORDS} <= IDS
    known = reports.labels()
    assert all(label["source"] and label["sure"] and label["decided_by"] for label in known)
    table = reports.scores(known, {})
    assert table["all"].total() == len(known) and table["all"]["wrong"] == 0
    assert table["cannot-tell"]["right"] == table["cannot-tell"].total()


def test_the_scorer_asks_any_program(tmp_path: Path) -> None:
    (tmp_path / "log").write_text("OSError: No space left on device\n")
    code = "import sys; print('it is', 'host/disk-full' if 'No space' in open(sys.argv[1]).read() else 'none')"
    assert reports.asked(f'{sys.executable} -c "{code}" {{file}}', tmp_path / "log") == "host/disk-full"
    label = {"label": "host/disk-full", "also_fair": ["cannot-tell"]}
    answers = ("host/disk-full", "cannot-tell", "none", "gpu/slow")
    assert [reports.outcome(label, one) for one in answers] == ["right", "right", "silent", "wrong"]
    assert reports.keywords((tmp_path / "log").read_text()) == "host/disk-full"


def test_the_datasheet_names_folders_that_exist() -> None:
    text = (ROOT / "benchmark/DATASHEET.md").read_text()
    assert all((ROOT / folder).is_dir() for folder in ("tests/logs/reports", "tests/lab/cases") if folder in text)
