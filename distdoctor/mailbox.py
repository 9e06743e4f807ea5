"""The lead's end of the store: what members have written, and commands to all of them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from distdoctor.facts import BadFacts, NodeFacts, decode, encode
from distdoctor.protocol import Command, Event
from distdoctor.store_client import StoreClient

MAX_MEMBERS = 100_000
SILENT_SECONDS = 6.0
"""Six times as long as a member that is alive takes to show it."""


@dataclass
class Seen:
    """One member as the lead knows it."""

    number: int
    facts: NodeFacts
    mesh_port: int | None
    sequence: int = 1
    results: dict[tuple[str, int], Event] = field(default_factory=dict)
    """(stage, attempt) -> how it ended there."""
    troubled: set[tuple[str, int]] = field(default_factory=set)
    left: bool = False
    """It was interrupted and said so."""
    lost: bool = False
    """It stopped answering."""

    @property
    def gpus(self) -> int:
        """How many devices its first rank sees."""
        gpu = self.facts.ranks[0].gpu if self.facts.ranks else None
        return len(gpu.visible) if gpu else 0


class Pulse:
    """Watches who is still there: a member that is killed cannot say so, and the others would wait for it."""

    def __init__(self, mail: Mailbox) -> None:
        self._mail = mail
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def feel(self, members: Sequence[Seen]) -> None:
        """Mark those of ``members`` as lost that have shown nothing for SILENT_SECONDS."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        for member in members:
            beat = await self._mail.number(f"beat/{member.number}")
            before, since = self._beats.get(member.number, (-1, now))
            self._beats[member.number] = (beat, now if beat != before else since)
            member.lost = beat == before and now - since > SILENT_SECONDS


class Mailbox:
    """Everything that goes between the lead and the members."""

    def __init__(self, client: StoreClient, run: str) -> None:
        self.client, self.run = client, run
        self.members: dict[int, Seen] = {}
        self._tick = -1
        self._sequence = 0

    def key(self, rest: str) -> str:
        """A key of this run."""
        return f"distdoctor/{self.run}/{rest}"

    @property
    def own(self) -> Seen | None:
        """The member that is the lead's own process."""
        return next((m for m in self.members.values() if m.facts.meeting and m.facts.meeting.hosted), None)

    @property
    def present(self) -> list[Seen]:
        """The members that are still there."""
        return [m for m in self.members.values() if not (m.left or m.lost)]

    async def send(self, command: Command) -> None:
        """One command to all."""
        place, self._sequence = self._sequence, self._sequence + 1  # before: what is begun is carried out
        await self.client.set(self.key(f"c/{place}"), encode(command))

    async def poll(self) -> bool:
        """Take in what members have written since; whether there was anything."""
        tick = await self.number("tick")
        if tick == self._tick:
            return False
        for number in range(1, min(await self.number("members"), MAX_MEMBERS) + 1):
            if number not in self.members:
                hello = await self._event(number, 0)
                if hello is not None and hello.facts is not None:
                    self.members[number] = Seen(number, hello.facts, hello.mesh_port)
            member = self.members.get(number)
            while member is not None and (event := await self._event(number, member.sequence)) is not None:
                member.sequence += 1
                self._take(member, event)
        self._tick = tick  # at the end: a look that was given up half way is made again
        return True

    async def number(self, name: str) -> int:
        """The counter ``name`` of this run."""
        value = await self.client.get(self.key(name)) or b"0"
        return int(value) if value.isdigit() else 0

    async def _event(self, number: int, sequence: int) -> Event | None:
        value = await self.client.get(self.key(f"m/{number}/{sequence}"))
        if value is None:
            return None
        try:
            return decode(value, Event)
        except BadFacts:
            return Event("trouble", ok=False)

    @staticmethod
    def _take(member: Seen, event: Event) -> None:
        if event.facts is not None and event.facts.key == member.facts.key:
            member.facts = event.facts
        if event.kind == "result":
            member.results[event.stage, event.attempt] = event
        elif event.kind == "trouble":
            member.troubled.add((event.stage, event.attempt))
        elif event.kind == "left":
            member.left = True
