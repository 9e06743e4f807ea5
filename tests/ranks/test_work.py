"""Tests of how much work a rank gets done: measured again where it was kept waiting, and the best of it counts."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest

from distdoctor.model.facts import Work
from distdoctor.ranks import groups


def windows(monkeypatch: pytest.MonkeyPatch, *seen: tuple[float, float]) -> list[tuple[float, float]]:
    """Return what the windows measure, one after the other; those still in the list afterwards were not needed."""
    left = list(seen)
    monkeypatch.setattr(groups, "_window", lambda: left.pop(0))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    monkeypatch.setattr(groups, "_quota", lambda: None)
    return left


def test_the_real_thing() -> None:
    seen = msgspec.convert(groups.measure_work(1), Work)
    assert seen.rate > 10 and 0 < seen.cpu <= 1
    assert 1 <= seen.processors <= seen.cores


def test_once_where_the_processor_was_had(monkeypatch: pytest.MonkeyPatch) -> None:
    left = windows(monkeypatch, (9000.0, 0.9), (1.0, 1.0))
    assert groups.measure_work(2)["rate"] == 9000.0 and len(left) == 1


def test_again_while_it_was_taken_away_and_the_best_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    left = windows(monkeypatch, (900.0, 0.1), (700.0, 0.08), (6000.0, 0.7), (1.0, 1.0))
    measured = groups.measure_work(2)
    assert (measured["rate"], measured["cpu"], len(left)) == (6000.0, 0.7, 1)


def test_a_straggler_is_one_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    windows(monkeypatch, *[(300.0, 0.04)] * groups.WINDOWS)
    assert groups.measure_work(2)["rate"] == 300.0


def test_many_ranks_on_few_processors_have_their_fair_share(monkeypatch: pytest.MonkeyPatch) -> None:
    left = windows(monkeypatch, (1500.0, 0.15), (1.0, 1.0))
    assert groups.measure_work(8)["rate"] == 1500.0 and len(left) == 1


@pytest.mark.parametrize(("text", "quota"), [("max 100000", None), ("150000 100000", 1.5), ("nonsense", None)])
def test_the_quota_of_a_container(
    text: str, quota: float | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(f"{text}\n")
    monkeypatch.setattr(groups, "CPU_MAX", tmp_path / "cpu.max")
    assert groups._quota() == quota


def test_no_quota_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(groups, "CPU_MAX", tmp_path / "none")
    assert groups._quota() is None
