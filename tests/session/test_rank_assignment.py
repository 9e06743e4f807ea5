"""Numbering: which ranks the processes of each member take."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from distdoctor.session.leader.inbox import Participant
from distdoctor.session.leader.stages import Numbering, assign_ranks
from tests.facts_builder import node


def member(place: int, declared: int | None = None, nproc: int = 2, of: int = 3) -> Participant:
    facts = node(f"host{place}", place, of=of, nproc=nproc)
    return Participant(place, replace(facts, plan=replace(facts.plan, node_rank=declared)), 4000)


def by_rank(place: int, rank: int, of: int) -> Participant:
    facts = node("host0", of=1)
    return Participant(place, replace(facts, plan=replace(facts.plan, started="rank", rank=rank, world_size=of)), None)


def numbered(*members: Participant, own: int = 0) -> Numbering:
    return assign_ranks(members, members[own].facts.plan, members[own])


def test_ranks_are_counted_through_in_the_order_of_the_node_ranks() -> None:
    found = numbered(member(1, 0), member(2, 2), member(3, 1))
    assert found.node_ranks == {"1": 0, "2": 2, "3": 1}
    assert found.ranks == found.group_ranks == {"1": (0, 1), "3": (2, 3), "2": (4, 5)}
    assert found.world == 6


def test_node_0_is_the_one_that_leads_and_the_others_follow_as_they_came() -> None:
    """Node 0 need not be the first to write its hello."""
    found = numbered(member(1), member(2), member(3), own=1)
    assert found.node_ranks == {"2": 0, "1": 1, "3": 2}


def test_declared_node_ranks_stay_and_the_assigned_ones_fill_the_gaps() -> None:
    found = numbered(member(1), member(2, 1), member(3))
    assert found.node_ranks == {"1": 0, "2": 1, "3": 2}


def test_a_missing_node_keeps_its_job_ranks_but_leaves_no_hole_in_the_group() -> None:
    found = numbered(member(1, 0), member(2, 2))
    assert found.ranks == {"1": (0, 1), "2": (4, 5)}
    assert found.group_ranks == {"1": (0, 1), "2": (2, 3)}
    assert found.world == 4


def test_two_nodes_that_both_declare_rank_1_still_get_ranks_of_their_own() -> None:
    found = numbered(member(1, 0), member(2, 1), member(3, 1))
    assert found.node_ranks == {"1": 0, "2": 1, "3": 1}
    assert sorted(rank for ranks in found.ranks.values() for rank in ranks) == [0, 1, 2, 3, 4, 5]


def test_nodes_with_different_numbers_of_ranks() -> None:
    found = numbered(member(1, 0, nproc=3), member(2, 1, nproc=1), member(3, 2, nproc=2))
    assert found.ranks == {"1": (0, 1, 2), "2": (3,), "3": (4, 5)}


def test_a_missing_node_is_given_as_many_ranks_as_node_0_has() -> None:
    found = numbered(member(1, 0, nproc=3), member(2, 2, nproc=1))
    assert found.ranks == {"1": (0, 1, 2), "2": (6,)}


def test_once_per_rank_each_process_has_the_rank_it_was_given() -> None:
    found = numbered(by_rank(1, 3, 4), by_rank(2, 0, 4), by_rank(3, 1, 4), own=1)
    assert found.ranks == {"1": (3,), "2": (0,), "3": (1,)}
    assert found.group_ranks == {"1": (2,), "2": (0,), "3": (1,)}
    assert (found.world, found.node_ranks) == (3, {})


def test_once_per_rank_two_processes_of_one_rank_are_told_apart_in_the_group() -> None:
    found = numbered(by_rank(1, 0, 2), by_rank(2, 0, 2))
    assert found.ranks == {"1": (0,), "2": (0,)}
    assert sorted(found.group_ranks.values()) == [(0,), (1,)]


@given(st.lists(st.tuples(st.one_of(st.none(), st.integers(0, 8)), st.integers(1, 5)), min_size=1, max_size=8))
def test_whatever_is_declared_the_group_is_numbered_from_0_without_holes(
    declared: list[tuple[int | None, int]],
) -> None:
    members = [member(place, rank, nproc) for place, (rank, nproc) in enumerate(declared, 1)]
    found = numbered(*members)
    flat = sorted(rank for ranks in found.group_ranks.values() for rank in ranks)
    assert flat == list(range(found.world)) == list(range(sum(nproc for _, nproc in declared)))
    assert len({rank for ranks in found.ranks.values() for rank in ranks}) == found.world
    assigned = [found.node_ranks[str(m.number)] for m in members if m.facts.plan.node_rank is None]
    taken = {rank for rank, _ in declared if rank is not None}
    assert len(set(assigned)) == len(assigned) and not taken & set(assigned)
