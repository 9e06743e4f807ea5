"""A rank that failed for want of a processor is told from one that failed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distdoctor.model.facts import RankStage
from distdoctor.probes.host.proc import waited
from distdoctor.ranks import calls
from distdoctor.ranks.calls import RankCalls
from distdoctor.ranks.supervisor import Child

SECONDS = 0.2


def test_who_shares_a_processor_waits_for_it() -> None:
    core = str(min(os.sched_getaffinity(0)))
    spin = ["taskset", "-c", core, sys.executable, "-c", "while True: pass"]
    sharing = [subprocess.Popen(spin) for _ in range(2)]
    try:
        end = time.monotonic() + 30
        while min(waited(one.pid) for one in sharing) < 0.2 and time.monotonic() < end:
            time.sleep(0.1)
        assert all(waited(one.pid) >= 0.2 for one in sharing)
    finally:
        for one in sharing:
            one.kill()
            one.wait()
    assert waited(sharing[0].pid) == 0.0


def never_returns(monkeypatch: pytest.MonkeyPatch, kept: float, *, aborted: bool = False) -> RankStage:
    """Return how the stage ends for a rank that does not return, and waited so much of the stage for a processor."""
    began = time.monotonic()
    monkeypatch.setattr(calls, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "waited", lambda _pid: 100 + kept * (time.monotonic() - began))

    async def call(_op: str, **_arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def run() -> dict[int, RankStage]:
        child = SimpleNamespace(pid=os.getpid(), call=call, kill=lambda: None)
        abort = asyncio.Event()
        if aborted:
            abort.set()
        ended = RankCalls(
            "collective", [cast(Child, child)], 30.0 if aborted else SECONDS, abort, lambda: asyncio.sleep(0)
        )
        return await ended.run(lambda _place: {})

    return asyncio.run(run())[0]


def test_a_rank_that_had_no_processor_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = never_returns(monkeypatch, 0.9)
    assert entry.detail["starved"] >= 0.1 and "kept waiting for a processor" in (entry.error or "")


def test_a_rank_that_waited_for_another_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = never_returns(monkeypatch, 0.2)
    assert "starved" not in entry.detail and "it did not return" in (entry.error or "")


def test_a_stage_that_ended_early_says_nothing_of_processors(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = never_returns(monkeypatch, 0.9, aborted=True)
    assert "starved" not in entry.detail and "another rank failed" in (entry.error or "")


def test_what_a_limit_of_the_control_group_keeps_it_waiting_counts_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel of Linux 6.18 does not count it for the thread."""
    began = time.monotonic()
    monkeypatch.setattr(calls, "throttled_seconds", lambda: 7 + 0.9 * (time.monotonic() - began))
    entry = never_returns(monkeypatch, 0.0)
    assert entry.detail["starved"] >= 0.1 and "kept waiting for a processor" in (entry.error or "")


def connecting(
    monkeypatch: pytest.MonkeyPatch, op: str, again: int, deaf: str | None = None, limited: tuple[str, ...] = ()
) -> tuple[RankStage, float]:
    """Return how a stage of 2 s ends for a rank whose connection was asked for ``again`` so often, and after how long,
    on a host whose ports at ``deaf`` get no answer and where ``limited`` lets in only so many connections in a time."""
    monkeypatch.setattr(calls, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.05)
    monkeypatch.setattr(calls, "SILENT", ((0.1, 5), (0.8, 3)))
    monkeypatch.setattr(calls, "SILENT_HERE", (0.4, 1))
    monkeypatch.setattr(calls, "waited", lambda _pid: 0.0)
    monkeypatch.setattr(calls, "unanswered", lambda _pid: [("10.77.0.10", 40123, again)])
    told: list[float] = []

    async def call(_op: str, **_arguments: Any) -> dict[str, Any]:
        await asyncio.sleep(60)
        return {}

    async def trouble() -> None:
        told.append(time.monotonic())

    async def run() -> dict[int, RankStage]:
        child = SimpleNamespace(pid=os.getpid(), call=call, kill=lambda: None)
        all_of_them = RankCalls(op, [cast(Child, child)], 2.0, asyncio.Event(), trouble, deaf, limited)
        return await all_of_them.run(lambda _place: {})

    began = time.monotonic()
    entry = asyncio.run(run())[0]
    assert len(told) == ("no answer" in (entry.error or ""))
    return entry, time.monotonic() - began


@pytest.mark.parametrize(("again", "least"), [(3, 0.8), (4, 0.8), (5, 0.1)])
def test_gloo_ends_once_a_connection_has_had_no_answer_for_long(
    monkeypatch: pytest.MonkeyPatch, again: int, least: float
) -> None:
    entry, seconds = connecting(monkeypatch, "gloo", again)
    assert "it did not return: no answer from remote=[10.77.0.10]:40123" in (entry.error or "")
    assert least <= seconds


@pytest.mark.perf
def test_gloo_ends_the_sooner_the_more_often_it_had_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, *ended = (connecting(monkeypatch, "gloo", again)[1] for again in (2, 3, 4, 5))
    assert ended[0] < 0.8 * waited and ended[1] < 0.8 * waited and ended[2] < 0.4 * waited


@pytest.mark.parametrize(("op", "again"), [("gloo", 2), ("store", 5)])
def test_a_connection_that_may_still_be_answered_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, op: str, again: int
) -> None:
    entry, seconds = connecting(monkeypatch, op, again)
    assert "no answer" not in (entry.error or "") and seconds >= 2


def test_a_connection_within_a_host_that_does_not_reach_itself_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    entry, seconds = connecting(monkeypatch, "gloo", 1, "10.77.0.10")
    assert "no answer from remote=[10.77.0.10]:40123" in (entry.error or "") and seconds >= 0.4


@pytest.mark.perf
def test_a_connection_within_a_host_is_given_up_before_the_stage_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    waited, ended = (connecting(monkeypatch, "gloo", again, "10.77.0.10")[1] for again in (0, 1))
    assert ended < 0.4 * waited


@pytest.mark.parametrize(("again", "deaf"), [(1, "10.77.0.11"), (0, "10.77.0.10")])
def test_another_host_may_answer_later_and_so_may_what_was_asked_once(
    monkeypatch: pytest.MonkeyPatch, again: int, deaf: str
) -> None:
    entry, seconds = connecting(monkeypatch, "gloo", again, deaf)
    assert "no answer" not in (entry.error or "") and seconds >= 2


def stopped_meanwhile(monkeypatch: pytest.MonkeyPatch, answers: bool) -> RankStage:
    """Return how the stage ends for a rank where the doctor itself does not run while it is over."""
    monkeypatch.setattr(calls, "LATE_SECONDS", 0.0)
    monkeypatch.setattr(calls, "GRACE_SECONDS", 0.3)
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.1)

    async def call(_op: str, **_arguments: Any) -> dict[str, Any]:
        time.sleep(SECONDS + 0.5)  # nothing else runs in this process: it is stopped
        await asyncio.sleep(0.05 if answers else 60)
        return {"ok": True}

    async def run() -> dict[int, RankStage]:
        child = SimpleNamespace(pid=os.getpid(), call=call, kill=lambda: None)
        ended = RankCalls("store", [cast(Child, child)], SECONDS, asyncio.Event(), lambda: asyncio.sleep(0))
        return await ended.run(lambda _place: {})

    return asyncio.run(run())[0]


def test_a_doctor_that_was_stopped_itself_reads_what_its_ranks_answered_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert stopped_meanwhile(monkeypatch, answers=True).status == "ok"
    entry = stopped_meanwhile(monkeypatch, answers=False)
    assert entry.detail["starved"] >= 0.4 and "did not run itself" in (entry.error or "")


@pytest.mark.parametrize(("limited", "waits"), [(("10.77.0.10",), True), (("10.77.0.11",), False)])
def test_gloo_waits_for_an_address_that_lets_in_only_so_many_connections_in_a_time(
    monkeypatch: pytest.MonkeyPatch, limited: tuple[str, ...], waits: bool
) -> None:
    entry, seconds = connecting(monkeypatch, "gloo", 7, limited=limited)
    assert ("no answer" in (entry.error or "")) != waits
    assert (seconds >= 2.0) == waits
