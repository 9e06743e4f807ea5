"""Tests of what is told of NCCL's collectives where one of them goes wrong; the collectives themselves want a GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from distdoctor.ranks import groups

Collective = Callable[[int, int], tuple[Any, Any]]


def right(rank: int, world: int) -> tuple[Any, Any]:
    return torch.ones(4), torch.ones(4)


def wrong(rank: int, world: int) -> tuple[Any, Any]:
    return torch.tensor([1, 7]), torch.tensor([1, 1])


def raises(rank: int, world: int) -> tuple[Any, Any]:
    raise RuntimeError("NCCL Error 2: unhandled system error")


def comparison_of(monkeypatch: pytest.MonkeyPatch, **collectives: Collective) -> dict[str, Any]:
    monkeypatch.setattr(groups, "COLLECTIVES", collectives)
    return groups.compare_nccl_collectives(0, 2)


def test_nothing_is_told_where_all_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    assert comparison_of(monkeypatch, all_reduce=right, all_to_all=right) == {}


def test_which_one_raised_and_which_had_passed(monkeypatch: pytest.MonkeyPatch) -> None:
    found = comparison_of(monkeypatch, all_reduce=right, all_gather=wrong, all_to_all=raises)
    assert found == {
        "ok": False,
        "error": "RuntimeError: all_to_all: NCCL Error 2: unhandled system error",
        "failed": "all_to_all",
        "passed": ["all_reduce"],
    }


def test_where_the_first_raises_it_is_the_group_that_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="NCCL Error 2"):
        comparison_of(monkeypatch, all_reduce=raises, all_to_all=right)


def refused(rank: int, world: int) -> tuple[Any, Any]:
    raise RuntimeError("NCCL Error 7: NCCL operation in progress")


def test_one_that_nccl_is_at_although_torch_refused_it_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    begun = {"all_to_all": "NCCL Error 7: NCCL operation in progress"}
    assert comparison_of(monkeypatch, all_reduce=right, all_to_all=refused) == {
        "begun": begun,
        "passed": ["all_reduce"],
    }
    found = comparison_of(monkeypatch, all_reduce=right, all_gather=wrong, all_to_all=refused)
    assert found["ok"] is False and found["wrong"] == ["all_gather"] and found["begun"] == begun
    assert found["passed"] == ["all_reduce"]


def test_nobody_ends_while_nccl_is_at_one_that_torch_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank that ended there left the others waiting: seen on an H100 with the setting on one of two ranks."""
    called = list[str]()

    def reduces(rank: int, world: int) -> tuple[Any, Any]:
        called.append("all_reduce")
        return right(rank, world)

    def to_all(rank: int, world: int) -> tuple[Any, Any]:
        called.append("all_to_all")
        return refused(rank, world)

    assert comparison_of(monkeypatch, all_reduce=reduces, all_to_all=to_all)["begun"]
    assert called == ["all_reduce", "all_to_all", "all_reduce"]


def test_a_first_one_that_torch_refused_is_the_groups_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(RuntimeError, match="NCCL Error 7"):
        comparison_of(monkeypatch, all_reduce=refused, all_to_all=right)
