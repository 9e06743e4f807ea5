"""Ranks that wait for a key of the store, for a message of each other, or in the kernel: who holds the others."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import CallArguments, Frame, JobProcess, NodeFacts, ProcessChanges
from tests.hang.job_cases import (
    ALL,
    AT_STORE,
    CALLS_BACK,
    CODE,
    ENDS_CALLS,
    FIFO,
    LOADING,
    READS,
    REDUCE,
    RPC,
    judged,
    local,
    roots,
    warned,
)
from tests.hang.live_facts import call, frames, node, process


def for_key(rank: int) -> JobProcess:
    """A rank in ``store.wait()``."""
    return process(rank, CODE, call="poll", sockets=(AT_STORE,))


def receives(peer: int) -> tuple[Frame, ...]:
    """In a recv() from this rank."""
    inner, *rest = call("recv")
    return (replace(inner, given=CallArguments(peer=peer)), *rest)


@pytest.mark.parametrize(
    ("facts", "check", "ranks"),
    [
        (local(*map(for_key, (0, 1, 2)), process(3, CODE, **FIFO)), "process/waiting-in-user-code", (3,)),
        (local(for_key(0), REDUCE, REDUCE, REDUCE), "process/waiting-in-user-code", (0,)),
        (local(*map(for_key, range(4))), "process/waiting-in-user-code", (0, 1, 2, 3)),
        (local(*map(receives, (1, 2, 1, 0))), "collective/mismatch", (1, 2)),
        (local(*map(receives, (1, 0, 3, 2))), "collective/mismatch", (0, 1, 2, 3)),
    ],
    ids=["one reads before it sets the key", "who sets it is not there", "nobody", "two of four", "two pairs"],
)
def test_who_holds_the_others_is_named(facts: NodeFacts, check: str, ranks: tuple[int, ...]) -> None:
    assert roots(judged(facts)) == [(check, ranks, ("host0",))]


def test_a_key_that_one_who_works_will_set_is_waited_for() -> None:
    report = judged(local(process(0, CODE, call="", moved=READS), *map(for_key, (1, 2, 3))))
    assert (roots(report), warned(report), report.verdict) == ([], [("process/waiting-in-user-code", (0,))], "warn")


def test_a_key_that_one_elsewhere_may_set_is_not_judged_from_here() -> None:
    report = judged(node(for_key(0), for_key(1), stores=(ALL,)))
    assert (roots(report), report.verdict) == ([], "incomplete")
    assert "distdoctor hang on host1" in " ".join(report.notes)


def test_a_result_of_ray_is_what_an_actor_waits_for() -> None:
    """Its other threads hear from Ray now and then, whatever becomes of the task."""
    get = (Frame("Worker.get_objects", "ray/_private/worker.py", 1007), Frame("get", "ray/_private/worker.py", 3009))
    waits = process(0, (*get, *CODE), call="futex", moved=ProcessChanges(1.5, fed=8, stack=False))
    (finding,) = judged(local(waits, REDUCE, REDUCE, REDUCE)).findings
    assert "waits for a result of Ray at " in finding.summary
    assert "`ray list tasks`" in finding.fixes[0].text


def in_kernel(rank: int | None, waits_in: str, **changes: Any) -> JobProcess:
    """A process that the kernel does not let be interrupted."""
    one = process(rank, CODE if rank is not None else (), state="D", call="", **changes)
    assert one.main is not None
    return replace(one, threads=(replace(one.main, waits_in=waits_in), *one.threads[1:]))


STALLED = "host/filesystem-stalled"
ONE_TO_THREE = tuple(process(rank, REDUCE) for rank in (1, 2, 3))
READER = in_kernel(None, "fuse_get_req", pid=300, parent=100, role="loader", idle=60.0, threads=())
COPIES = replace(READER, role="child", name="cp")


@pytest.mark.parametrize(
    ("facts", "check"),
    [
        (local(in_kernel(0, "fuse_get_req", idle=60.0), REDUCE, REDUCE, REDUCE), STALLED),
        (local(in_kernel(0, "mem_cgroup_oom_synchronize", idle=60.0), REDUCE, REDUCE, REDUCE), "host/memory-limit"),
        (local(in_kernel(0, "__mem_cgroup_handle_over_high", idle=60.0), REDUCE, REDUCE, REDUCE), "host/memory-limit"),
        (node(process(0, LOADING, call="poll", idle=1.0), *ONE_TO_THREE, READER, stores=(ALL,)), STALLED),
        (node(process(0, CODE, call="wait4", idle=90.0), *ONE_TO_THREE, COPIES, stores=(ALL,)), STALLED),
    ],
    ids=["a file server", "memory", "memory that is given slowly", "a data worker", "a program of its own"],
)
def test_what_the_kernel_waits_for_is_told_apart(facts: NodeFacts, check: str) -> None:
    assert roots(judged(facts)) == [(check, (0,), ("host0",))]


def test_a_data_worker_that_waits_for_a_disk_for_some_seconds_is_slow() -> None:
    report = judged(
        node(process(0, LOADING, call="poll", idle=1.0), *ONE_TO_THREE, replace(READER, idle=12.0), stores=(ALL,))
    )
    assert (roots(report), report.verdict) == ([], "warn")


@pytest.mark.parametrize(
    ("system", "left", "held"),
    [
        ("openat", None, True),
        ("futex", None, False),
        ("clock_nanosleep", 90_000.0, True),
        ("clock_nanosleep", 5.0, False),
        ("clock_nanosleep", None, False),
    ],
)
def test_what_another_rank_has_called_waits_for_something_of_its_own(
    system: str, left: float | None, held: bool
) -> None:
    """For a pipe, which no other rank is seen to have, or it sleeps for long; in a lock it may wait for what other
    ranks are to call, and in a short sleep, too."""
    *threads, called = CALLS_BACK.threads
    rank = replace(CALLS_BACK, threads=(*threads, replace(called, call=system, left=left)))
    report = judged(local(frames(f"{RPC}api.py:rpc_sync"), ENDS_CALLS, ENDS_CALLS, rank))
    assert roots(report) == ([("process/waiting-in-user-code", (3,), ("host0",))] if held else [])
