"""The way into the meeting, against real stores: the doctor's own, somebody else's, and what is none."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distdoctor.model.facts import Answer, Contact, NetworkFacts, RendezvousFacts, StageStatus, encode
from distdoctor.model.plan import Plan, PlanProblem
from distdoctor.ranks.supervisor import Child, Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import Marker, RunKeys
from distdoctor.session.rendezvous import join
from distdoctor.session.rendezvous.failure import PROBLEM_SECONDS
from distdoctor.session.rendezvous.join import JoinedStore, Rendezvous
from distdoctor.session.rendezvous.lookup import MasterLookup
from distdoctor.session.rendezvous.store_host import StoreHost
from distdoctor.store.client import StoreClient, StoreGone
from tests.facts_builder import CHECKS
from tests.helpers.running import Running
from tests.helpers.servers import RealStore, serving, unused_port
from tests.helpers.told import Told

MARKER = Marker("0123456789abcdef", "ab" * 32, "0.1.0")


def way_in(context: RunContext, zygote: Zygote | None = None) -> Rendezvous:
    return Rendezvous(context, zygote, MasterLookup(context))


class Joined:
    """Node 1 of two, on its way into the meeting on ``port`` of loopback."""

    def __init__(self, port: int, wait: float = 1.0) -> None:
        plan = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=port)
        self.told = Told()
        self.context = RunContext(Options(plan, CHECKS, wait=wait), self.told)
        self.seat: JoinedStore | None = asyncio.run(self._join())
        self.seconds = time.monotonic() - self.context.clock.started  # from which --wait counts

    async def _join(self) -> JoinedStore | None:
        seat = await way_in(self.context).join()
        if seat is not None:
            seat.client.close()
        return seat

    @property
    def network(self) -> NetworkFacts:
        assert self.context.facts.network is not None
        return self.context.facts.network

    @property
    def meeting(self) -> RendezvousFacts:
        assert self.context.facts.meeting is not None
        return self.context.facts.meeting


def test_who_was_slow_itself_still_waits_for_the_others() -> None:
    """All are slow then: importing torch on taken processors outlasts a short --wait, here by a minute."""
    port = unused_port()
    plan = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=port)
    context = RunContext(Options(plan, CHECKS, wait=2.0), Told())
    context.clock.started -= 60.0

    async def join() -> None:
        asyncio.get_running_loop().call_later(0.5, lambda: opened.append(socket.create_server(("127.0.0.1", port))))
        assert await way_in(context).join() is None, "nothing there speaks the store's protocol"

    opened = list[socket.socket]()
    asyncio.run(join())
    opened[0].close()
    assert context.facts.network is not None and context.facts.network.contact is not None
    assert context.facts.network.contact.outcome != "refused", "it was there half a second later"


@pytest.mark.parametrize(("imported", "met"), [(None, True), (-0.2, True), (-5.0, False)])
def test_a_broken_plan_waits_for_who_is_as_slow_as_this_process(imported: float | None, met: bool) -> None:
    """``imported``: when this process had imported torch, in seconds from now; node 0 opens its port in half a one."""
    port = unused_port()
    problem = PlanProblem("PET_RDZV_BACKEND", "c10d", "makes torchrun read no --master-addr")
    place = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=port)
    plan = replace(place, problems=(problem,))
    context = RunContext(Options(plan, CHECKS, wait=30.0), Told())
    context.clock.started -= PROBLEM_SECONDS + 1
    context.clock.launched = context.clock.started
    zygote = SimpleNamespace(imported=None if imported is None else time.monotonic() + imported)

    async def join() -> None:
        asyncio.get_running_loop().call_later(0.5, lambda: opened.append(socket.create_server(("127.0.0.1", port))))
        assert await way_in(context, cast(Any, zygote)).join() is None, "nothing there speaks the store's protocol"
        await asyncio.sleep(0.6)

    opened = list[socket.socket]()
    asyncio.run(join())
    opened[0].close()
    assert context.facts.network is not None and context.facts.network.contact is not None
    assert (context.facts.network.contact.outcome == "open") == met


def mark(port: int, value: bytes) -> None:
    async def write() -> None:
        client = await StoreClient.connect("127.0.0.1", port)
        await client.set("distdoctor/marker", value)
        await client.has("distdoctor/marker")
        client.close()

    asyncio.run(write())


def test_a_store_without_the_doctors_marker_is_somebody_elses_and_left_untouched(store: RealStore) -> None:
    store.delete("distdoctor/marker")
    store.set("the/job", "runs")
    before = store.keys()
    joined = Joined(store.port, wait=60)
    assert joined.seat is None
    assert store.keys() == before and store.get("the/job") == "runs"
    assert (joined.meeting.ours, joined.meeting.joined, joined.meeting.ended) == (False, False, True)
    assert joined.network.answer == Answer("tcpstore", "2.5+")
    assert joined.seconds < 60, "waiting cannot cure it"


@pytest.mark.parametrize("value", [b"{}", b"\x80\x04.", encode(MARKER)[:-1], b'{"run": 1, "token": [], "version": ""}'])
def test_a_marker_that_cannot_be_read_is_none(store: RealStore, value: bytes) -> None:
    mark(store.port, value)
    joined = Joined(store.port, wait=0.2)
    assert joined.seat is None and joined.meeting.ours is False


class MarkedMeanwhile:
    """A store whose mark arrives between the request for it and the count of keys."""

    marked = False

    async def get(self, key: str) -> bytes | None:
        return encode(MARKER) if self.marked else None

    async def count(self) -> int:
        self.marked = True
        return 1


def test_a_mark_that_has_just_come_is_no_key_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(join, "MARKER_SECONDS", 0.0)
    plan = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=29500)
    markers = way_in(RunContext(Options(plan, CHECKS, wait=30.0), Told())).markers
    assert asyncio.run(markers._wait(cast(Any, MarkedMeanwhile()))) == MARKER


def test_the_marked_store_gives_a_seat(store: RealStore) -> None:
    mark(store.port, encode(MARKER))
    joined = Joined(store.port)
    assert joined.seat is not None
    assert (joined.seat.marker, joined.seat.leads, joined.seat.host) == (MARKER, False, None)
    assert (joined.seat.address, joined.seat.port) == ("127.0.0.1", store.port)
    assert joined.network.answer == Answer("distdoctor", "2.5+")
    assert (joined.meeting.ours, joined.meeting.joined, joined.meeting.hosted) == (True, True, False)


def test_node_1_of_the_same_host_finds_the_store_on_another_port(
    store: RealStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The address is its own, and its rank says that it is not the first: somebody else opens the store here."""
    plan = Plan(nnodes=2, node_rank=0, world_size=4, master_addr="127.0.0.1", master_port=store.port)
    mark(store.port, encode(replace(MARKER, host="here", plan=plan)))
    monkeypatch.setenv("MASTER_PORT", str(store.port))
    joined = Joined(unused_port(), wait=6)
    there = joined.network.elsewhere
    assert joined.seat is None and there is not None and (there.host, there.port) == ("here", store.port)


def test_something_else_on_the_port_is_judged_at_once() -> None:
    def greet(opened: socket.socket) -> None:
        opened.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        opened.recv(100)

    with serving(greet) as port:
        joined = Joined(port, wait=60)
    assert joined.seat is None and joined.seconds < 60
    assert joined.network.answer is not None
    assert (joined.network.answer.kind, joined.network.answer.sample) == ("foreign", "SSH-")


def test_nobody_there_is_waited_for_and_told_meanwhile() -> None:
    joined = Joined(unused_port(), wait=6)
    assert joined.seat is None and joined.seconds >= 6
    assert joined.network.contact is not None and joined.network.contact.outcome == "refused"
    assert [n for n in joined.told.notes if n.startswith("so far: store/nodes-missing") and "refused" in n]
    assert joined.meeting.ended and joined.meeting.waited >= 6


@pytest.mark.parametrize("store", ["libuv"], indirect=True)
def test_a_store_that_comes_later_is_found(store: RealStore) -> None:
    port = unused_port()
    mark(store.port, encode(MARKER))

    async def both() -> JoinedStore | None:
        plan = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=port)
        context = RunContext(Options(plan, CHECKS, wait=30), Told())
        joining = asyncio.ensure_future(way_in(context).join())
        await asyncio.sleep(1.0)
        assert not joining.done()
        relay = await asyncio.start_server(_relay_to(store.port), "127.0.0.1", port)
        seat = await joining
        if seat is not None:
            seat.client.close()
        relay.close()
        return seat

    seat = asyncio.run(both())
    assert seat is not None and seat.marker == MARKER


def _relay_to(port: int) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
    """Return what passes a connection on to ``port``, both ways."""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 16):
            writer.write(data)
        writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(copy(reader, to_writer), copy(to_reader, writer), return_exceptions=True)

    return relay


def test_an_attempt_that_takes_seconds_does_not_keep_so_far_from_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """An address that is nobody's fails after 3 s (ARP): just before it is time to tell, and then 3 s after it."""
    failed: list[float] = []

    async def nobody(address: str, port: int, *rest: object) -> tuple[Contact, None]:
        await asyncio.sleep(3.1)
        failed.append(time.monotonic())
        return Contact(address, port, "unreachable", errno.EHOSTUNREACH, 3.1), None

    told: list[float] = []
    monkeypatch.setattr("distdoctor.session.rendezvous.contact.open_socket", nobody)
    monkeypatch.setattr(Told, "note", lambda self, text: told.append(time.monotonic()))
    started = time.monotonic()
    Joined(unused_port(), wait=8)
    assert told[0] - started > 3.4 and failed[0] < told[0] < failed[1], [at - started for at in (*told, *failed)]


def test_node_0_leads_also_where_its_store_was_slow_to_take_the_marker(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The marker was there, and its own store's host took it for nobody's: the nodes met and nobody led."""
    own_client, tries = StoreHost._own_client, []

    async def slow_at_first(self: StoreHost) -> StoreClient:
        tries.append(self)
        client = await own_client(self)
        if len(tries) == 1:
            assert self.marker is not None
            await client.set(RunKeys.marker(self.context.plan), self.sealed(self.marker))
            client.close()
            raise StoreGone("the store did not answer for 1 s")
        return client

    monkeypatch.setattr(StoreHost, "_own_client", slow_at_first)
    plan = Plan(nnodes=1, node_rank=0, world_size=2, master_addr="127.0.0.1", master_port=0)

    async def meet() -> bool:
        seat = await way_in(RunContext(Options(plan, CHECKS, wait=20), Told()), shared.zygote).join()
        assert seat is not None and seat.host is not None
        seat.client.close()
        seat.host.close()
        return seat.leads

    assert shared.do(meet())


def test_a_store_that_is_killed_before_anybody_came_is_opened_anew(
    shared: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the kernel kills for want of memory: node 0 waited until the end of ``--wait`` for a store that was gone."""
    own_client = StoreHost._own_client
    killed: list[Child] = []

    async def killed_at_first(self: StoreHost) -> StoreClient:
        assert self.child is not None
        if not killed:
            killed.append(self.child)
            self.child.kill()
            await asyncio.wait_for(self.child.exited.wait(), 10)
        return await own_client(self)

    monkeypatch.setattr(StoreHost, "_own_client", killed_at_first)
    plan = Plan(nnodes=1, node_rank=0, world_size=2, master_addr="127.0.0.1", master_port=unused_port())

    async def meet() -> tuple[bool, bool]:
        seat = await way_in(RunContext(Options(plan, CHECKS, wait=10), Told()), shared.zygote).join()
        assert seat is not None and seat.host is not None
        anew = seat.host.child not in killed
        seat.client.close()
        seat.host.close()
        return seat.leads, anew

    assert shared.do(meet()) == (True, True)


def test_waiting_for_node_0_is_no_time_of_the_networks(store: RealStore) -> None:
    """Node 0 starts later, as it does where it still imports torch: until then its port refuses."""
    mark(store.port, encode(MARKER))
    port = unused_port()
    plan = Plan(nnodes=2, node_rank=1, world_size=4, master_addr="127.0.0.1", master_port=port)
    context = RunContext(Options(plan, CHECKS, wait=20), Told())

    async def join() -> tuple[StageStatus, str]:
        seat = await way_in(context).join()
        assert seat is not None
        seat.client.close()
        return "ok", ""

    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()

    async def through(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there = await asyncio.open_connection("127.0.0.1", store.port)
        await asyncio.gather(copy(reader, there[1]), copy(there[0], writer))

    async def run() -> float:
        stage = asyncio.ensure_future(context.run_stage("network", join()))
        began = time.monotonic()
        await asyncio.sleep(2.0)
        server = await asyncio.start_server(through, "127.0.0.1", port)
        assert await stage == "ok"
        server.close()
        return time.monotonic() - began

    took = asyncio.run(run())
    (network,) = context.facts.stages
    assert took > 2.0
    assert network.seconds < took - 1.5
