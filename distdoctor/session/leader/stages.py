"""Opening of a stage for all: node 0 sends the command, and waits until every participant has ended it or is gone."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from distdoctor.mesh.listener import addresses_of
from distdoctor.model.addresses import reaches_no_other
from distdoctor.model.facts import ConnectOutcome, StageFacts
from distdoctor.model.facts.node import STOOD_STILL
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES, Stage
from distdoctor.probes.network.tcp import connect
from distdoctor.session.leader.inbox import OWN, Inbox, Participant
from distdoctor.session.protocol.messages import Command

LEAST_SECONDS = 2.0
"""Least seconds of ``--timeout`` left to open a stage: with less it would fail for lack of time, which is no fault."""
LATE_SECONDS = 4.0
"""Seconds after its deadline in which results of a stage may still arrive."""


class StageOpener:
    """Opens stages until the run's time is over, at ``deadline`` (of the monotonic clock)."""

    def __init__(self, inbox: Inbox, deadline: float) -> None:
        self._inbox, self._deadline = inbox, deadline

    @property
    def time_left(self) -> bool:
        """Return whether there is time for a further stage."""
        return self._deadline - time.monotonic() >= LEAST_SECONDS

    async def open(self, stage: Stage, numbering: Numbering, seconds: float, **more: Any) -> bool:
        """Return whether ``stage`` succeeded everywhere within ``seconds``; ``more``: further fields of the command."""
        command = Command(
            "stage",
            stage.name,
            seconds=min(seconds, max(self._deadline - time.monotonic(), LEAST_SECONDS)),
            world=numbering.world,
            ranks=dict(numbering.ranks),
            group_ranks=dict(numbering.group_ranks),
            node_ranks=dict(numbering.node_ranks),
            **more,
        )
        await self._inbox.send(command)
        return await self._ended(stage, command)

    async def _ended(self, stage: Stage, command: Command) -> bool:
        mark = (command.stage, command.attempt)
        began = time.monotonic()
        end, aborted = began + command.seconds + LATE_SECONDS, False
        everyone = self._inbox.participants.values()
        waiting = [
            participant for participant in everyone if str(participant.number) in command.ranks and not participant.lost
        ]
        heartbeats = Heartbeats(self._inbox)
        while True:
            await self._inbox.poll()
            open_ = [
                participant
                for participant in waiting
                if mark not in participant.results and not (participant.left or participant.lost)
            ]
            await heartbeats.mark_lost(open_)
            failed = any(
                mark in participant.troubled
                or participant.left
                or participant.lost
                or (mark in participant.results and not participant.results[mark].ok)
                for participant in waiting
            )
            if failed and not aborted and open_ and stage.ends_everywhere:
                # The others would wait for their full timeout.
                aborted = True
                await self._inbox.send(Command("abort", command.stage))
                end = min(end, time.monotonic() + LATE_SECONDS)
            if not open_ or time.monotonic() > end:
                break
            await asyncio.sleep(0.01)
        there = await asyncio.gather(*(listens(participant) for participant in open_))
        for participant, still in zip(open_, there, strict=True):
            participant.lost, participant.there = True, still
        for participant in waiting:
            if participant.lost and participant.there and stage.name in STAGES:
                participant.stalled = StageFacts(stage.name, "error", round(time.monotonic() - began, 3), STOOD_STILL)
        return not failed and not open_


# Liveness of the participants, as node 0 sees it.


SILENT_SECONDS = 6.0
"""Silence after which a participant is suspect: six of its heartbeats."""
GONE_SECONDS = 4.0
"""Silence after which it is gone if its kernel refuses a connection to its listener: the listener ends with its
process."""
STALLED_SECONDS = 15.0
"""Silence after which it is gone although its listener exists: it was stopped, or gets no processor, and may go on."""
KNOCK_SECONDS = 1.0
"""Limit for its kernel to accept a connection."""


class Heartbeats:
    """Watches the participants: a killed process cannot say so, and the others would wait for it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def mark_lost(self, participants: Sequence[Participant]) -> None:
        """Mark those of ``participants`` as lost that have shown nothing for SILENT_SECONDS and are gone."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        silent = []
        for participant in participants:
            if participant.number == OWN:
                continue
            beat = await self._inbox.number(self._inbox.keys.beat(participant.number))
            before, since = self._beats.get(participant.number, (-1, now))
            self._beats[participant.number] = (beat, now if beat != before else since)
            if beat == before and now - since > GONE_SECONDS:
                silent.append((participant, now - since))
        answers = await asyncio.gather(*(connect_to_listener(participant) for participant, _ in silent))
        for (participant, seconds), answer in zip(silent, answers, strict=True):
            participant.there = answer == "open"
            if answer == "refused":
                participant.lost = True
            else:
                participant.lost = seconds > (STALLED_SECONDS if participant.there else SILENT_SECONDS)


async def listens(participant: Participant) -> bool:
    """Return whether the listener of a participant still exists."""
    return await connect_to_listener(participant) == "open"


async def connect_to_listener(participant: Participant) -> ConnectOutcome | None:
    """Return the result of a connection to its listener: a kernel accepts for a stopped process, and refuses for an
    ended one.

    None if it has no listener.
    """
    address = next((address for _, address in addresses_of(participant.facts, nccl=False)), None)
    # Its address is its own claim: nobody is to learn by it what listens on this host's loopback.
    if participant.mesh_port is None or address is None or reaches_no_other(address):
        return None
    return (await connect(address, participant.mesh_port, KNOCK_SECONDS)).outcome


# Numbering: the ranks of each participant's processes, in the job and among those present.


@dataclass(frozen=True)
class Numbering:
    """Number of a participant (as text, for JSON) -> its ranks, one per process."""

    ranks: Mapping[str, tuple[int, ...]]
    """Ranks in the job."""
    group_ranks: Mapping[str, tuple[int, ...]]
    """Ranks of the same processes in the groups of the check: those present, numbered from 0."""
    node_ranks: Mapping[str, int]
    world: int
    """Number of ranks that are present."""


def assign_ranks(present: Sequence[Participant], plan: Plan, own: Participant | None) -> Numbering:
    """Return the numbering of ``present`` by node 0's ``plan``; ``own`` is node 0."""
    node_ranks: dict[str, int] = {}
    if plan.started == "rank":
        labels: dict[int, tuple[int, ...]] = {m.number: (m.facts.plan.rank or 0,) for m in present}
    else:
        node_ranks = _node_ranks(present, own)
        labels = _per_node(present, node_ranks, plan.nproc_per_node or 1)
    ordered = sorted((label, number, place) for number, ls in labels.items() for place, label in enumerate(ls))
    group: dict[int, list[int]] = {number: [0] * len(ls) for number, ls in labels.items()}
    for group_rank, (_, number, place) in enumerate(ordered):
        group[number][place] = group_rank
    return Numbering(
        {str(number): ls for number, ls in labels.items()},
        {str(number): tuple(places) for number, places in group.items()},
        node_ranks,
        len(ordered),
    )


def _node_ranks(present: Sequence[Participant], own: Participant | None) -> dict[str, int]:
    """Return the node ranks: declared ones stay; node 0 takes 0, the others the free ones in the order of joining."""
    taken = {m.facts.plan.node_rank for m in present}
    free = iter([rank for rank in range(2 * len(present) + 1) if rank not in taken])
    found = {}
    for m in sorted(present, key=lambda m: (m is not own, m.number)):
        declared = m.facts.plan.node_rank
        found[str(m.number)] = declared if declared is not None else next(free)
    return found


def _per_node(present: Sequence[Participant], node_ranks: Mapping[str, int], usual: int) -> dict[int, tuple[int, ...]]:
    """Return the ranks of each node, counted in node order, with room for nodes that did not join."""
    labels: dict[int, tuple[int, ...]] = {}
    base, previous = 0, -1
    for m in sorted(present, key=lambda m: node_ranks[str(m.number)]):
        size, rank = m.facts.plan.nproc_per_node or 1, node_ranks[str(m.number)]
        base += max(0, rank - previous - 1) * usual
        labels[m.number] = tuple(range(base, base + size))
        base, previous = base + size, rank
    return labels
