"""What is told while waiting may still cure it."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import replace

from distdoctor.judge.engine import judge
from distdoctor.model.cluster import build
from distdoctor.model.facts import Contact, MeetingFacts, NetworkFacts, NodeFacts
from distdoctor.model.findings import Finding
from distdoctor.model.observer import Observer
from distdoctor.ranks.supervisor import Zygote
from distdoctor.render.words import fold
from distdoctor.session.options import Options
from distdoctor.session.recorder import Recorder

SO_FAR_AFTER = 3.5
OWN_START_SECONDS = 1.0
"""Of what the program took to start itself no more counts as waiting: who is slow himself waits for others who are."""
SETTLED_SECONDS, LONGEST_SETTLED = 1.0, 1.5
"""How long a process is ready itself before it is news that another is not: that one may still import torch. It is a
third of what it took itself, within these two."""
PATIENT_SECONDS = 20.0
"""After that it is news also for who still imports torch himself."""
LAST_CHANCE = 2.0
"""Seconds before waiting ends in which it is told in any case."""
TELL_AGAIN_SECONDS = 1.0
_NUMBER = r"\d+(?:\.\d+)?"
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


def news_at(waiting: float, ready: float) -> float:
    """When it is news that somebody is missing, for who waits since ``waiting`` and was ready himself at ``ready``; all
    of the monotonic clock."""
    settled = min(LONGEST_SETTLED, max(SETTLED_SECONDS, (ready - waiting) / 3))
    return max(waiting + SO_FAR_AFTER, ready + settled)


def tell_so_far(observer: Observer, findings: Sequence[Finding], left: float, limit: float) -> None:
    """Tell what is wrong while waiting may still cure it. ``left`` of ``limit`` seconds remain."""
    waited = f"{max(limit - left, 0):.0f} s of {limit:.0f} s"
    for finding in findings:
        text = so_far(finding)
        key = f"{finding.check} {finding.nodes} {re.sub(_NUMBER, '0', text)}"  # seconds that pass are no news
        observer.so_far(key, text, waited)


def so_far(finding: Finding) -> str:
    """The line on one finding, without the time."""
    if not finding.incomplete:
        return f"so far: {finding.check}: {finding.summary} Still waiting"
    # As a finding it says that they never came, which is not known yet. What was seen last stands behind its evidence.
    last = finding.evidence[-1].partition("; ")[2] if finding.evidence else ""
    return f"so far: {finding.check}: still waiting for {fold(finding.nodes)}{f'; {last}' if last else ''}"


class Teller:
    """Tells what keeps one process out of the meeting."""

    def __init__(self, recorder: Recorder, zygote: Zygote | None = None) -> None:
        self.recorder, self.zygote = recorder, zygote
        self.trying: tuple[str, float] | None = None
        """The address that is being connected to, and since when."""
        self._next = 0.0
        """When it is told again, of the monotonic clock."""

    def tell(self, left: float) -> None:
        """Say what would be found if waiting ended now, where there is something; ``left`` seconds before it does."""
        recorder = self.recorder
        now = time.monotonic()
        if now < self._next or now < self._from() or left < 1.0:
            return
        if self.node0_may_be_late() and left > LAST_CHANCE:
            return
        facts = replace(recorder.facts, meeting=replace(recorder.facts.meeting or MeetingFacts(), ended=True))
        if (pending := self._unanswered()) is not None:
            facts = replace(facts, network=replace(facts.network or NetworkFacts(), contact=pending))
        self._next = now + TELL_AGAIN_SECONDS
        findings = judge_facts([facts], recorder.options)
        recorder.told_so_far |= bool(findings)
        tell_so_far(recorder.observer, findings, left, recorder.options.wait)

    async def tell_in_time(self, deadline: float) -> None:
        """The same while an attempt to connect goes on: it takes seconds, and the next one as many again."""
        await asyncio.sleep(max(0.0, self._from() - time.monotonic()))
        while True:
            contact = self._contact() or self._unanswered()
            if contact is not None and contact.outcome != "open":
                self.tell(deadline - time.monotonic())
            await asyncio.sleep(TELL_AGAIN_SECONDS)

    def _from(self) -> float:
        """When it may be told, of the monotonic clock."""
        return waiting_since(self.recorder.started, self.recorder.launched) + SO_FAR_AFTER

    def node0_may_be_late(self) -> bool:
        """Whether nobody listens at the master's port yet, and node 0 may still be at what this process has just done:
        it opens the port once it has imported torch."""
        contact, now = self._contact(), time.monotonic()
        if contact is None or contact.outcome != "refused" or self.zygote is None:
            return False
        waiting, ready = waiting_since(self.recorder.started, self.recorder.launched), self.zygote.imported
        return now < waiting + PATIENT_SECONDS if ready is None else now < news_at(waiting, ready)

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
