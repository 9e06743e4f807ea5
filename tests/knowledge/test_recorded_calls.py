"""Tests of where the flight recorders of a job's ranks part."""

from __future__ import annotations

from distdoctor.knowledge.live.flight_recorder import absent, call_text, differing
from distdoctor.model.facts import RecordedCall, RecorderView, WorkerServer


def recorded(rank: int, *operations: str, done: int | None = None, first: int = 1, group: str = "0") -> WorkerServer:
    """A rank that called these, one after the other, of which the first ``done`` (all but the last) are done."""
    finished = len(operations) - 1 if done is None else done
    calls = tuple(
        RecordedCall(first + place, *operation.partition(" ")[::2], done=place < finished)
        for place, operation in enumerate(operations)
    )
    return WorkerServer(rank, "http://h:1", True, (RecorderView(group, calls),))


def test_a_rank_that_is_behind() -> None:
    servers = [
        recorded(0, "all_reduce", "all_reduce"),
        recorded(1, "all_reduce", done=1),
        recorded(2, "a", "all_reduce"),
    ]
    (one,) = absent(servers)
    assert (one.group, one.call.number, one.call.operation) == ("0", 2, "all_reduce")
    assert (one.absent, one.waiting) == ((1,), (0, 2))
    assert not list(differing(servers))


def test_one_that_never_called_any() -> None:
    servers = [recorded(0, "barrier"), recorded(1)]
    assert [one.absent for one in absent(servers)] == [(1,)]
    assert call_text(servers[1], "0") == "nothing of this group"


def test_one_far_behind_whose_calls_do_not_overlap() -> None:
    servers = [recorded(0, *["all_reduce"] * 8, first=93), recorded(1, *["all_reduce"] * 8, first=40, done=8)]
    (one,) = absent(servers)
    assert (one.absent, one.call.number) == ((1,), 100)


def test_those_who_wait_in_an_earlier_one_are_not_behind() -> None:
    """They enqueue some at once: who has two pending and who has three wait for the same."""
    servers = [recorded(0, "a", "b", "c", done=0), recorded(1, "a", "b", done=0)]
    assert not list(absent(servers))


def test_done_or_all_the_same_tells_nothing() -> None:
    for servers in (
        [recorded(0, "a", "b", done=2), recorded(1, "a", done=1)],
        [recorded(0, "a", "b"), recorded(1, "a", "b")],
        [],
        [WorkerServer(0, "http://h:1", True), recorded(1, "a", "b")],
    ):
        assert not list(absent(servers)) and not list(differing(servers))


def test_another_call_or_another_size_at_one_place() -> None:
    servers = [
        recorded(0, "x", "all_reduce [2]"),
        recorded(1, "x", "broadcast [2]"),
        recorded(2, "x", "all_reduce [2]"),
    ]
    (one,) = differing(servers)
    assert (one.number, sorted(one.others), one.usual.operation) == (2, [1], "all_reduce")
    sizes = [recorded(0, "all_reduce [2]"), recorded(1, "all_reduce [3]"), recorded(2, "all_reduce [2]")]
    assert [sorted(one.others) for one in differing(sizes)] == [[1]]


def test_sizes_that_may_differ() -> None:
    assert not list(differing([recorded(0, "all_gather [2]"), recorded(1, "all_gather [3]")]))


def test_groups_are_looked_at_apart() -> None:
    servers = [recorded(0, "a", "b"), recorded(1, "a", "b"), recorded(2, "a", group="1"), recorded(3, group="1")]
    assert [(one.group, one.absent) for one in absent(servers)] == [("1", (3,))]
