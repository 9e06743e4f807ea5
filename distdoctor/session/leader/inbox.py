"""Leader's end of the store: it reads what the participants wrote, and writes commands to all of them.

Node 0's own process exchanges its messages without the store, where others could change them.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from distdoctor.model.bounds import MAX_RANKS, count
from distdoctor.model.facts import BadFacts, Caller, NodeFacts, StageFacts, decode, encode
from distdoctor.model.plan import Plan
from distdoctor.model.report import Report
from distdoctor.model.text import fit
from distdoctor.session.protocol.messages import Command, Event, RunKeys, Transcript, pack, read_event, read_facts
from distdoctor.session.protocol.trust import SURPLUS, NotAuthentic, NotSealed, Seal
from distdoctor.store.client import Oversize, StoreClient

LOOK_SECONDS = 2.0
"""Interval at which all keys are read although no participant counted up: anybody can set a counter. Longer with many
participants."""
PARTICIPANTS_PER_SECOND = 500
PART_BYTES = 4 * 1024 * 1024
MAX_NOTES = 8
MAX_STRAYS = 16
MAX_CALLERS = 16


class Inbox:
    """Messages between the leader and the participants."""

    def __init__(self, client: StoreClient, run: str, seal: Seal, planned: int) -> None:
        """Count the messages of this process as read. ``planned``: number of processes that are to join."""
        self.client, self.keys, self.seal = client, RunKeys(run), seal
        self.participants: dict[int, Participant] = {}
        self.own_commands: asyncio.Queue[Command] = asyncio.Queue()
        """Commands for node 0's own process."""
        self.report: Report | None = None
        self.transcript = Transcript()
        """Hash of all commands, with which node 0's listener confirms the store's content."""
        self.forged: dict[str, str] = {}
        """Key -> what is wrong with the value found there."""
        self.listens_on: int | None = None
        self.strays: dict[str, NodeFacts] = {}
        """Facts of processes that look for this store at another address or port, by node key."""
        self.callers: list[Caller | None] = []
        """Processes refused because of their token, in the order of their calls; None for an unreadable account."""
        self._most = max(2 * planned, planned + SURPLUS)
        self._tick = -1
        self._looked = 0.0
        self._news = False
        """True if node 0's own process has written since."""
        self._ranks = 0
        self._sequence = 0
        self._written: dict[str, bytes] = {}

    @property
    def own(self) -> Participant | None:
        """Return the participant that is the leader's own process."""
        return self.participants.get(OWN)

    @property
    def present(self) -> list[Participant]:
        """Return the participants that are still there."""
        return [m for m in self.participants.values() if not (m.left or m.lost)]

    @property
    def notes(self) -> tuple[str, ...]:
        """Return notes on values in the store that nobody of this run wrote."""
        shown = [f"{place} {what}" for place, what in list(self.forged.items())[:MAX_NOTES]]
        more = len(self.forged) - len(shown)
        return (*shown, *([f"and {more} more"] if more else []))

    async def read_strays(self) -> None:
        """Read the facts of processes that look for this store at another address or port."""
        count = min(await self.number(self.keys.astray), MAX_STRAYS)
        for number in range(1, count + 1):
            key = self.keys.stray(number)
            try:
                value = await self.client.get(key)
                facts = read_facts(self.seal.open(key, value)) if value is not None else None
            except (NotSealed, NotAuthentic, Oversize, BadFacts):
                continue  # of another run, or forged: nothing depends on it
            known = {participant.facts.key for participant in self.participants.values()}
            if facts is not None and facts.key not in known:
                self.strays[facts.key] = of_another(facts)

    async def read_callers(self, plan: Plan) -> None:
        """Read the accounts of processes refused because of their tokens."""
        count = min(await self.number(RunKeys.callers(plan)), MAX_CALLERS)
        for number in range(1 + len(self.callers), count + 1):
            try:
                value = await self.client.get(RunKeys.caller(plan, number))
                if value is None:
                    return  # it is being written
                caller = decode(value, Caller)
            except (Oversize, BadFacts):
                caller = None
            self.callers.append(caller and replace(caller, host=fit(caller.host), address=fit(caller.address)))

    def deliver(self, event: Event) -> None:
        """Take a message of node 0's own process."""
        own = self.own
        if own is not None:
            own.take(event)
        elif event.facts is not None:
            # First: the others count from 1.
            self.participants = {OWN: Participant(OWN, event.facts, event.mesh_port), **self.participants}
            self.listens_on = event.mesh_port
            self._ranks += len(event.facts.ranks)
        self._news = True

    async def send(self, command: Command) -> None:
        data = encode(command)
        key = self.keys.command(self._sequence)
        await self._free(key)
        self._sequence += 1  # counted first: a write that has begun is carried out
        self.transcript.add(data)
        self.own_commands.put_nowait(command)
        value = self._written[key] = self.seal.close(key, data)
        await self.client.set(key, value)

    async def publish(self, report: Report, site_checks: Collection[str] = ()) -> None:
        """Publish the report. Of its lines per check, which are as long as all the rest, only those of a site."""
        self.report = report
        data = pack(encode(replace(report, checks=tuple(one for one in report.checks if one.id in site_checks))))
        parts = [data[i : i + PART_BYTES] for i in range(0, len(data), PART_BYTES)]
        for place, part in enumerate(parts):
            key = self.keys.report(place)
            await self.client.set(key, self.seal.close(key, part))
        met = {str(m.number): m.nonce for m in self.participants.values() if m.number != OWN}
        digest = hashlib.sha256(data).hexdigest()
        await self.send(Command("report", parts=len(parts), digest=digest, met=met, port=self.listens_on, packed=True))

    async def verify(self) -> None:
        """Note values that somebody else wrote under the keys that only the leader writes."""
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
        """Read all new messages. Return whether there were any."""
        tick, now = await self.number(self.keys.tick), time.monotonic()
        pause = max(LOOK_SECONDS, len(self.participants) / PARTICIPANTS_PER_SECOND)
        if tick == self._tick and not self._news and now - self._looked < pause:
            return False
        before = len(self.participants), sum(m.sequence for m in self.participants.values())
        for number in range(1, min(await self._announced(), self._most) + 1):
            if number not in self.participants:
                await self._greet(number)
            participant = self.participants.get(number)
            while participant is not None and (event := await self._event(number, participant.sequence)) is not None:
                participant.sequence += 1
                participant.take(event)
        changed = (
            self._news
            or tick != self._tick
            or before != (len(self.participants), sum(m.sequence for m in self.participants.values()))
        )
        # Last: a poll that was cancelled half way is repeated.
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
        self.participants[number] = Participant(number, of_another(hello.facts), hello.mesh_port, nonce=hello.nonce)

    async def unheard(self) -> bool:
        """Return whether a process has enrolled that has not said hello yet."""
        return await self._announced() > sum(number != OWN for number in self.participants)

    async def _announced(self) -> int:
        """Return the number of processes that enrolled."""
        count = await self.number(self.keys.members)
        if count > self._most:
            self._distrust(self.keys.members, f"counts {count} processes; {self._most} at most are looked at")
        return count

    async def number(self, key: str) -> int:
        """Return the counter under ``key``."""
        value = await self._value(key)
        number = count(value) if value is not None else 0
        if number is None:
            self._distrust(key, "is no number that was counted")
        return number or 0

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


# Participant of the run, as node 0 knows it: a started process and its messages so far.


OWN = 0
"""Number of node 0's own process; the others count from 1."""


@dataclass
class Participant:
    """One started process: its state, and the results of its stages."""

    number: int
    facts: NodeFacts
    mesh_port: int | None
    sequence: int = 1
    nonce: str = ""
    results: dict[tuple[str, int], Event] = field(default_factory=dict)
    """(stage, attempt) -> its result."""
    troubled: set[tuple[str, int]] = field(default_factory=set)
    left: bool = False
    """True if it was interrupted and said so."""
    lost: bool = False
    """True if it stopped responding."""
    there: bool = False
    """True if its process still existed then: its kernel accepted connections for it."""
    stalled: StageFacts | None = None
    """Stage that it did not finish in time."""

    @property
    def gpus(self) -> int:
        """Return the number of devices that its first rank sees."""
        gpu = self.facts.ranks[0].gpu if self.facts.ranks else None
        return len(gpu.visible) if gpu else 0

    @property
    def cuda_start(self) -> float:
        """Return the seconds until CUDA works there: many, if the driver unloads itself while nobody uses it."""
        return max((rank.gpu.started or 0.0 for rank in self.facts.ranks if rank.gpu), default=0.0)

    def take(self, event: Event) -> None:
        """Take one of its messages."""
        if event.facts is not None and event.facts.key == self.facts.key:
            self.facts = event.facts if self.number == OWN else of_another(event.facts)
        if event.kind == "result":
            self.results[event.stage, event.attempt] = event
        elif event.kind == "trouble":
            self.troubled.add((event.stage, event.attempt))
        elif event.kind == "left":
            self.left = True


def of_another(facts: NodeFacts) -> NodeFacts:
    """Return the facts of another process without what only node 0 can know. Groups that it tried with its own ranks
    stay."""
    if facts.meeting is not None:
        facts = replace(facts, meeting=replace(facts.meeting, hosted=False, arrived=(), expected=0, lost=()))
    tried = tuple(group for group in facts.groups if group.ranks and group.nodes == (facts.key,))
    return replace(facts, trials=(), groups=tried)
