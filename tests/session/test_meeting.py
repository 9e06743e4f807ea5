"""A store that goes away: whether node 0 had counted this process by then."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from distdoctor.model.facts import RendezvousFacts, encode
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.follower.follower import Membership
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Command, Marker, RunKeys
from distdoctor.session.protocol.trust import Seal
from distdoctor.session.rendezvous.join import JoinedStore
from distdoctor.store.client import StoreClient
from tests.facts_builder import CHECKS
from tests.helpers.servers import RealStore
from tests.helpers.told import Told

MARKER = Marker("0123456789abcdef", "ab" * 32, "0.1.0")


def no_report(*_: object) -> Report:
    raise AssertionError("only node 0 makes one")


def held(nnodes: int, order: Command | None, counted: bool = True) -> RendezvousFacts:
    """Facts of a node about a meeting whose store went away: before it had said hello, else after it had read node 0's
    first ``order``, if any."""
    store = RealStore("libuv")
    plan = Plan(nnodes=nnodes, node_rank=1, world_size=2, master_addr="127.0.0.1", master_port=store.port)
    context = RunContext(Options(plan, CHECKS), Told())
    context.update_meeting(joined=True)
    keys = RunKeys(MARKER.run)

    async def work() -> RendezvousFacts:
        node0 = await StoreClient.connect("127.0.0.1", store.port)
        client = await StoreClient.connect("127.0.0.1", store.port)
        seat = JoinedStore(client, MARKER, Seal(None), "127.0.0.1", store.port, host=None, leads=False)
        meeting = Membership(context, cast(Zygote, None), seat, no_report)
        await node0.add(keys.members, 1)  # another was there before
        if order is not None:
            await node0.set(keys.command(0), encode(order))
        if not counted:
            store.close()
        await meeting.announce()
        if counted:
            assert await node0.add(keys.members, 0) == 2  # known before it says hello, and once
        holding = asyncio.ensure_future(meeting.take_part())
        while counted and not (context.facts.stages if order else await node0.has(keys.message(2, 0))):  # its hello
            assert not holding.done(), holding
            await asyncio.sleep(0.01)
        assert not counted or await node0.add(keys.members, 0) == 2
        store.close()
        assert await holding is None
        meeting.close()
        node0.close()
        assert context.facts.meeting is not None
        return context.facts.meeting

    try:
        return asyncio.run(work())
    finally:
        store.close()


@pytest.mark.parametrize("counted", [False, True], ids=["before it was counted", "after"])
def test_a_store_that_went_before_this_process_was_counted_was_not_joined(counted: bool) -> None:
    seen = held(2, None, counted)
    assert (seen.host_lost, seen.joined, seen.ended) == (True, counted, not counted)


@pytest.mark.parametrize("nnodes", [2, 3])
def test_where_as_many_as_were_planned_had_begun_without_it_node_0_has_only_come_to_its_end(nnodes: int) -> None:
    two: dict[str, tuple[int, ...]] = {"0": (0,), "1": (1,)}
    seen = held(nnodes, Command("stage", "store", seconds=5.0, world=2, group_ranks=two, ranks=two))
    if nnodes == 2:
        assert (seen.host_lost, seen.joined, seen.late) == (False, False, 2)
    else:  # they had given up waiting: that node 0 is gone is all that is known
        assert (seen.host_lost, seen.joined, seen.late) == (True, True, None)
