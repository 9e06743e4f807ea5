"""The links' timetable: who measures with whom, round by round."""

from __future__ import annotations

import pytest

from distdoctor.mesh.measurement import ALL_PAIRS_UP_TO, rounds


def timetable(count: int) -> list[list[int | None]]:
    """Every node's partners, round by round."""
    return [rounds(range(count), place) for place in range(count)]


@pytest.mark.parametrize("count", [*range(2, 14), ALL_PAIRS_UP_TO - 1, ALL_PAIRS_UP_TO])
def test_everyone_meets_everyone_once(count: int) -> None:
    for place, partners in enumerate(timetable(count)):
        assert sorted(p for p in partners if p is not None) == [p for p in range(count) if p != place]


@pytest.mark.parametrize("count", [*range(2, 14), 31, 32, 33, 34, 45, 100, 101])
def test_the_pairs_of_a_round_are_disjoint(count: int) -> None:
    """A pair is alone with its links: whom a node is with is with that node."""
    table = timetable(count)
    assert len({len(partners) for partners in table}) == 1
    for number in range(len(table[0])):
        for place, partners in enumerate(table):
            partner = partners[number]
            assert partner is None or (partner != place and table[partner][number] == place), (number, place)


@pytest.mark.parametrize("count", [33, 34, 45, 100, 101])
def test_of_many_nodes_each_meets_its_two_neighbours(count: int) -> None:
    for place, partners in enumerate(timetable(count)):
        assert {p for p in partners if p is not None} == {(place - 1) % count, (place + 1) % count}
        assert len(partners) <= 3


def test_the_timetable_speaks_of_member_numbers_not_of_places() -> None:
    assert rounds([7, 3, 9, 4], 0).count(7) == 0
    assert sorted(n for n in rounds([7, 3, 9, 4], 0) if n is not None) == [3, 4, 9]
