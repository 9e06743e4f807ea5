"""A node 0 that orders nothing more while its store answers: what the others know of it at the end of their time."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from distdoctor.model.facts import encode
from distdoctor.model.plan import Plan
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.follower.follower import StageFollower
from distdoctor.session.follower.outbox import StorePost
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Command, Marker, RunKeys
from distdoctor.session.protocol.trust import Seal
from distdoctor.session.rendezvous.join import JoinedStore
from distdoctor.store.client import StoreClient
from tests.facts_builder import CHECKS
from tests.helpers.servers import RealStore
from tests.helpers.told import Told

MARKER = Marker("0123456789abcdef", "ab" * 32, "0.1.0")
ORDER = Command("skip", "store", reason="no time left")


@pytest.mark.parametrize("store", ["libuv"], indirect=True)
def test_the_time_since_its_last_order_counts_and_no_order_that_was_not_read_yet(store: RealStore) -> None:
    plan = Plan(nnodes=2, node_rank=1, world_size=2, master_addr="127.0.0.1", master_port=store.port)
    context = RunContext(Options(plan, CHECKS), Told())

    async def work() -> list[float]:
        node0 = await StoreClient.connect("127.0.0.1", store.port)
        client = await StoreClient.connect("127.0.0.1", store.port)
        seat = JoinedStore(client, MARKER, Seal(None), "127.0.0.1", store.port, host=None, leads=False)
        follower = StageFollower(context, cast(Zygote, None), seat, StorePost(client, MARKER.run, seat.seal))
        following = asyncio.ensure_future(follower.follow())
        while not follower.enrolled:
            assert not following.done(), following
            await asyncio.sleep(0.01)
        before = await follower.unled()
        await node0.set(RunKeys(MARKER.run).command(0), encode(ORDER))
        while not context.facts.stages:
            assert not following.done(), following
            await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        after = await follower.unled()
        following.cancel()
        await asyncio.wait([following])
        await node0.set(RunKeys(MARKER.run).command(1), encode(ORDER))
        unread = await follower.unled()
        for one in (client, node0):
            one.close()
        return [before, after, unread]

    before, after, unread = asyncio.run(work())
    assert before == unread == 0.0
    assert after >= 0.3
