"""A follower tells node 0 how a stage ended here, whatever else cannot be looked at."""

from __future__ import annotations

import asyncio
import threading
from types import SimpleNamespace
from typing import cast

import pytest

from distdoctor.model.plan import Plan
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.follower.follower import StageFollower
from distdoctor.session.follower.outbox import Outbox
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Command, Event
from distdoctor.session.rendezvous.join import JoinedStore
from distdoctor.session.stages.local import Ended
from tests.facts_builder import CHECKS
from tests.helpers.told import Told


def test_a_stage_that_failed_is_told_where_no_thread_is_left_to_read_the_kernels_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = Plan(nnodes=2, node_rank=1, world_size=2, master_addr="10.77.0.10", master_port=29500)
    context, told = RunContext(Options(plan, CHECKS), Told()), list[Event]()

    async def send(event: Event) -> None:
        told.append(event)

    async def climb(_command: Command) -> Ended:
        return "failed", "1 of 1 rank failed"

    def start(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", start)
    follower = StageFollower(
        context, cast(Zygote, None), cast(JoinedStore, None), cast(Outbox, SimpleNamespace(send=send))
    )
    asyncio.run(follower._run_stage(Command("stage", "gloo", seconds=3.0), climb))
    assert [(one.kind, one.stage, one.ok) for one in told] == [("result", "gloo", False)]
