"""Smaller groups: which are tried, and how their ranks are counted."""

from __future__ import annotations

from itertools import combinations

import pytest

from distdoctor.session.group_search import Group, renumbered, rounds
from distdoctor.session.participant import Participant
from distdoctor.session.rank_assignment import Numbering, assign_ranks
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
