"""The ranks' part of a stage: one call in every rank's process, and what has not returned in time is ended."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from distdoctor.model.facts import RankStage, StageStatus, decode
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STORE
from distdoctor.ranks.supervisor import Child
from distdoctor.session.context import RunContext
from distdoctor.session.follower.outbox import StorePost
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Command, Event, RunKeys
from distdoctor.session.protocol.trust import Seal
from distdoctor.session.stages.ranks import RankStages
from distdoctor.store.client import StoreClient
from tests.facts_builder import CHECKS
from tests.helpers.running import Running
from tests.helpers.servers import RealStore
from tests.helpers.told import Told

pytestmark = pytest.mark.parametrize("store", ["libuv"], indirect=True)
LONG = 40.0
"""Seconds of a stage that nobody waits for in these tests."""


@dataclass
class Ended:
    """End of a stage."""

    status: StageStatus
    seconds: float
    ranks: list[RankStage]
    events: list[Event]


def ranks_of(running: Running, context: RunContext, client: StoreClient, store: RealStore, run: str) -> RankStages:
    """Those of participant 1 of that run."""
    post = StorePost(client, run, Seal(None))
    post.number = 1
    return RankStages(context, running.zygote, "127.0.0.1", store.port, post.keys, post.number, post.send)


def climb_store(
    running: Running,
    store: RealStore,
    world: int,
    seconds: float,
    meanwhile: Callable[[RankStages, list[Child]], None] | None = None,
    before: Callable[[RankStages], None] | None = None,
) -> Ended:
    """The store stage with two ranks here of ``world``; ``meanwhile`` is called once they are at it."""
    run = f"run{time.monotonic_ns()}"
    plan = Plan(nproc_per_node=2, node_rank=0, world_size=world, master_addr="127.0.0.1", master_port=store.port)

    async def work() -> Ended:
        client = await StoreClient.connect("127.0.0.1", store.port)
        context = RunContext(Options(plan, CHECKS), Told())
        context.note_torch(await running.zygote.torch())
        ranks = ranks_of(running, context, client, store, run)
        if before is not None:
            before(ranks)
        numbers: dict[str, tuple[int, ...]] = {"1": (0, 1)}
        command = Command("stage", "store", seconds=seconds, world=world, ranks=numbers, group_ranks=numbers)
        started = time.monotonic()
        stage = asyncio.ensure_future(context.run_stage("store", ranks.work[STORE](command)))
        if meanwhile is not None:
            while not ranks.children or any(child.pid is None for child in ranks.children):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.3)
            assert not stage.done()
            meanwhile(ranks, ranks.children)
        status = await stage
        spent = time.monotonic() - started
        events: list[Event] = []
        while (value := await client.get(RunKeys(run).message(1, len(events)))) is not None:
            events.append(decode(value, Event))
        ranks.close()
        client.close()
        return Ended(status, spent, [rank.stages[0] for rank in context.facts.ranks], events)

    return running.do(work())


def test_all_ranks_come_through(shared: Running, store: RealStore) -> None:
    ended = climb_store(shared, store, world=2, seconds=LONG)
    assert (ended.status, [one.status for one in ended.ranks]) == ("ok", ["ok", "ok"])
    assert ended.events == []


def test_a_rank_that_never_comes_ends_the_stage_in_time(shared: Running, store: RealStore) -> None:
    """torch itself gives up after the stage's seconds and says so."""
    ended = climb_store(shared, store, world=3, seconds=0.5)
    assert ended.status == "failed" and ended.seconds < LONG
    assert all("wait timeout" in (one.error or "").lower() for one in ended.ranks), ended.ranks
    assert [event.kind for event in ended.events] == ["trouble"]


def test_what_fails_elsewhere_ends_the_stage_here_within_the_grace(shared: Running, store: RealStore) -> None:
    ended = climb_store(shared, store, world=3, seconds=LONG, meanwhile=lambda ranks, _: ranks.abort.set())
    assert ended.status == "failed" and ended.seconds < LONG
    assert all(one.detail["killed"] and "another rank failed" in (one.error or "") for one in ended.ranks)


def test_an_abort_that_came_before_the_ranks_were_looked_at_counts_too(shared: Running, store: RealStore) -> None:
    ended = climb_store(shared, store, world=3, seconds=LONG, before=lambda ranks: ranks.abort.set())
    assert ended.status == "failed" and ended.seconds < LONG


def test_a_rank_that_dies_is_told_to_the_lead_at_once(shared: Running, store: RealStore) -> None:
    def kill(ranks: RankStages, children: list[Child]) -> None:
        assert children[1].pid is not None
        os.kill(children[1].pid, signal.SIGKILL)
        asyncio.get_running_loop().call_later(1.0, ranks.abort.set)  # as the lead then says

    ended = climb_store(shared, store, world=3, seconds=LONG, meanwhile=kill)
    assert ended.ranks[1].status == "error" and ended.ranks[1].detail == {"died": True}
    assert "signal 9" in (ended.ranks[1].error or "")
    assert [event.kind for event in ended.events] == ["trouble"]


def test_a_rank_that_is_stopped_ends_the_stage_and_is_named(shared: Running, store: RealStore) -> None:
    def stop(_: RankStages, children: list[Child]) -> None:
        assert children[0].pid is not None
        os.kill(children[0].pid, signal.SIGSTOP)

    ended = climb_store(shared, store, world=3, seconds=LONG, meanwhile=stop)
    assert ended.status == "failed" and ended.seconds < LONG
    assert ended.ranks[0].detail["state"] == "T" and "stopped" in (ended.ranks[0].error or "")
    assert ended.ranks[1].detail.get("state") != "T"


def test_a_trial_whose_processes_cannot_be_started_has_not_helped(store: RealStore) -> None:
    """The process that holds torch was killed meanwhile."""
    running = Running()
    plan = Plan(nproc_per_node=1, node_rank=0, world_size=1, master_addr="127.0.0.1", master_port=store.port)

    async def work() -> tuple[bool, str]:
        client = await StoreClient.connect("127.0.0.1", store.port)
        context = RunContext(Options(plan, CHECKS), Told())
        context.note_torch(await running.zygote.torch())
        ranks = ranks_of(running, context, client, store, "t")
        running.zygote.process.kill()
        running.zygote.process.wait()
        numbers: dict[str, tuple[int, ...]] = {"1": (0,)}
        try:
            return await ranks.trial(Command("stage", "trial", 1, 5.0, world=1, ranks=numbers, group_ranks=numbers))
        finally:
            client.close()

    passed, why = running.do(work())
    running.close()
    assert not passed and "gone" in why
