"""Ranks that do not make the same process groups: told by what they wait in, and by what they wrote into the store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.knowledge.live.job import live_job
from distdoctor.model.cluster import build
from distdoctor.model.facts import CallArguments, Frame, GroupView, JobProcess, Member, NodeFacts, Socket, StoreView
from tests.hang.job_cases import ALL, FURTHER, REDUCE, judged, local, roots
from tests.hang.live_facts import C10D, call, process

MISMATCH = "collective/mismatch"


def makes(rank: int, name: str, *ranks: int) -> JobProcess:
    """A rank that makes a group of these ranks."""
    inner = replace(FURTHER[0], given=CallArguments(name, ranks))
    return process(rank, (inner, *FURTHER[1:]), call="poll", **listens(rank))


def reduces(rank: int) -> JobProcess:
    """A rank in an all_reduce of all."""
    return process(rank, REDUCE, **listens(rank))


def listens(rank: int) -> dict[str, Any]:
    """Return where a rank listens for its peers, in the first group and in a further one."""
    return {"sockets": (Socket("LISTEN", "10.0.0.1", 4000 + rank), Socket("LISTEN", "10.0.0.1", 5000 + rank))}


def written(name: str, *members: tuple[int, int, int]) -> StoreView:
    """A store in which the members of a further group (rank in it, rank, size that it believes) wrote theirs."""
    found = tuple(Member(of, "host0", "10.0.0.1", 5000 + rank, size) for of, rank, size in members)
    group = GroupView(f"default_pg/0//{name}", joined=tuple(of for of, _, _ in members), members=found)
    return replace(ALL, groups=(*ALL.groups, group))


def whole(*ranks: JobProcess, store: StoreView = ALL) -> NodeFacts:
    """A job of four on one host."""
    facts = local(*ranks)
    return replace(facts, jobs=(replace(facts.jobs[0], stores=(store,)),))


SIZES = written("1", (0, 0, 1), (1, 2, 2))
"""Rank 0 made a mesh of 4 x 1, the others one of 2 x 2."""


@pytest.mark.parametrize(
    ("facts", "blamed", "blame"),
    [
        (whole(reduces(0), makes(1, "3", 0, 1), reduces(2), reduces(3), store=SIZES), (0,), "all"),
        (whole(reduces(0), reduces(1), reduces(2), reduces(3), store=SIZES), (0, 2), "one-of"),
        (whole(makes(0, "3", 0, 1), makes(1, "2", 1, 3), makes(2, "4", 2, 3), reduces(3)), (3,), "all"),
        (whole(makes(0, "1", 0, 1), makes(1, "1", 0, 1), makes(2, "1", 0, 2), reduces(3)), (2,), "all"),
        (whole(makes(0, "2", 0, 1), makes(1, "4", 1, 3), reduces(2), reduces(3)), (1,), "all"),
        (whole(makes(0, "2", 0, 1), makes(1, "4", 1, 3), reduces(2), makes(3, "4", 1, 3)), (0, 1), "one-of"),
    ],
    ids=["another mesh", "by the store alone", "who comes to none of them", "one name", "a later one", "one of two"],
)
def test_who_makes_others_is_named(facts: NodeFacts, blamed: tuple[int, ...], blame: str) -> None:
    report = judged(facts)
    assert roots(report) == [(MISMATCH, blamed, ("host0",))]
    assert [finding.blame for finding in report.findings] == [blame]


def test_who_is_late_for_a_group_is_no_other() -> None:
    """A single rank that waits elsewhere: as many as there are in that place decide, as where no group is seen."""
    assert roots(judged(whole(makes(0, "1", 0, 1), *map(reduces, (1, 2, 3))))) == [(MISMATCH, (0,), ("host0",))]


def test_whose_members_all_make_a_group_wait_for_none_of_the_others() -> None:
    """The store was stopped when they came to it; rank 2 is not of that group, and went on."""
    silent = StoreView("localhost", 29500, state="silent")
    pair = makes(0, "1", 0, 1), makes(1, "1", 0, 1)
    assert not roots(judged(whole(*pair, reduces(2), reduces(3), store=silent)))


def test_it_is_said_whom_a_rank_names() -> None:
    frame = Frame("recv", "torch/distributed/distributed_c10d.py", 1, given=CallArguments(peer=2))
    report = judged(whole(process(0, (frame, *REDUCE[1:])), *map(reduces, (1, 2, 3))))
    assert "rank 0 (pid 100) is in recv at train.py:8 (from rank 2)" in str(report.findings)


def gathers(rank: int, root: int) -> JobProcess:
    """A rank in a gather to this root."""
    frame = Frame("gather", C10D, 1, given=CallArguments(peer=root))
    return process(rank, (frame, *REDUCE[1:]), **listens(rank))


@pytest.mark.parametrize(
    ("roots", "blamed", "blame"),
    [((1, 0, 0, 0), (0,), "all"), ((1, 0, 2, 2), (0, 1), "one-of")],
    ids=["one names another", "each the other"],
)
def test_who_names_another_root(roots: tuple[int, ...], blamed: tuple[int, ...], blame: str) -> None:
    report = judged(whole(*(gathers(rank, root) for rank, root in enumerate(roots))))
    assert [(f.check, f.ranks, f.blame) for f in report.findings] == [(MISMATCH, blamed, blame)]
    assert "as the root" in report.findings[0].summary


def test_groups_of_which_each_has_a_root_of_its_own() -> None:
    assert judged(whole(*(gathers(rank, root) for rank, root in enumerate((0, 0, 2, 2))))).verdict == "incomplete"


def test_who_is_through_is_not_blamed_where_the_others_name_two_roots() -> None:
    """A gather ends for who has sent; or rank 1 left one out of several: neither can be told from the other."""
    report = judged(whole(gathers(0, 0), process(1, call("barrier"), **listens(1)), gathers(2, 1), gathers(3, 0)))
    assert [(f.check, f.ranks, f.blame) for f in report.findings] == [(MISMATCH, (0, 1, 2, 3), "one-of")]


def test_who_has_the_same_address_on_another_host_is_no_member() -> None:
    """As containers have it on each of their hosts."""
    job = live_job(build([whole(*map(reduces, range(4)))]))
    assert job is not None
    found = [job.rank_of(Member(1, host, "10.0.0.1", 4001)) for host in ("host0", "", "host9")]
    assert [rank.number if rank is not None else None for rank in found] == [1, 1, None]
