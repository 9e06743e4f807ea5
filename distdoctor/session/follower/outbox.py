"""Participant's end of the store: it writes messages to node 0, and reads node 0's commands and report."""

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
from distdoctor.session.protocol.messages import Command, Event, RunKeys, Transcript, unpack
from distdoctor.session.protocol.trust import NotAuthentic, Seal
from distdoctor.store.client import Oversize, StoreClient

BEAT_SECONDS = 1.0
"""Interval at which a participant shows node 0 that it is alive."""


class Untrusted(Exception):
    """Value in the store that neither node 0 nor this process wrote; the text names it."""


class TooLate(Exception):
    """Node 0's report does not count this process; ``met`` is the number of processes it counts."""

    def __init__(self, met: int) -> None:
        super().__init__(f"{met} processes had met")
        self.met = met


class OwnPost:
    """Outbox of node 0's own process: it reaches the leader without the store."""

    number = OWN

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self.keys = inbox.keys

    async def enrol(self) -> None:
        """Do nothing: its number is known."""

    async def send(self, event: Event) -> None:
        """Send one message to the leader."""
        self._inbox.deliver(event)

    async def commands(self) -> AsyncIterator[Command]:
        """Yield the leader's commands as they arrive."""
        while True:
            yield await self._inbox.own_commands.get()

    async def ordered(self) -> bool:
        """Return whether a command is waiting."""
        return not self._inbox.own_commands.empty()

    async def report(self, command: Command) -> Report:
        """Return node 0's own report."""
        assert self._inbox.report is not None
        return self._inbox.report


class StorePost:
    """Outbox of every other process: through the store, where others may write, too."""

    def __init__(self, client: StoreClient, run: str, seal: Seal) -> None:
        self._client, self._seal = client, seal
        self.keys = RunKeys(run)
        self.number = -1
        self.transcript = Transcript()
        self.forged: dict[str, str] = {}
        """Key -> what is wrong with the value found there."""
        self._nonce = secrets.token_hex(8)
        self._sequence = 0
        self._read_commands = 0
        """Number of node 0's commands that were read."""
        self._sending = asyncio.Lock()

    async def enrol(self) -> None:
        """Get a number, once. Raises Untrusted if the counter holds an impossible one."""
        if self.number < 0:
            self.number = await self._client.add(self.keys.members, 1)
        try:
            within("this process's number", self.number, 1, MAX_RANKS)
        except BadFacts as err:
            raise Untrusted(f"members: {err}") from None

    async def send(self, event: Event) -> None:
        """Send one message to the leader."""
        if event.kind == "hello":
            event = replace(event, nonce=self._nonce)
        async with self._sending:
            key = self.keys.message(self.number, self._sequence)
            if await self._client.has(key):
                self.forged.setdefault(self.keys.place(key), "was there before this process wrote it")
            self._sequence += 1  # counted first: a write that has begun is carried out
            await self._client.set(key, self._seal.close(key, encode(event)))
            await self._client.add(self.keys.tick, 1)

    async def commands(self) -> AsyncIterator[Command]:
        """Yield the leader's commands as they arrive. Raises Untrusted for a command that no node 0 writes."""
        pause, beaten = 0.01, 0.0
        while True:
            if time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                await self._client.add(self.keys.beat(self.number), 1)
            key = self.keys.command(self._read_commands)
            data = await self._read(key)
            if data is None:
                await asyncio.sleep(pause)
                pause = min(pause * 1.2, 0.1)
                continue
            try:
                command = decode(data, Command)
            except BadFacts as err:
                raise Untrusted(f"{self.keys.place(key)} is nothing that node 0 writes: {str(err)[:200]}") from None
            self._read_commands, pause = self._read_commands + 1, 0.01
            self.transcript.add(data)
            yield command

    async def ordered(self) -> bool:
        """Return whether a command is waiting. Raises StoreError."""
        return await self._client.has(self.keys.command(self._read_commands))

    async def report(self, command: Command) -> Report:
        """Return the report that ``command`` announces. Raises Untrusted, or TooLate if it does not count this
        process."""
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
        """Return the value under ``key`` if it is authentic.

        With a token, any other value is noted, and node 0's own is waited for: node 0 overwrites it.
        """
        try:
            value = await self._client.get(key)
            return self._seal.open(key, value) if value is not None else None
        except (NotAuthentic, Oversize) as err:
            self.forged.setdefault(self.keys.place(key), str(err))
            if not self._seal.keyed:
                raise Untrusted(f"{self.keys.place(key)} {err}") from None
            return None


Outbox: TypeAlias = OwnPost | StorePost
"""Participant's end of the connection to the leader."""
