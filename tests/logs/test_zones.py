"""Logs of nodes whose clocks are of other zones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, raised


def node(day: str, hour: int, zone: str, rank: int, second: int, error: str) -> str:
    steps = "".join(
        f"{day}T{hour:02d}:00:{number:02d}.000000{zone} step {number} loss 2.{number}\n" for number in range(4)
    )
    text = raised(f"[rank{rank}]: ", error).splitlines()
    return steps + "".join(
        f"{day}T{hour:02d}:{second // 60:02d}:{second % 60:02d}.000000{zone} {line}\n" for line in text
    )


@pytest.mark.parametrize(("hour", "zone", "day"), [(11, "+01:00", "02"), (3, "-07:00", "02"), (1, "+15:00", "03")])
def test_who_failed_first_by_clocks_of_two_zones(tmp_path: Path, hour: int, zone: str, day: str) -> None:
    first = node(f"2026-03-{day}", hour, zone, 9, 5, "KeyError: 'lm_head'")
    other = node("2026-03-02", 10, "Z", 3, 7, "QueueError: the other stage is gone")
    assert judged(tmp_path, other, first).findings[0].ranks == (9,)
    (tmp_path / "turned").mkdir()
    assert judged(tmp_path / "turned", first, other).findings[0].ranks == (9,)


def test_a_log_whose_beginning_is_lost_is_of_the_same_zone(tmp_path: Path) -> None:
    """What it tells is as late as it says."""
    late = node("2026-03-02", 11, "Z", 9, 5, "KeyError: 'lm_head'")
    other = node("2026-03-02", 10, "Z", 3, 3500, "QueueError: the other stage is gone")
    assert judged(tmp_path, other, late).findings[0].ranks == (3,)
