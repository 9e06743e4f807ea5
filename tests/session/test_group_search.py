"""Smaller groups: which are tried, and how their ranks are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations

import pytest

from distdoctor.model.facts import SmallerGroup
from distdoctor.session.leader.inbox import Participant, of_another
from distdoctor.session.leader.stages import Group, Numbering, assign_ranks, renumbered, rounds
from distdoctor.session.stages import ranks as stages_ranks
from tests.facts_builder import node


def nodes(count: int, nproc: int = 2) -> tuple[list[Group], Numbering]:
    members = [Participant(place, node(f"host{place}", place, of=count, nproc=nproc), None) for place in range(count)]
    return [(str(place),) for place in range(count)], assign_ranks(members, members[0].facts.plan, members[0])


@pytest.mark.parametrize("count", [3, 4, 5, 8])
def test_each_alone_and_then_each_pair_once_and_no_node_twice_in_a_round(count: int) -> None:
    groups, numbering = nodes(count)
    alone, *pairs = rounds(groups, numbering)
    assert alone == groups
    assert sorted(tuple(sorted(pair)) for one in pairs for pair in one) == list(
        combinations([name for (name,) in groups], 2)
    )
    for one in pairs:
        members = [name for pair in one for name in pair]
        assert len(members) == len(set(members)) == count - count % 2


def test_one_rank_alone_is_no_group_and_two_nodes_are_the_pair_that_failed() -> None:
    assert list(rounds(*nodes(2, nproc=1))) == []
    assert list(rounds(*nodes(2))) == [[("0",), ("1",)]]
    assert [len(one) for one in rounds(*nodes(3, nproc=1))] == [1, 1, 1]


def test_ranks_are_counted_from_0_in_each_group() -> None:
    _, numbering = nodes(3)
    again = renumbered(numbering, [("2", "1"), ("0",)])
    assert again.group_ranks == {"0": (0, 1), "1": (0, 1), "2": (2, 3)}
    assert again.ranks == numbering.ranks


@pytest.mark.parametrize("ranks", [2, 3, 8])
def test_of_one_node_each_rank_alone_and_then_each_pair(ranks: int) -> None:
    alone, *pairs = stages_ranks.search_rounds(ranks)
    assert alone == [(place,) for place in range(ranks)]
    expected = list(combinations(range(ranks), 2)) if ranks > 2 else []
    assert sorted(tuple(sorted(pair)) for one in pairs for pair in one) == expected


def test_across_two_nodes_each_rank_with_its_place_and_then_with_the_next() -> None:
    assert stages_ranks.across((0, 1, 2), (3, 4, 5), 0) == [(0, 3), (1, 4), (2, 5)]
    assert stages_ranks.across((0, 1, 2), (3, 4, 5), 1) == [(0, 4), (1, 5), (2, 3)]
    assert stages_ranks.across((0, 1), (3,), 1) == [(0, 3)]


def test_another_process_tells_of_groups_of_its_own_ranks_alone() -> None:
    facts = node("host1", 1, of=2)
    own, forged = SmallerGroup((facts.key,), False, "NCCL error", (2,)), SmallerGroup(("other",), False, "x", (0,))
    whole = SmallerGroup((facts.key,), False, "x")
    assert of_another(replace(facts, groups=(own, forged, whole))).groups == (own,)


def searched(ranks: int, fails: Callable[[tuple[int, ...]], bool], seconds: float = 60.0) -> dict[tuple[int, ...], str]:
    async def attempt(groups: Sequence[tuple[int, ...]], number: int, left: float) -> dict[tuple[int, ...], str]:
        return {group: "NCCL error" if fails(group) else "" for group in groups}

    return asyncio.run(stages_ranks.search_devices(ranks, seconds, attempt))


def test_the_search_ends_where_it_is_known_who_it_is() -> None:
    assert {len(group) for group in searched(8, lambda group: group == (3,))} == {1}
    found = searched(8, lambda group: len(group) == 2 and 3 in group)
    assert len(found) == 8 + 2 * 4
    assert [group for group, error in found.items() if error] == [
        group for group in found if 3 in group and len(group) == 2
    ]
    link = searched(8, lambda group: set(group) == {2, 5})
    assert len(link) == 8 + 7 * 4
    assert searched(8, lambda group: False, seconds=1.0) == {}
