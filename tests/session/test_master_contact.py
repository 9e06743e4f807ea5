"""Making contact with the master: of a name's several addresses, the one that works counts."""

from __future__ import annotations

import asyncio
import socket
import time
from math import inf

import pytest

from distdoctor.model.facts import Contact
from distdoctor.model.plan import Plan
from distdoctor.session.context import RunContext
from distdoctor.session.options import Options
from distdoctor.session.rendezvous.contact import LAST_SECONDS, MasterContact
from distdoctor.session.rendezvous.progress import WaitReporter
from tests.facts_builder import CHECKS
from tests.helpers.told import Told


def test_this_node_is_reached_by_its_way_to_the_address_that_works() -> None:
    """Not by the way to the first address of MASTER_ADDR's name, which leads nowhere (here: it refuses)."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        plan = Plan(nnodes=2, nproc_per_node=1, master_addr="host0", master_port=server.getsockname()[1])
        context = RunContext(Options(plan, CHECKS), Told())
        context.update_network(master_is_own=False)
        found = asyncio.run(MasterContact(context, WaitReporter(context)).make(("127.0.0.2", "127.0.0.1"), inf))
    network = context.facts.network
    assert network is not None and network.route is not None
    assert (found.address, [one.address for one in network.passed_over]) == ("127.0.0.1", ["127.0.0.2"])
    assert network.route.target == "127.0.0.1"


def test_the_last_attempt_ends_with_the_waiting() -> None:
    """And what one that had all its time came to is not forgotten for it."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        full = [socket.socket() for _ in range(2)]  # its queue: the kernel answers no further SYN
        try:
            for one in full:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            context = RunContext(Options(Plan(nnodes=2, master_addr="host0", master_port=port), CHECKS), Told())
            before = Contact("127.0.0.1", port, "unreachable", 113, 3.07)
            context.update_network(master_is_own=False, contact=before)
            began = time.monotonic()

            async def make() -> Contact | None:
                contact = asyncio.ensure_future(
                    MasterContact(context, WaitReporter(context)).make(("127.0.0.1",), began + 0.2)
                )
                later = asyncio.ensure_future(asyncio.sleep(LAST_SECONDS + 1))
                first, _ = await asyncio.wait({contact, later}, return_when=asyncio.FIRST_COMPLETED)
                later.cancel()
                assert contact in first, "it goes on after the time for its last attempt"
                return await contact

            found = asyncio.run(make())
            seconds = time.monotonic() - began
        finally:
            for one in full:
                one.close()
    assert found == before
    assert seconds >= LAST_SECONDS


def test_a_host_that_is_up_and_silent_may_limit_new_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    """One lost SYN was a filter: now few connections are made from then on, and only a long silence is one."""
    for name, seconds in (("CONNECT_SECONDS", 0.8), ("PATIENT_SECONDS", 1.0), ("FILTERED_SECONDS", 1.5)):
        monkeypatch.setattr(f"distdoctor.session.rendezvous.contact.{name}", seconds)
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        full = [socket.socket() for _ in range(2)]  # its queue: the kernel answers no further SYN
        for one in full:
            one.setblocking(False)
            one.connect_ex(("127.0.0.1", port))
        context = RunContext(Options(Plan(nnodes=2, master_addr="host0", master_port=port), CHECKS), Told())
        context.update_network(master_is_own=False)
        contact, seen = MasterContact(context, WaitReporter(context)), []

        async def make() -> None:
            for _ in range(2):
                found = await contact.make(("127.0.0.1",), inf)
                seen.append((found.outcome, contact.limited, contact.filtered))

        asyncio.run(make())
        for one in full:
            one.close()
    assert seen == [("no-answer", True, False), ("no-answer", True, True)]
