"""Tests of what watchdogs of several ranks prove together, and when they prove nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, raised, roots

CAUGHT = (
    "[rank{rank}]:[E816 01:45:40.18 ProcessGroupNCCL.cpp:607] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog "
    "caught collective operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn={size}, "
    "NumelOut={size}, Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n"
)
COUNTS = (
    "[rank{rank}]:[E816 01:45:40.18 ProcessGroupNCCL.cpp:1664] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Exception "
    "(either an error or timeout) detected by watchdog at work: {number}, last enqueued NCCL work: {enqueued}, last "
    "completed NCCL work: 4.\n"
)


def said(rank: int, number: int, enqueued: int, operation: str = "ALLREDUCE", size: int = 1) -> str:
    values = {"rank": rank, "number": number, "enqueued": enqueued, "operation": operation, "size": size}
    return CAUGHT.format(**values) + COUNTS.format(**values)


def test_who_is_stuck_in_what_the_others_have_behind_came_to_no_further_one(tmp_path: Path) -> None:
    """So it was on an H200 where rank 0 alone had called a broadcast: what each waits in is not the same call."""
    found = judged(tmp_path, said(0, 7, 9), said(1, 6, 6), said(2, 7, 8))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert found.candidates[0].check == "collective/mismatch"
    assert "watchdogs: rank 1 waits in number 6, which ranks 0, 2, in number 7, have behind" in found.candidates[0].why


def test_so_it_is_with_one_that_called_further_ones(tmp_path: Path) -> None:
    """As of FSDP jobs that hang when they save: what comes after waits for what is stuck, on the rank where it is."""
    found = judged(tmp_path, said(0, 6, 11, "_REDUCE_SCATTER_BASE"), said(1, 10, 12, "_ALLGATHER_BASE"))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert found.candidates[0].check == "collective/mismatch"
    assert "watchdogs: rank 0 waits in number 6, which rank 1, in number 10, has behind" in found.candidates[0].why


def test_what_a_root_gave_it_has_behind(tmp_path: Path) -> None:
    """Of a broadcast the ranks do not wait for each other."""
    found = judged(tmp_path, said(0, 6, 11, "BROADCAST"), said(1, 10, 12))
    assert "collective/mismatch" not in {one.check for one in found.candidates}


def test_so_it_is_in_a_group_of_some_ranks(tmp_path: Path) -> None:
    found = judged(tmp_path, apart(4, 9, SHARDED, 0), apart(6, 8, SHARDED, 1), apart(0, 3), apart(1, 3))
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert "watchdogs: rank 6 waits in number 8 of group 5feceb66" in found.candidates[0].why


@pytest.mark.parametrize(("operation", "size"), [("BROADCAST", 1), ("ALLREDUCE", 64)])
def test_who_called_something_else_under_the_same_number(tmp_path: Path, operation: str, size: int) -> None:
    texts = [said(0, 7, 9), said(1, 7, 9, operation, size), said(2, 7, 8)]
    assert roots(tmp_path, *texts) == [("collective/mismatch", (1,))]


@pytest.mark.parametrize("operation", ["_ALLGATHER_BASE", "_REDUCE_SCATTER_BASE"])
def test_who_gives_another_size_than_the_others(tmp_path: Path, operation: str) -> None:
    texts = [said(rank, 7, 7, operation, 1000 if rank == 1 else 1024) for rank in range(3)]
    assert roots(tmp_path, *texts) == [("collective/mismatch", (1,))]


@pytest.mark.parametrize(
    "texts",
    [
        [said(0, 7, 9), said(1, 7, 7), said(2, 7, 8)],
        [said(0, 7, 7, "ALLGATHER", 3), said(1, 7, 7, "ALLGATHER", 4)],
        [said(0, 7, 9)],
        [text.replace("0(default_pg)", "1(mesh_tp)") for text in (said(0, 7, 9), said(1, 6, 6))],
        [said(0, 7, 9), said(1, 6, 6).replace("collective operation timeout", "NCCL error: remote process exited")],
        [said(0, 7, 9), said(1, 6, 6, "SEND")],
    ],
    ids=["all wait in one", "sizes that may differ", "one alone", "a part of the ranks", "an error", "point to point"],
)
def test_what_proves_nothing(tmp_path: Path, texts: list[str]) -> None:
    found = judged(tmp_path, *texts)
    assert (found.verdict, found.findings) == ("incomplete", ())


def test_of_whom_nothing_is_here_is_a_candidate(tmp_path: Path) -> None:
    found = judged(tmp_path, *(said(rank, 7, 7) for rank in (0, 1, 3)))
    assert found.verdict == "incomplete"
    (why,) = [one.why for one in found.candidates if one.check == "collective/rank-missing"]
    assert why.endswith("watchdogs: ranks 0, 1, 3 wait in ALLREDUCE number 7; of rank 2 nothing is here")


def test_why_a_rank_is_behind_comes_before_that_it_is(tmp_path: Path) -> None:
    texts = [said(0, 7, 9), said(1, 6, 6) + raised("[rank1]: ", "KeyError: 'lr'"), said(2, 7, 8)]
    assert roots(tmp_path, *texts) == [("process/exception", (1,))]


APART = (  # torch 2.6 and newer: the work without its group, the group after it
    "[rank{rank}]:[E709 17:05:38.1 ProcessGroupNCCL.cpp:632] [Rank {place}] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum={number}, OpType=ALLREDUCE, NumelIn=5, NumelOut=5, Timeout(ms)=600000) ran for 600000 "
    "milliseconds before timing out.\n"
    "[rank{rank}]:[E709 17:05:38.1 ProcessGroupNCCL.cpp:2271] [PG ID 1 PG GUID {group} Rank {place}]  failure detected "
    "by watchdog at work sequence id: {number} PG status: last enqueued work: {number}, last completed work: 3\n"
)
SIGNAL = (
    "[rank{rank}]:[E709 17:05:38.4 ProcessGroupNCCL.cpp:1746] [PG ID 0 PG GUID {group} Rank {rank}] Received a dump "
    "signal due to a collective timeout from  rank 0 and we will try our best to dump the debug info. Last enqueued "
    "NCCL work: {enqueued}, last completed NCCL work: {enqueued}.This is most likely caused by incorrect usages of\n"
)
WORLD, SHARDED = "0(default_pg)", "5feceb66ffc86f38d952786c6d696c79c2dbc239(mesh_fsdp)"


def apart(rank: int, number: int, group: str = WORLD, place: int | None = None) -> str:
    return APART.format(rank=rank, number=number, group=group, place=rank if place is None else place)


def signal(rank: int, enqueued: int, group: str = WORLD) -> str:
    return SIGNAL.format(rank=rank, enqueued=enqueued, group=group)


@pytest.mark.parametrize(
    ("texts", "ranks"),
    [
        ([apart(0, 78), apart(2, 78), signal(1, 77)], (1,)),
        ([apart(0, 78), signal(1, 77), signal(2, 77)], (1, 2)),
        ([apart(0, 78), apart(1, 78), signal(2, 77), signal(0, 78)], (2,)),
        ([apart(0, 1), apart(2, 1), signal(1, -1)], (1,)),
    ],
    ids=["told by the signal", "one alone timed out", "last of three", "the first of all"],
)
def test_who_never_called_what_others_timed_out_in(tmp_path: Path, texts: list[str], ranks: tuple[int, ...]) -> None:
    assert roots(tmp_path, *texts) == [("collective/rank-missing", ranks)]


@pytest.mark.parametrize(
    "texts",
    [
        [signal(0, 77), signal(1, 76)],
        [apart(0, 78), signal(1, 78)],
        [apart(0, 78), signal(1, 12)],
        [apart(0, 78), signal(1, -1)],
        [apart(4, 9, "7(mesh_tp)", 0), apart(6, 8, "7(mesh_tp)", 1)],
        [apart(4, 9, "7", 0), apart(6, 8, "7", 0)],
        [apart(0, 78), signal(1, 77, "3")],
    ],
    ids=["nobody timed out", "all called it", "numbers of sends", "none", "of a mesh", "two groups", "another group"],
)
def test_whose_numbers_prove_nothing(tmp_path: Path, texts: list[str]) -> None:
    found = judged(tmp_path, *texts)
    assert (found.verdict, found.findings) == ("incomplete", ())


def test_something_is_here_of_a_rank_whose_group_is_not_told(tmp_path: Path) -> None:
    """The line that says what timed out names the rank alone (WorkNCCL::logPrefix), and a log may end there."""
    caught = CAUGHT.replace("[PG ID 0 PG GUID 0(default_pg) Rank {rank}]", "[Rank {rank}]")
    cut = caught.format(rank=2, number=7, operation="ALLREDUCE", size=1)
    found = judged(tmp_path, *(said(rank, 7, 7) for rank in (0, 1, 3)), cut)
    assert found.verdict == "incomplete"
    assert not any("nothing is here" in one.why for one in found.candidates)
