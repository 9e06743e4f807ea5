"""Tests of which of several failures came first, where only the lines above them have a time."""

from __future__ import annotations

from pathlib import Path

from tests.logs.judging import raised, roots

KEY = raised("[rank5]: ", "KeyError: 'pixels'")
LOST = raised("[rank0]: ", "RuntimeError: rank 5 is lost, giving up")


def log(*minutes: int, hour: int = 10) -> str:
    return "".join(f"2026-11-02 {hour:02d}:{minute:02d}:00,000 INFO train: at work\n" for minute in minutes)


def test_the_first_by_the_times_of_the_lines_above(tmp_path: Path) -> None:
    late, early = log(0, 1, 12) + LOST, log(0, 1) + KEY
    assert roots(tmp_path, late, early) == roots(tmp_path, early, late) == [("process/exception", (5,))]


def test_clocks_that_differ_decide_nothing(tmp_path: Path) -> None:
    for other in (log(0, 2) + KEY, log(1, 2, hour=9) + KEY, KEY):  # so near; of another zone; without a time
        assert roots(tmp_path, log(0, 3) + LOST, other) == [("process/exception", (0,))]
