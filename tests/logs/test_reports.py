"""Message lines of public reports: what is said of each, and that nothing is claimed that its lines cannot show.

``reports/index.json`` has for each log, in a line of its own, its source, the check that its lines show (or
``cannot-tell``, or ``none`` for one that shows no failure), and what else would be as fair an answer.
``reports/not_yet.json`` names those that are judged otherwise today, and how: the list may only get shorter. ``cold``,
where it is there, is what was said when the log was first read, before any wording was changed for it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
from tests.facts_builder import CHECKS

FOLDER = Path(__file__).parent / "reports"
INDEX: list[dict[str, Any]] = json.loads((FOLDER / "index.json").read_text())
NOT_YET: dict[str, str] = json.loads((FOLDER / "not_yet.json").read_text())
WORDINGS = {check.id: check.log for check in CHECKS}


def said(file: str, folder: Path = FOLDER) -> str:
    """The roots of severity fail, ``cannot-tell`` where there are only candidates, else ``none``."""
    judged = judge_logs(Collector(WORDINGS).collect([folder / file]).logs, CHECKS)
    roots = sorted({one.check for one in judged.findings if one.severity == "fail" and one.because_of is None})
    return "+".join(roots) or ("cannot-tell" if judged.verdict == "incomplete" else "none")


@pytest.mark.parametrize("case", INDEX, ids=lambda case: case["file"])
def test_what_is_said_of_a_report(case: dict[str, Any]) -> None:
    found, fair = said(case["file"]), (case["expect"], *case["accept"])
    if case["file"] in NOT_YET:
        assert found not in fair, "it is right now: take it out of not_yet.json"
        assert found == NOT_YET[case["file"]]
    else:
        assert found in fair


def cold(split: str) -> tuple[int, int, int]:
    """Of a split: how many were judged as they should be when they were first read, of how many, and how many causes
    were claimed that the log does not show."""
    cases = [case for case in INDEX if case["split"] == split]
    wrong = [case for case in cases if case["cold"] not in (case["expect"], *case["accept"])]
    return len(cases) - len(wrong), len(cases), sum("/" in case["cold"] for case in wrong)


def test_every_log_has_its_source_and_every_source_its_log() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.log")}
    assert files == {case["file"] for case in INDEX} >= NOT_YET.keys()
    assert all(case["source"] for case in INDEX)


@pytest.mark.parametrize("folder", ["reports", "held_out", "held_out_2"])
def test_an_index_has_a_line_for_each_log(folder: str) -> None:
    text = (FOLDER.parent / folder / "index.json").read_text()
    records: list[dict[str, Any]] = json.loads(text)
    assert [json.loads(line.rstrip(",")) for line in text.splitlines()[1:-1]] == records
