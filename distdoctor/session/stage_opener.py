"""Opening a stage for all: node 0 sends the command, and waits until everyone has ended it or has gone."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from distdoctor.model.facts import StageFacts
from distdoctor.model.facts.node import STOOD_STILL
from distdoctor.model.stages import STAGES, Stage
from distdoctor.session.heartbeats import Heartbeats, listens
from distdoctor.session.inbox import Inbox
from distdoctor.session.protocol import Command
from distdoctor.session.rank_assignment import Numbering

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
        """Whether there is time for a further stage."""
        return self._deadline - time.monotonic() >= LEAST_SECONDS

    async def open(self, stage: Stage, numbering: Numbering, seconds: float, **more: Any) -> bool:
        """Whether ``stage`` went well everywhere, in ``seconds`` at most; ``more`` is what else the command says."""
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
