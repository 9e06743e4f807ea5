"""What is told while waiting may still cure it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace

from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.model.facts import Contact, MeetingFacts, NetworkFacts, NodeFacts
from distdoctor.model.findings import Finding
from distdoctor.render.words import fold
from distdoctor.session.options import Options
from distdoctor.session.recorder import Recorder

SO_FAR_AFTER = 3.5
OWN_START_SECONDS = 1.0
"""Of what the program took to start itself no more counts as waiting: who is slow himself waits for others who are."""
TELL_AGAIN_SECONDS = 1.0
UNANSWERED_SECONDS = 2.0
"""How long an attempt to connect goes on before what it looks like may be told."""


def judge_facts(facts: Sequence[NodeFacts], options: Options) -> tuple[Finding, ...]:
    """The root causes of severity fail in these facts."""
    found = judge(build(facts), options.checks, options.ignore).roots
    return tuple(finding for finding in found if finding.severity == "fail")


def waiting_since(started: float, launched: float) -> float:
    """Since when a process has kept its user waiting, of the monotonic clock: from the command on (``launched``), and
    not only from when its run began (``started``)."""
    return max(launched, started - OWN_START_SECONDS)


def so_far(finding: Finding, left: float, limit: float) -> str:
    """The line that tells what is wrong while waiting may still cure it. ``left`` of ``limit`` seconds remain."""
    waited = f"{max(limit - left, 0):.0f} s of {limit:.0f} s"
    if not finding.incomplete:
        return f"so far: {finding.check}: {finding.summary} Still waiting ({waited})."
    # As a finding it says that they never came, which is not known yet. What was seen last stands behind its evidence.
    last = finding.evidence[-1].partition("; ")[2] if finding.evidence else ""
    said = f"still waiting for {fold(finding.nodes)} ({waited})"
    return f"so far: {finding.check}: {said}{f'; {last}' if last else ''}"


class Teller:
    """Tells, once, what keeps one process out of the meeting."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.trying: tuple[str, float] | None = None
        """The address that is being connected to, and since when."""

    def tell(self, left: float) -> None:
        """Say what would be found if waiting ended now, where there is something; ``left`` seconds before it does."""
        recorder = self.recorder
        if recorder.told_so_far or time.monotonic() < self._from() or left < 1.0:
            return
        facts = replace(recorder.facts, meeting=replace(recorder.facts.meeting or MeetingFacts(), ended=True))
        if (pending := self._unanswered()) is not None:
            facts = replace(facts, network=replace(facts.network or NetworkFacts(), contact=pending))
        for finding in judge_facts([facts], recorder.options):
            recorder.told_so_far = True
            recorder.observer.note(so_far(finding, left, recorder.options.wait))

    async def tell_in_time(self, deadline: float) -> None:
        """The same while an attempt to connect goes on: it takes seconds, and the next one as many again."""
        await asyncio.sleep(max(0.0, self._from() - time.monotonic()))
        while not self.recorder.told_so_far:
            contact = self._contact() or self._unanswered()
            if contact is not None and contact.outcome != "open":
                self.tell(deadline - time.monotonic())
            await asyncio.sleep(TELL_AGAIN_SECONDS)

    def _from(self) -> float:
        """When it may be told, of the monotonic clock."""
        return waiting_since(self.recorder.started, self.recorder.launched) + SO_FAR_AFTER

    def _contact(self) -> Contact | None:
        return self.recorder.facts.network.contact if self.recorder.facts.network else None

    def _unanswered(self) -> Contact | None:
        """The first attempt to connect, where it goes on for so long that it counts as one without an answer."""
        if self._contact() is not None or self.trying is None:
            return None
        address, since = self.trying
        seconds = round(time.monotonic() - since, 4)
        if seconds < UNANSWERED_SECONDS or time.monotonic() - self.recorder.started < SO_FAR_AFTER:
            return None
        return Contact(address, self.recorder.facts.plan.master_port, "no-answer", seconds=seconds)
