"""Opening a stage for all: node 0 sends the command, and waits until everyone has ended it or has gone."""

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
"""A stage is not opened with less than this left of ``--timeout``: it would fail for want of time, which is no fault.
"""
LATE_SECONDS = 4.0
"""How long after its seconds a stage's results may still come in."""


class StageOpener:
    """Opens stages until the run's time is over, at ``deadline`` (of the monotonic clock)."""

    def __init__(self, inbox: Inbox, deadline: float) -> None:
        self._inbox, self._deadline = inbox, deadline

    @property
    def time_left(self) -> bool:
        """Return whether there is time for a further stage."""
        return self._deadline - time.monotonic() >= LEAST_SECONDS

    async def open(self, stage: Stage, numbering: Numbering, seconds: float, **more: Any) -> bool:
        """Return whether ``stage`` went well everywhere, in ``seconds`` at most; ``more`` is what else the command
        says."""
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
        waiting = [one for one in everyone if str(one.number) in command.ranks and not one.lost]
        heartbeats = Heartbeats(self._inbox)
        while True:
            await self._inbox.poll()
            open_ = [one for one in waiting if mark not in one.results and not (one.left or one.lost)]
            await heartbeats.feel(open_)
            failed = any(
                mark in one.troubled or one.left or one.lost or (mark in one.results and not one.results[mark].ok)
                for one in waiting
            )
            if failed and not aborted and open_ and stage.ends_everywhere:
                # The others would wait for their full timeout.
                aborted = True
                await self._inbox.send(Command("abort", command.stage))
                end = min(end, time.monotonic() + LATE_SECONDS)
            if not open_ or time.monotonic() > end:
                break
            await asyncio.sleep(0.01)
        there = await asyncio.gather(*(listens(one) for one in open_))
        for one, still in zip(open_, there, strict=True):
            one.lost, one.there = True, still
        for one in waiting:
            if one.lost and one.there and stage.name in STAGES:
                one.stalled = StageFacts(stage.name, "error", round(time.monotonic() - began, 3), STOOD_STILL)
        return not failed and not open_


# Who is still there, as node 0 sees it.


SILENT_SECONDS = 6.0
"""Six times as long as a participant that is alive takes to show it."""
GONE_SECONDS = 4.0
"""The same where the kernel refuses a connection to its listener: that ends with its process, however slow it is."""
STALLED_SECONDS = 15.0
"""The same of one whose listener is still there: it was stopped, or gets no processor, and may go on."""
KNOCK_SECONDS = 1.0
"""How long its kernel may take to accept a connection."""


class Heartbeats:
    """Watches who is still there: a process that is killed cannot say so, and the others would wait for it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def feel(self, participants: Sequence[Participant]) -> None:
        """Mark those of ``participants`` as lost that have shown nothing for SILENT_SECONDS, where they are gone."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        silent = []
        for one in participants:
            if one.number == OWN:
                continue
            beat = await self._inbox.number(self._inbox.keys.beat(one.number))
            before, since = self._beats.get(one.number, (-1, now))
            self._beats[one.number] = (beat, now if beat != before else since)
            if beat == before and now - since > GONE_SECONDS:
                silent.append((one, now - since))
        answers = await asyncio.gather(*(knock(one) for one, _ in silent))
        for (one, seconds), answer in zip(silent, answers, strict=True):
            one.there = answer == "open"
            if answer == "refused":
                one.lost = True
            else:
                one.lost = seconds > (STALLED_SECONDS if one.there else SILENT_SECONDS)


async def listens(one: Participant) -> bool:
    """Return whether the listener of a participant is still there."""
    return await knock(one) == "open"


async def knock(one: Participant) -> ConnectOutcome | None:
    """Return what comes of a connection to its listener: a kernel accepts for a process that does not run, and
    refuses for one that has ended. None where there is none to knock at."""
    address = next((address for _, address in addresses_of(one.facts, nccl=False)), None)
    # Its facts are its own word: nobody is to learn by them what listens on this host's loopback.
    if one.mesh_port is None or address is None or reaches_no_other(address):
        return None
    return (await connect(address, one.mesh_port, KNOCK_SECONDS)).outcome


# Numbering: which ranks each participant's processes take, in the job and among those present.


@dataclass(frozen=True)
class Numbering:
    """Number of a participant (as text, for JSON) -> its ranks, one per process."""

    ranks: Mapping[str, tuple[int, ...]]
    """The job's ranks."""
    group_ranks: Mapping[str, tuple[int, ...]]
    """The same processes in the doctor's own groups: those present, numbered from 0."""
    node_ranks: Mapping[str, int]
    world: int
    """How many ranks are present."""


def assign_ranks(present: Sequence[Participant], plan: Plan, own: Participant | None) -> Numbering:
    """The numbering of ``present``, by node 0's ``plan``; ``own`` is node 0."""
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
    """Declared node ranks stay; node 0 takes 0, the others the free ones in the order in which they came."""
    taken = {m.facts.plan.node_rank for m in present}
    free = iter([rank for rank in range(2 * len(present) + 1) if rank not in taken])
    found = {}
    for m in sorted(present, key=lambda m: (m is not own, m.number)):
        declared = m.facts.plan.node_rank
        found[str(m.number)] = declared if declared is not None else next(free)
    return found


def _per_node(present: Sequence[Participant], node_ranks: Mapping[str, int], usual: int) -> dict[int, tuple[int, ...]]:
    """The ranks of each node: counted through in node order, with room for nodes that never came."""
    labels: dict[int, tuple[int, ...]] = {}
    base, previous = 0, -1
    for m in sorted(present, key=lambda m: node_ranks[str(m.number)]):
        size, rank = m.facts.plan.nproc_per_node or 1, node_ranks[str(m.number)]
        base += max(0, rank - previous - 1) * usual
        labels[m.number] = tuple(range(base, base + size))
        base, previous = base + size, rank
    return labels
