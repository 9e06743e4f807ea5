"""Who is still there, as node 0 sees it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from distdoctor.mesh.target import addresses_of
from distdoctor.model.addresses import reaches_no_other
from distdoctor.model.facts import ConnectOutcome
from distdoctor.probes.connect import connect
from distdoctor.session.inbox import Inbox
from distdoctor.session.participant import OWN, Participant

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
    """Whether the listener of a participant is still there."""
    return await knock(one) == "open"


async def knock(one: Participant) -> ConnectOutcome | None:
    """What comes of a connection to its listener: a kernel accepts for a process that does not run, and refuses for one
    that has ended. None where there is none to knock at."""
    address = next((address for _, address in addresses_of(one.facts, nccl=False)), None)
    # Its facts are its own word: nobody is to learn by them what listens on this host's loopback.
    if one.mesh_port is None or address is None or reaches_no_other(address):
        return None
    return (await connect(address, one.mesh_port, KNOCK_SECONDS)).outcome
