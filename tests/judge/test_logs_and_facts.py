"""Facts and logs of one job: one judgement of both."""

from __future__ import annotations

from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import LogJudgement, judge_logs
from distdoctor.judge.saved import diagnose, together
from distdoctor.logs.collect import Collector
from distdoctor.model.facts.files import read
from distdoctor.model.report import Report
from tests.facts_builder import CHECKS

CASES = Path(__file__).resolve().parents[1] / "recorded/cases"
LOGS = {check.id: check.log for check in CHECKS}
LOOPBACK = (
    "gloo.connectFullMesh failed with [/torch/gloo/transport/tcp/pair.cc] connect [127.0.1.1]:3245: Connection refused"
)
CLOSED = (
    "RuntimeError: [/torch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:302"
)


def of_log(judged: LogJudgement) -> Report:
    notes, findings, candidates = judged.notes, judged.findings, judged.candidates
    return Report(
        judged.verdict,
        "0",
        None,
        "",
        0.0,
        {},
        (),
        (),
        findings,
        notes=notes,
        candidates=candidates,
        details={"logs": {}},
    )


def both(path: Path, case: str, text: str) -> Report:
    (path / "x.log").write_text(f"{text}\n")
    judged = judge_logs(Collector(LOGS).collect([path / "x.log"]).logs, CHECKS)
    return together(diagnose(read([CASES / case]), CHECKS), of_log(judged), CHECKS)


def roots(report: Report) -> list[str]:
    return [one.check for one in report.findings if one.because_of is None and one.severity == "fail"]


@pytest.mark.parametrize("text", [LOOPBACK, CLOSED, "step 1"], ids=["the same", "a symptom", "nothing"])
def test_the_facts_say_why(tmp_path: Path, text: str) -> None:
    alone = diagnose(read([CASES / "127-0-1-1-on-both.json.gz"]), CHECKS)
    report = both(tmp_path, "127-0-1-1-on-both.json.gz", text)
    assert (report.verdict, roots(report), report.candidates) == ("fail", roots(alone), ())
    assert [node.name for node in report.nodes][: len(alone.nodes)] == [node.name for node in alone.nodes]


def test_what_both_show_is_one_finding_with_the_lines(tmp_path: Path) -> None:
    report = both(tmp_path, "127-0-1-1-on-both.json.gz", LOOPBACK)
    (root,) = [one for one in report.findings if one.because_of is None and one.severity == "fail"]
    assert any("x.log:1" in line for line in root.evidence) == (root.check == "gloo/loopback-address")


def test_a_cause_of_its_own_stays_one(tmp_path: Path) -> None:
    report = both(tmp_path, "127-0-1-1-on-both.json.gz", "RuntimeError: CUDA out of memory. Tried to allocate 1 GiB")
    assert "gpu/out-of-memory" in roots(report)
