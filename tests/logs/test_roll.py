"""Ranks that announce themselves as they start: one twice, another never."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.logs.judging import judged

BARRIER = (
    "RuntimeError: Timed out initializing process group in store based barrier on rank: 1, for key: "
    "store_based_barrier_key:1 (world_size=4, worker_count=2, timeout=0:30:00)\n"
)
ENDED = "`Trainer.fit` stopped: `max_epochs=2` reached.\n"


def announced(ranks: Iterable[int], world: int = 4) -> str:
    return "".join(f"Initializing distributed: GLOBAL_RANK: {rank}, MEMBER: {rank + 1}/{world}\n" for rank in ranks)


def test_ranks_that_started_twice_while_others_never_did(tmp_path: Path) -> None:
    found = judged(tmp_path, announced([0, 1, 0, 1]) + BARRIER)
    candidates = {one.check: one for one in found.candidates}
    assert found.verdict == "incomplete" and {*candidates} == {"environment/duplicate-rank", "store/nodes-missing"}
    why = candidates["environment/duplicate-rank"].why
    assert "ranks 0, 1 of 4 started more than once, ranks 2, 3 never" in why


@pytest.mark.parametrize(
    "texts",
    [
        (announced([0, 1, 2, 3, 0, 1, 2, 3]) + BARRIER,),
        (announced([0, 1]) + BARRIER,),
        (announced([0, 1, 2, 3], 4) + announced([0, 1], 2) + BARRIER,),
        (announced([0, 1]) + BARRIER, announced([0, 1])),
        (announced([0, 1, 0, 1]) + BARRIER, announced([2, 3, 2, 3])),
    ],
    ids=["started again", "two never came", "another job before it", "a copy of the log", "a log for each node"],
)
def test_what_is_no_rank_that_started_twice(tmp_path: Path, texts: tuple[str, ...]) -> None:
    assert [one.check for one in judged(tmp_path, *texts).candidates] == ["store/nodes-missing"]


def test_where_nothing_failed_it_is_not_worth_a_word(tmp_path: Path) -> None:
    found = judged(tmp_path, announced([0, 1, 0, 1]) + ENDED)
    assert (found.verdict, found.candidates) == ("pass", ())
