"""The network stage where no later one is climbed: node 0's port is tried, and what has it is told."""

from __future__ import annotations

import asyncio
import errno
import socket
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import Bind, NetworkFacts
from distdoctor.model.plan import Plan
from distdoctor.probes.network.ports import refused_bind
from distdoctor.session.context import RunContext
from distdoctor.session.options import Options
from distdoctor.session.protocol.messages import RunKeys
from distdoctor.session.rendezvous.lookup import MasterLookup
from distdoctor.session.stages import network
from distdoctor.session.stages.local import Ended
from distdoctor.session.stages.network import NetworkStage
from tests.facts_builder import CHECKS
from tests.helpers.servers import RealStore, unused_port
from tests.helpers.told import Told


def looked(port: int, **plan: Any) -> tuple[Ended, NetworkFacts]:
    """Return what node 0 of two, by default, saw on its own."""
    plan = {"nnodes": 2, "node_rank": 0, "world_size": 4, "master_addr": "127.0.0.1", "master_port": port, **plan}
    context = RunContext(Options(Plan(**plan), CHECKS), Told())
    ended = asyncio.run(NetworkStage(context, MasterLookup(context)).look_only())
    assert context.facts.network is not None
    return ended, context.facts.network


@pytest.fixture
def held() -> Iterator[int]:
    """A port of which only one address is listened on, by something that says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


@pytest.fixture
def store() -> Iterator[RealStore]:
    real = RealStore("libuv")
    yield real
    real.close()


OPENS: dict[str, dict[str, Any]] = {
    "node 0": {},
    "the owner of the address": {"node_rank": None},
    "one node": {"nnodes": 1, "world_size": 2},
    "rank 0": {"started": "rank", "rank": 0, "local_rank": 0, "node_rank": None},
    "where the c10d rendezvous is": {"rdzv_backend": "c10d", "node_rank": None},
}
JOINS: dict[str, dict[str, Any]] = {
    "node 1": {"node_rank": 1},
    "rank 1": {"started": "rank", "rank": 1, "local_rank": 1, "node_rank": None},
    "a rank 0 of torchrun": {"started": "rank", "rank": 0, "local_rank": 0, "agent_store": True},
    "an agent that an etcd server brings together": {"rdzv_backend": "etcd-v2", "node_rank": None},
}


@pytest.mark.parametrize("plan", OPENS.values(), ids=OPENS)
def test_a_port_that_something_has_is_told_of_who_would_open_it(plan: dict[str, Any], held: int) -> None:
    (status, reason), seen = looked(held, **plan)
    assert (status, reason) == ("failed", f"cannot listen on port {held}: Address already in use")
    bind = seen.bind
    assert isinstance(bind, Bind) and bind.errno == errno.EADDRINUSE
    assert bind.answer is not None and bind.answer.kind == "silent"
    assert [holder.address for holder in bind.holders] == ["127.0.0.1"] and bind.free_port


@pytest.mark.parametrize("plan", JOINS.values(), ids=JOINS)
def test_and_not_of_who_would_not(plan: dict[str, Any], held: int) -> None:
    ended, seen = looked(held, **plan)
    assert ended == ("ok", "") and seen.bind is None


def test_a_free_port_stays_unknown_and_nobody_sees_it_tried() -> None:
    ended, seen = looked(unused_port())
    assert ended == ("ok", "") and seen.bind is None
    assert looked(0, nnodes=1)[0] == ("ok", "")


def test_a_store_is_another_jobs_unless_an_agent_would_join_it(store: RealStore) -> None:
    for plan in ({}, {"node_rank": None}, {"rdzv_backend": "c10d", "node_rank": None, "is_host": True}):
        bind = looked(store.port, **plan)[1].bind
        assert bind is not None and bind.answer is not None and bind.answer.kind == "tcpstore"
    ended, seen = looked(store.port, rdzv_backend="c10d", node_rank=None)
    assert ended == ("ok", "") and seen.bind is None
    store.set(RunKeys.marker(Plan()), "the mark of another run")
    bind = looked(store.port)[1].bind
    assert bind is not None and bind.answer is not None and bind.answer.kind == "distdoctor"


def test_a_port_that_is_only_closing_is_waited_for() -> None:
    with socket.create_server(("", 0)) as listener:
        port = listener.getsockname()[1]

        async def both() -> Ended:
            plan = Plan(nnodes=2, node_rank=0, world_size=4, master_addr="127.0.0.1", master_port=port)
            context = RunContext(Options(plan, CHECKS), Told())
            asyncio.get_running_loop().call_later(0.5, listener.close)
            return await NetworkStage(context, MasterLookup(context)).look_only()

        assert asyncio.run(both()) == ("ok", "")


def test_connections_that_are_closing_do_not_keep_it_and_one_that_is_open_does() -> None:
    with socket.create_server(("127.0.0.1", 0)) as far, socket.create_connection(far.getsockname()) as near:
        port = near.getsockname()[1]
        assert refused_bind(port) == errno.EADDRINUSE
        near.close()  # the first to close: TIME_WAIT
        opened, _ = far.accept()
        opened.close()
        deadline = time.monotonic() + 5
        while refused_bind(port) and time.monotonic() < deadline:
            time.sleep(0.01)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with socket.create_connection(server.getsockname()) as client:
            opened, _ = server.accept()
            opened.close()  # TIME_WAIT on the server's port
            client.close()
    assert refused_bind(port) == 0


def test_a_port_that_only_ipv6_has_is_free_for_ipv4() -> None:
    """As for torch, which takes the second where it cannot have the first."""
    with socket.socket(socket.AF_INET6) as listener:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind(("::", 0))
        listener.listen()
        assert refused_bind(listener.getsockname()[1]) == 0


def test_a_look_that_does_not_end_leaves_its_fact_unknown_and_the_stage_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As on a host without processor time: the stage once ended with a bare TimeoutError."""
    monkeypatch.setattr(network, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr("distdoctor.probes.host.processes.probe_leftovers", lambda _port: time.sleep(3))
    (status, reason), seen = looked(unused_port())
    assert (status, reason) == ("ok", "") and seen.master_is_own


class _Nowhere:
    """A rendezvous that ended without a store."""

    async def join(self) -> None:
        return None


@pytest.mark.parametrize(("error", "status"), [("No module named 'torch'", "skipped"), ("", "failed")])
def test_without_its_torch_the_network_of_node_0_is_not_what_failed(error: str, status: str) -> None:
    plan = Plan(nnodes=2, node_rank=0, world_size=4, master_addr="127.0.0.1", master_port=unused_port())
    context = RunContext(Options(plan, CHECKS), Told())
    context.update(identity=replace(context.facts.identity, torch=None, torch_error=error))
    ended = asyncio.run(NetworkStage(context, MasterLookup(context)).join(_Nowhere()))  # type: ignore[arg-type]
    assert ended[0] == status
