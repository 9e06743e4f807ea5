"""Who is still there, as node 0 sees it."""

from __future__ import annotations

import time
from collections.abc import Sequence

from distdoctor.session.inbox import Inbox
from distdoctor.session.participant import OWN, Participant

SILENT_SECONDS = 6.0
"""Six times as long as a participant that is alive takes to show it."""


class Heartbeats:
    """Watches who is still there: a process that is killed cannot say so, and the others would wait for it."""

    def __init__(self, inbox: Inbox) -> None:
        self._inbox = inbox
        self._looked = 0.0
        self._beats: dict[int, tuple[int, float]] = {}

    async def feel(self, participants: Sequence[Participant]) -> None:
        """Mark those of ``participants`` as lost that have shown nothing for SILENT_SECONDS."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return
        self._looked = now
        for one in participants:
            if one.number == OWN:
                continue
            beat = await self._inbox.number(self._inbox.keys.beat(one.number))
            before, since = self._beats.get(one.number, (-1, now))
            self._beats[one.number] = (beat, now if beat != before else since)
            one.lost = beat == before and now - since > SILENT_SECONDS
