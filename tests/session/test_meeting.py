"""A store that goes away: whether node 0 had counted this process by then."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from distdoctor.model.facts import MeetingFacts
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.meeting import Meeting
from distdoctor.session.options import Options
from distdoctor.session.protocol import Keys, Marker
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import JoinedStore
from distdoctor.session.seal import Seal
from distdoctor.store.client import StoreClient
from tests.facts_builder import CHECKS
from tests.helpers.servers import RealStore
from tests.helpers.told import Told

MARKER = Marker("0123456789abcdef", "ab" * 32, "0.1.0")


def no_report(*_: object) -> Report:
    raise AssertionError("only node 0 makes one")


@pytest.mark.parametrize("counted", [False, True], ids=["before it was counted", "after"])
def test_a_store_that_went_before_this_process_was_counted_was_not_joined(counted: bool) -> None:
    store = RealStore("libuv")
    plan = Plan(nnodes=2, node_rank=1, world_size=2, master_addr="127.0.0.1", master_port=store.port)
    recorder = Recorder(Options(plan, CHECKS), Told())
    recorder.update_meeting(joined=True)

    async def work() -> MeetingFacts:
        node0 = await StoreClient.connect("127.0.0.1", store.port)
        client = await StoreClient.connect("127.0.0.1", store.port)
        seat = JoinedStore(client, MARKER, Seal(None), "127.0.0.1", store.port, host=None, leads=False)
        meeting = Meeting(recorder, cast(Zygote, None), seat, no_report)
        if not counted:
            store.close()
        holding = asyncio.ensure_future(meeting.hold())
        while counted and not await node0.has(Keys(MARKER.run).message(1, 0)):  # its hello
            assert not holding.done(), holding
            await asyncio.sleep(0.01)
        store.close()
        assert await holding is None
        meeting.close()
        node0.close()
        assert recorder.facts.meeting is not None
        return recorder.facts.meeting

    try:
        seen = asyncio.run(work())
    finally:
        store.close()
    assert (seen.host_lost, seen.joined, seen.ended) == (True, counted, not counted)
