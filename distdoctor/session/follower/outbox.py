"""A participant's end of the meeting: its messages to node 0, and node 0's commands and report."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import TypeAlias

from distdoctor.model.bounds import MAX_RANKS, check_report, within
from distdoctor.model.facts import BadFacts, decode, encode
from distdoctor.model.report import Report
from distdoctor.session.leader.inbox import OWN, Inbox
from distdoctor.session.protocol.messages import Command, Event, Keys, Transcript, unpack
from distdoctor.session.protocol.trust import NotAuthentic, Seal
from distdoctor.store.client import Oversize, StoreClient

BEAT_SECONDS = 1.0
"""How often a participant shows node 0 that it is still there."""


class Untrusted(Exception):
    """What is in the store is not what node 0 or this process wrote; the text says what."""


class TooLate(Exception):
    """Node 0's report does not count this process; ``met`` says how many it is about."""

    def __init__(self, met: int) -> None:
        super().__init__(f"{met} processes had met")
        self.met = met


class OwnPost:
    """Node 0's own process: it talks to the leader without the store."""

    number = OWN

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.keys = inbox.keys

    async def enrol(self) -> None:
        """Its number is known."""

    async def send(self, event: Event) -> None:
        """One message to the leader."""
        self._inbox.deliver(event)

    async def commands(self) -> AsyncIterator[Command]:
        """The leader's commands, as they come."""
        while True:
            yield await self._inbox.own_commands.get()

    async def ordered(self) -> bool:
        """Return whether a command is there that was not told yet."""
        return not self._inbox.own_commands.empty()

    async def report(self, command: Command) -> Report:
        """Return what node 0 judged itself."""
        assert self._inbox.report is not None
        return self._inbox.report


class StorePost:
    """Every other process: through the store, where others may write, too."""

    def __init__(self, client: StoreClient, run: str, seal: Seal) -> None:
        self._client, self._seal = client, seal
        self.keys = Keys(run)
        self.number = -1
        self.transcript = Transcript()
        self.forged: dict[str, str] = {}
        """Place -> what is wrong with what was found there."""
        self._nonce = secrets.token_hex(8)
        self._sequence = 0
        self._told = 0
        """How many of node 0's commands were."""
        self._sending = asyncio.Lock()

    async def enrol(self) -> None:
        """Get a number, once. Raises Untrusted where the counter gives none that can be."""
        if self.number < 0:
            self.number = await self._client.add(self.keys.members, 1)
        try:
            within("this process's number", self.number, 1, MAX_RANKS)
        except BadFacts as err:
            raise Untrusted(f"members: {err}") from None

    async def send(self, event: Event) -> None:
        """One message to the leader."""
        if event.kind == "hello":
            event = replace(event, nonce=self._nonce)
        async with self._sending:
            key = self.keys.message(self.number, self._sequence)
            if await self._client.has(key):
                self.forged.setdefault(self.keys.place(key), "was there before this process wrote it")
            self._sequence += 1  # before: what is begun is carried out
            await self._client.set(key, self._seal.close(key, encode(event)))
            await self._client.add(self.keys.tick, 1)

    async def commands(self) -> AsyncIterator[Command]:
        """The leader's commands, as they come. Raises Untrusted for what no node 0 writes."""
        pause, beaten = 0.01, 0.0
        while True:
            if time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                await self._client.add(self.keys.beat(self.number), 1)
            key = self.keys.command(self._told)
            data = await self._read(key)
            if data is None:
                await asyncio.sleep(pause)
                pause = min(pause * 1.2, 0.1)
                continue
            try:
                command = decode(data, Command)
            except BadFacts as err:
                raise Untrusted(f"{self.keys.place(key)} is nothing that node 0 writes: {str(err)[:200]}") from None
            self._told, pause = self._told + 1, 0.01
            self.transcript.add(data)
            yield command

    async def ordered(self) -> bool:
        """Return whether a command is there that was not told yet. Raises StoreError."""
        return await self._client.has(self.keys.command(self._told))

    async def report(self, command: Command) -> Report:
        """The report that ``command`` announces. Raises Untrusted, or TooLate where it does not count this process."""
        values = [await self._read(self.keys.report(part)) for part in range(command.parts)]
        data = b"".join(value or b"" for value in values)
        if hashlib.sha256(data).hexdigest() != command.digest:
            raise Untrusted(f"{self.keys.place(self.keys.report(0))} is not the report that node 0 announced")
        if command.met.get(str(self.number)) != self._nonce:
            raise TooLate(len(command.met) + 1)
        try:
            report = decode(unpack(data) if command.packed else data, Report)
            check_report(report)
            return report
        except BadFacts as err:
            raise Untrusted(f"{self.keys.place(self.keys.report(0))} cannot be read: {str(err)[:200]}") from None

    async def _read(self, key: str) -> bytes | None:
        """Return what is there, where it is authentic.

        With a token the rest is noted and waited out: node 0 writes on."""
        try:
            value = await self._client.get(key)
            return self._seal.open(key, value) if value is not None else None
        except (NotAuthentic, Oversize) as err:
            self.forged.setdefault(self.keys.place(key), str(err))
            if not self._seal.keyed:
                raise Untrusted(f"{self.keys.place(key)} {err}") from None
            return None


Outbox: TypeAlias = OwnPost | StorePost
"""How a participant and the leader talk."""
