"""Roll call: node 0 waits until all planned processes have joined, or until waiting is over."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from distdoctor.judge.catalog import Check
from distdoctor.judge.engine import judge
from distdoctor.model.cluster import Cluster
from distdoctor.model.findings import Finding
from distdoctor.model.launch_settings import VARIABLE
from distdoctor.model.plan import Plan
from distdoctor.model.stages import ALONE, BY_NAME, ENVIRONMENT
from distdoctor.session.context import RunContext
from distdoctor.session.leader.inbox import Inbox, Participant
from distdoctor.session.options import Options
from distdoctor.session.rendezvous.progress import REPORT_AGAIN_SECONDS, judge_facts, news_at, report_progress

CONFLICT_SECONDS, LATE_SECONDS = 1.0, 3.0
"""Seconds for which the roll stays open once the plans contradict each other, to name nodes that join just then.

It is as long as the wait so far, within these two: where processors are busy, all nodes join slowly.
"""


CALLED = {
    "missing": f"called without the token that {VARIABLE} sets here",
    "different": f"called with another token than that of {VARIABLE} here",
    "unexpected": f"called with a token, and none is set here ({VARIABLE})",
}


class RollCall:
    """Processes that joined, and processes that were expected."""

    def __init__(
        self, context: RunContext, inbox: Inbox, cluster: Callable[[], Cluster], foreseen: EarlyVerdict
    ) -> None:
        self._context, self._options, self._inbox = context, context.options, inbox
        self._cluster, self._foreseen = cluster, foreseen
        self._reported = False
        self._named = 0
        """Number of refused processes that have been reported."""
        self._missing: tuple[Finding, ...] = ()
        self.ended = False
        self.cut_short = False
        self.waited = 0.0
        self.expected = 0
        self.in_time: set[int] = set()

    async def call(self) -> None:
        """Wait until all have joined, waiting is over, or the plans contradict each other."""
        plan = self._context.plan
        deadline, conflict, reported = self._context.clock.waits_until(), None, 0.0
        self.expected = planned(plan)
        what = "ranks" if plan.started == "rank" else "nodes"
        again = 0.0
        news = news_at(self._context.clock.waiting_since, time.monotonic())
        while True:
            changed = await self._inbox.poll()
            now = time.monotonic()
            self.waited = now - self._context.clock.started
            if changed and conflict is None and self._conflicts():
                conflict = now
            if conflict is not None and now - conflict > self._stays_open(conflict):
                self.cut_short = not self._all_here()
                break
            if conflict is None and self._all_here():
                break
            if now > deadline:
                break
            if now > news and (changed or now > again):
                again = now + REPORT_AGAIN_SECONDS
                self._report_missing(deadline - now, changed)
            if (changed or now - reported > 1.0) and self.expected > 1:
                reported = now
                names = [m.facts.identity.hostname for m in self._inbox.participants.values()]
                self._context.observer.waiting(names, self.expected, what, deadline - now)
                await self._inbox.read_callers(plan)
                self._name_callers()
            await asyncio.sleep(0.02)
        if not self._all_here():
            await self._inbox.read_strays()
            await self._inbox.read_callers(plan)
        self.ended = True
        self.in_time = set(self._inbox.participants)

    def break_off(self) -> None:
        """End the roll after an interruption; a missing node stays reported if it was."""
        self.ended = self.ended or self._reported

    def arrived(self) -> list[Participant]:
        """Return the processes that joined the roll call; one that joined a full roll is surplus, and counts."""
        everyone = list(self._inbox.participants.values())
        if not self.in_time or len(self.in_time) >= self.expected:
            return everyone
        return [m for m in everyone if m.number in self.in_time]

    async def hear_surplus(self) -> None:
        """Wait up to LATE_SECONDS for surplus processes, if all planned ones have joined."""
        end = time.monotonic() + LATE_SECONDS
        while self._all_here() and time.monotonic() < end and await self._inbox.unheard():
            await asyncio.sleep(0.02)
            await self._inbox.poll()

    def _name_callers(self) -> None:
        """Report each refused process and the reason, once."""
        for caller in self._inbox.callers[self._named :]:
            if caller is not None:
                self._context.observer.note(f"so far: {caller.host} ({caller.address}) {CALLED[caller.token]}")
        self._named = len(self._inbox.callers)

    def _all_here(self) -> bool:
        if self._inbox.own is None:
            return False
        if self._context.plan.started == "rank":
            ranks = {m.facts.plan.rank for m in self._inbox.participants.values()}
            return len(ranks - {None}) >= self.expected
        return len(self._inbox.participants) >= self.expected

    def _conflicts(self) -> bool:
        """Return whether the plans as they are now would fail whoever else joins: no later stage has to run for it."""
        return bool(self._inbox.participants) and self._foreseen.conflicts(self._cluster())

    def _stays_open(self, conflict: float) -> float:
        """Return the seconds for which the roll stays open from then on."""
        return (
            CONFLICT_SECONDS
            if self._all_here()
            else max(CONFLICT_SECONDS, min(LATE_SECONDS, conflict - self._context.clock.started))
        )

    def _report_missing(self, left: float, changed: bool) -> None:
        """Report who would be missing if waiting ended now. It is judged again if somebody joined."""
        first, self._reported = not self._reported, True
        if self.expected == 1 or left < 1.0:
            return
        if changed or first:
            self.ended = True
            self._missing = judge_facts(self._cluster().slices, self._options)
            self.ended = False
        report_progress(self._context.observer, self._missing, left, self._context.clock.wait)


def planned(plan: Plan) -> int:
    """Return the number of processes that are to join."""
    return (plan.world_size if plan.started == "rank" else plan.nnodes) or 1


# Early verdict, asked between the stages: no time is lost on what is known to fail.


class EarlyVerdict:
    """Runs only the checks that the question needs; a known failure stays known."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._doomed = False
        self._asked_alone = False

    def conflicts(self, cluster: Cluster) -> bool:
        """Return whether the plans contradict each other: the job would fail whoever else joins."""
        return self.fails(cluster, ENVIRONMENT.name)

    def fails(self, cluster: Cluster, stage: str) -> bool:
        """Return whether the job fails at that stage; for a stage that tries the links, other checks of the links
        count, too."""
        links = BY_NAME[stage].links
        return self._fails(cluster, lambda check: check.stage == stage or (links and stage in check.looks_at))

    def doomed(self, cluster: Cluster, after: str) -> bool:
        """Return whether anything makes the job fail, now that the stage ``after`` has run.

        The facts that each node collects alone are judged when the nodes have joined, and again once the links are
        measured, which say more of the same: nothing else changes them.
        """
        again = not self._asked_alone or BY_NAME[after].links
        self._asked_alone = True
        if not self._doomed:
            self._doomed = self._fails(cluster, lambda check: again or check.stage not in ALONE)
        return self._doomed

    def _fails(self, cluster: Cluster, wanted: Callable[[Check], bool]) -> bool:
        return any(self._any_fails(cluster, [check]) for check in self._options.checks if wanted(check))

    def _any_fails(self, cluster: Cluster, checks: Sequence[Check]) -> bool:
        return any(finding.severity == "fail" for finding in judge(cluster, checks, self._options.ignore).findings)
