"""Each failure is known by the lines that are written of it; what only shows that something failed is not blamed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from zlib import crc32

import pytest

from distdoctor.judge.catalog import hazard
from tests.facts_builder import CHECKS
from tests.logs.judging import LOGS, judged
from tests.logs.wordings import CAUSES, HEALTHY, HINTS, SYMPTOMS

OUTSIDE = (
    "15 death signal",
    "SIGTERMException",
    "got signal: 15",
    "tasks 0-7: Killed",
    "ignal 9",
    "SIGNAL: 9",
    "SIGKILL",
)
"""Who was ended from outside after something had failed was ended because of it."""
ANOTHER_JOB = " NODE_FAIL "
"""Of SLURM's states that of the last job counts, and among the symptoms there are those of others."""
UNASKED = "ImportError: libcudnn.so.9: cannot open"
"""A cause where nothing says who asked for that library: behind a program's frame, as some symptoms are, it is none."""


def some(rows: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    """A third of them, always the same ones: by the line, not by how many stand before it."""
    return [(check, line) for check, line in rows if crc32(line.encode()) % 3 == 0]


@pytest.mark.parametrize(("check", "line"), CAUSES, ids=[check for check, _ in CAUSES])
def test_a_line_that_proves_it(tmp_path: Path, check: str, line: str) -> None:
    found = judged(tmp_path, f"starting\n{line}\n")
    roots = [finding.check for finding in found.findings if finding.because_of is None]
    assert roots == [check]
    assert found.verdict in ("fail", "incomplete") and not found.candidates
    assert any("part0.log:2" in text for text in found.findings[0].evidence)


@pytest.mark.parametrize("prefix", ["[rank3]: ", "[default3]:", "3: ", "\x1b[31m", "2024-01-01 10:00:00,123 - ", "| "])
@pytest.mark.parametrize(("check", "line"), CAUSES[::4], ids=[check for check, _ in CAUSES[::4]])
def test_behind_any_prefix(tmp_path: Path, check: str, line: str, prefix: str) -> None:
    found = judged(tmp_path, f"{prefix}starting\r\n{prefix}{line}\r\n")
    assert [finding.check for finding in found.findings if finding.because_of is None] == [check]
    told = re.search(r"\branks?\W{0,3}\d|\[\d", line, re.I)  # the line itself names one
    of_peer = any(one.of_peer and re.search(one.pattern, line) for one in LOGS[check])
    if prefix == "[rank3]: " and not told and not of_peer:
        assert found.findings[0].ranks == (3,)


@pytest.mark.parametrize(("check", "line"), SYMPTOMS, ids=[check for check, _ in SYMPTOMS])
def test_a_line_that_proves_nothing(tmp_path: Path, check: str, line: str) -> None:
    found = judged(tmp_path, f"starting\n{line}\n")
    proved = [finding.check for finding in found.findings]
    assert not proved, f"a Line of {proved} takes it for a cause: give it shows='symptom', or move the row to CAUSES"
    assert found.candidates, f"no Line matches it as a symptom: give that of {check} shows='symptom', and its literal"
    assert found.verdict == "incomplete"
    assert check in [candidate.check for candidate in found.candidates]
    assert all(candidate.next for candidate in found.candidates)


@pytest.mark.parametrize(("check", "line"), HINTS, ids=[check for check, _ in HINTS])
def test_a_line_that_hints_at_it(tmp_path: Path, check: str, line: str) -> None:
    """Alone it is nothing; beside a line of something that failed it names its check as a candidate."""
    alone = judged(tmp_path, f"starting\n{line}\n")
    assert not alone.findings and check not in [candidate.check for candidate in alone.candidates]
    failing = next(line for other, line in SYMPTOMS if other == "collective/rank-missing")
    beside = judged(tmp_path, f"starting\n{line}\n{failing}\n")
    assert check in [candidate.check for candidate in beside.candidates]


@pytest.mark.parametrize("line", HEALTHY)
def test_a_line_of_a_run_that_works(tmp_path: Path, line: str) -> None:
    found = judged(tmp_path, f"starting\n{line}\n")
    assert not found.findings and not found.candidates


@pytest.mark.parametrize(
    "line",
    [
        "torch.distributed.DistNetworkError: The client socket has timed out after 300000ms while trying to connect to "
        "(036c56dce41b, 41331).",
        "torch.distributed.DistStoreError: Timed out after 901 seconds waiting for clients. 1/2 clients joined.",
    ],
)
def test_who_was_never_there_has_not_died(tmp_path: Path, line: str) -> None:
    found = judged(tmp_path, f"starting\n{line}\n")
    assert found.candidates and "process/peer-died" not in [candidate.check for candidate in found.candidates]


@pytest.mark.parametrize(
    ("check", "line"),
    [row for row in some(CAUSES) if not any(words in row[1] for words in (*OUTSIDE, ANOTHER_JOB, UNASKED))],
    ids=lambda text: text if "/" in text and " " not in text else "",
)
def test_no_symptom_wins_over_a_cause(tmp_path: Path, check: str, line: str) -> None:
    before = [f"{symptom}\n" for _, symptom in SYMPTOMS]
    after = before[len(line) % 3 :: 3]  # each stands behind some
    found = judged(tmp_path, f"{''.join(before)}{line}\n{''.join(after)}")
    assert [finding.check for finding in found.findings if finding.because_of is None] == [check]


@pytest.mark.parametrize("check", [check for check in CHECKS if check.log], ids=lambda check: check.id)
def test_no_expression_can_blow_up(check: object) -> None:
    for line in LOGS[check.id]:  # type: ignore[attr-defined]
        assert not hazard(line.pattern) and not hazard(line.unless)


def test_what_would_blow_up_is_refused() -> None:
    assert hazard(r"(a+)+b") and hazard(r"(?:x*y*)*") and hazard("(")
    assert not hazard(r"a.{0,400}b.*c") and not hazard(r"(?:\w+\.){0,8}x")
