"""Held-out logs: each has its answer and its source, none is one that rules were built from, outcomes are classed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.held_out import SETS, outcome
from tests.logs.test_reports import INDEX

KEPT, FETCHED = (
    {folder: json.loads((folder / name).read_text()) for folder in SETS.values()}
    for name in ("index.json", "fetched.json")
)
CAUSE = {"expect": "process/exception", "accept": ["gpu/out-of-memory"], "names": "KeyError"}
OPEN = {"expect": "cannot-tell", "accept": [], "names": ""}
GOOD = {"expect": "none", "accept": [], "names": ""}


@pytest.mark.parametrize("folder", SETS.values(), ids=lambda folder: folder.name)
def test_every_log_has_its_answer(folder: Path) -> None:
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*.gz")}
    assert files == {case["file"] for case in KEPT[folder]}
    assert len(files) == len(KEPT[folder])
    assert all(case["commit"] and ":" in case["source"] for case in FETCHED[folder])


def test_no_log_is_one_of_another_set() -> None:
    logs = [
        (case["source"], str(case.get("range"))) for cases in (KEPT, FETCHED) for one in cases.values() for case in one
    ]
    assert len(set(logs)) == len(logs) >= 235
    assert not {source for source, _ in logs} & {case["source"] for case in INDEX}


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
