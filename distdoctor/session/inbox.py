"""The lead's end of the store: what members have written, and commands to all of them.

What node 0's own process tells and is told does not go through the store, where others could change it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from distdoctor.model.bounds import MAX_RANKS, count
from distdoctor.model.facts import BadFacts, NodeFacts, encode
from distdoctor.model.report import Report
from distdoctor.session.orders import SURPLUS
from distdoctor.session.protocol import Command, Event, Keys, Transcript, read_event
from distdoctor.session.seal import NotAuthentic, NotSealed, Seal
from distdoctor.store.client import Oversize, StoreClient

OWN = 0
"""The member number of node 0's own process; the others count from 1."""
SILENT_SECONDS = 6.0
"""Six times as long as a member that is alive takes to show it."""
LOOK_SECONDS = 2.0
"""How often everything is looked at though no member says that there is something new: anybody can set a counter.
With many members less often."""
MEMBERS_PER_SECOND = 500
PART_BYTES = 4 * 1024 * 1024
MAX_NOTES = 8


@dataclass
class Participant:
    """One member as the lead knows it."""

    number: int
    facts: NodeFacts
    mesh_port: int | None
    sequence: int = 1
    nonce: str = ""
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

    def take(self, event: Event) -> None:
        """Note what this member tells."""
        if event.facts is not None and event.facts.key == self.facts.key:
            self.facts = event.facts if self.number == OWN else _of_another(event.facts)
        if event.kind == "result":
            self.results[event.stage, event.attempt] = event
        elif event.kind == "trouble":
            self.troubled.add((event.stage, event.attempt))
        elif event.kind == "left":
            self.left = True


class Heartbeats:
    """Watches who is still there: a member that is killed cannot say so, and the others would wait for it."""

    def __init__(self, mail: Inbox) -> None:
        self._mail = mail
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def feel(self, members: Sequence[Participant]) -> None:
        """Mark those of ``members`` as lost that have shown nothing for SILENT_SECONDS."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        for member in members:
            if member.number == OWN:
                continue
            beat = await self._mail.number(self._mail.keys.beat(member.number))
            before, since = self._beats.get(member.number, (-1, now))
            self._beats[member.number] = (beat, now if beat != before else since)
            member.lost = beat == before and now - since > SILENT_SECONDS


class Inbox:
    """Everything that goes between the lead and the members."""

    def __init__(self, client: StoreClient, run: str, seal: Seal, planned: int) -> None:
        """``planned``: how many processes are to meet."""
        self.client, self.keys, self.seal = client, Keys(run), seal
        self.members: dict[int, Participant] = {}
        self.inbox: asyncio.Queue[Command] = asyncio.Queue()
        """The commands, for node 0's own process."""
        self.report: Report | None = None
        self.transcript = Transcript()
        """Of all commands: node 0's listener confirms with it what is in the store."""
        self.forged: dict[str, str] = {}
        """Place -> what is wrong with what was found there."""
        self.listens_on: int | None = None
        self._most = max(2 * planned, planned + SURPLUS)
        self._tick = -1
        self._looked = 0.0
        self._news = False
        """Node 0's own process has told something since."""
        self._ranks = 0
        self._sequence = 0
        self._written: dict[str, bytes] = {}

    @property
    def own(self) -> Participant | None:
        """The member that is the lead's own process."""
        return self.members.get(OWN)

    @property
    def present(self) -> list[Participant]:
        """The members that are still there."""
        return [m for m in self.members.values() if not (m.left or m.lost)]

    @property
    def notes(self) -> tuple[str, ...]:
        """What was found in the store that the members of this run have not written."""
        shown = [f"{place} {what}" for place, what in list(self.forged.items())[:MAX_NOTES]]
        more = len(self.forged) - len(shown)
        return (*shown, *([f"and {more} more"] if more else []))

    def deliver(self, event: Event) -> None:
        """A message of node 0's own process."""
        own = self.own
        if own is not None:
            own.take(event)
        elif event.facts is not None:
            # First: the others count from 1.
            self.members = {OWN: Participant(OWN, event.facts, event.mesh_port), **self.members}
            self.listens_on = event.mesh_port
            self._ranks += len(event.facts.ranks)
        self._news = True

    async def send(self, command: Command) -> None:
        """One command to all."""
        data = encode(command)
        key = self.keys.command(self._sequence)
        await self._free(key)
        self._sequence += 1  # before: what is begun is carried out
        self.transcript.add(data)
        self.inbox.put_nowait(command)
        value = self._written[key] = self.seal.close(key, data)
        await self.client.set(key, value)

    async def publish(self, report: Report) -> None:
        """Let every member have the report."""
        self.report = report
        data = encode(report)
        parts = [data[i : i + PART_BYTES] for i in range(0, len(data), PART_BYTES)]
        for place, part in enumerate(parts):
            key = self.keys.report(place)
            await self.client.set(key, self.seal.close(key, part))
        met = {str(m.number): m.nonce for m in self.members.values() if m.number != OWN}
        digest = hashlib.sha256(data).hexdigest()
        await self.send(Command("report", parts=len(parts), digest=digest, met=met, port=self.listens_on))

    async def verify(self) -> None:
        """Note where somebody else wrote under the keys that are the lead's alone."""
        for key, value in self._written.items():
            if await self._value(key) != value:
                self._distrust(key, "is not any more what node 0 wrote")
        for key in (self.keys.command(self._sequence), self.keys.report(0)):
            await self._free(key)

    def _distrust(self, key: str, why: str) -> None:
        self.forged.setdefault(self.keys.place(key), why)

    async def _free(self, key: str) -> None:
        if key not in self._written and await self.client.has(key):
            self._distrust(key, "was there before node 0 wrote it")

    async def _value(self, key: str) -> bytes | None:
        try:
            return await self.client.get(key)
        except Oversize:
            return b""

    async def poll(self) -> bool:
        """Take in what members have written since; whether there was anything."""
        tick, now = await self.number(self.keys.tick), time.monotonic()
        pause = max(LOOK_SECONDS, len(self.members) / MEMBERS_PER_SECOND)
        if tick == self._tick and not self._news and now - self._looked < pause:
            return False
        before = len(self.members), sum(m.sequence for m in self.members.values())
        for number in range(1, min(await self._counted(), self._most) + 1):
            if number not in self.members:
                await self._greet(number)
            member = self.members.get(number)
            while member is not None and (event := await self._event(number, member.sequence)) is not None:
                member.sequence += 1
                member.take(event)
        changed = (
            self._news
            or tick != self._tick
            or before
            != (
                len(self.members),
                sum(m.sequence for m in self.members.values()),
            )
        )
        # At the end: a look that was given up half way is made again.
        self._tick, self._looked, self._news = tick, now, False
        return changed

    async def _greet(self, number: int) -> None:
        hello = await self._event(number, 0)
        if hello is None or hello.facts is None:
            return
        if self.own is not None and hello.facts.key == self.own.facts.key:
            self._distrust(self.keys.message(number, 0), f"says it is node 0's own process ({hello.facts.key[:200]})")
            return
        ranks = self._ranks + len(hello.facts.ranks)
        if ranks > MAX_RANKS:
            self._distrust(self.keys.message(number, 0), f"makes it {ranks} ranks; {MAX_RANKS} at most can take part")
            return
        self._ranks = ranks
        self.members[number] = Participant(number, _of_another(hello.facts), hello.mesh_port, nonce=hello.nonce)

    async def _counted(self) -> int:
        """How many processes say that they came."""
        members = await self.number(self.keys.members)
        if members > self._most:
            self._distrust(self.keys.members, f"counts {members} processes; {self._most} at most are looked at")
        return members

    async def number(self, key: str) -> int:
        """The counter under ``key``."""
        value = await self._value(key)
        found = count(value) if value is not None else 0
        if found is None:
            self._distrust(key, "is no number that was counted")
        return found or 0

    async def _event(self, number: int, sequence: int) -> Event | None:
        key = self.keys.message(number, sequence)
        try:
            value = await self.client.get(key)
            if value is None:
                return None
            event = read_event(self.seal.open(key, value))
            if (event.kind == "hello") is not (sequence == 0):
                raise BadFacts(f"a message of kind {event.kind} in this place")
            return event
        except NotSealed:
            self._distrust(key, "is not sealed: written without this run's token")
        except (NotAuthentic, Oversize, BadFacts) as err:
            self._distrust(key, f"is nothing that a member writes: {str(err)[:200]}")
        return None


def _of_another(facts: NodeFacts) -> NodeFacts:
    """The facts of another process than node 0, without what only node 0 can know."""
    if facts.meeting is not None:
        facts = replace(facts, meeting=replace(facts.meeting, hosted=False, arrived=(), expected=0, lost=()))
    return replace(facts, trials=())
