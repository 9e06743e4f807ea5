"""Held-out logs: each has its answer and its source, none is one that rules were built from, outcomes are classed."""

from __future__ import annotations

import json

import pytest

from scripts.held_out import FOLDER, SECOND, outcome
from tests.logs.test_reports import INDEX

HELD_OUT = json.loads((FOLDER / "index.json").read_text())
KEPT = json.loads((SECOND / "index.json").read_text())
FETCHED = json.loads((SECOND / "fetched.json").read_text())
CAUSE = {"expect": "process/exception", "accept": ["gpu/out-of-memory"], "names": "KeyError"}
OPEN = {"expect": "cannot-tell", "accept": [], "names": ""}
GOOD = {"expect": "none", "accept": [], "names": ""}


def test_every_log_has_its_answer_and_a_source_of_its_own() -> None:
    files = {path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.gz")}
    assert files == {case["file"] for case in HELD_OUT}
    assert len(files) == len(HELD_OUT) >= 120
    assert not {case["source"] for case in HELD_OUT} & {case["source"] for case in INDEX}


def test_the_second_set_shares_no_source() -> None:
    assert {path.relative_to(SECOND).as_posix() for path in SECOND.rglob("*.gz")} == {case["file"] for case in KEPT}
    sources = [case["source"] for case in KEPT + FETCHED]
    assert len(set(sources)) == len(sources) >= 50
    assert not {case["source"] for case in INDEX + HELD_OUT} & set(sources)


@pytest.mark.parametrize(
    ("case", "roots", "verdict", "quoted", "expected"),
    [
        (CAUSE, ["process/exception"], "fail", "KeyError: 3", "right"),
        (CAUSE, ["process/exception"], "fail", "ActorDiedError", "vague"),
        (CAUSE, ["process/crashed", "process/exception"], "fail", "KeyError: 3", "partly"),
        (CAUSE, ["process/crashed"], "fail", "KeyError: 3", "wrong"),
        (CAUSE, [], "incomplete", "", "silent"),
        (OPEN, [], "incomplete", "", "inconclusive"),
        (OPEN, [], "warn", "", "silent"),
        (OPEN, ["process/crashed"], "fail", "", "claimed"),
        (GOOD, [], "warn", "", "right"),
        (GOOD, [], "incomplete", "", "doubted"),
        (GOOD, ["process/crashed"], "fail", "", "claimed"),
    ],
)
def test_outcome(case: dict[str, object], roots: list[str], verdict: str, quoted: str, expected: str) -> None:
    assert outcome(case, roots, verdict, quoted) == expected
