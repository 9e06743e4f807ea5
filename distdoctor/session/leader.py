"""The lead: node 0's other half. It calls the roll, opens each stage for all, tries fixes, judges and publishes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from distdoctor.judge.engine import Judgement, judge
from distdoctor.mesh.target import Target
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import MeetingFacts, NodeFacts, StageFacts, Trial
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report
from distdoctor.model.stages import (
    ALONE,
    BY_NAME,
    SECONDS_PER_RANK,
    TRIAL,
    TRIED_AGAIN,
    Stage,
    opened_up_to,
    stands_on,
)
from distdoctor.session.fix_trial import choose
from distdoctor.session.foreseen import Foreseen
from distdoctor.session.inbox import OWN, Heartbeats, Inbox, Participant
from distdoctor.session.options import Options
from distdoctor.session.protocol import Command
from distdoctor.session.rank_assignment import Numbering, assign_ranks
from distdoctor.session.roll_call import RollCall

LEAST_SECONDS = 2.0
"""A stage is not opened with less than this left of ``--timeout``: it would fail for want of time, which is no fault.
"""
LATE_SECONDS = 4.0
"""How long after its seconds a stage's results may still come in."""


class Leader:
    """Runs in the process of node 0 that hosts the store (under torchrun: rank 0's)."""

    def __init__(
        self,
        options: Options,
        observer: Observer,
        mail: Inbox,
        make_report: Callable[[Cluster, Judgement, bool], Report],
        started: float,
    ) -> None:
        self.options, self.observer, self.mail, self.make_report = options, observer, mail, make_report
        self.plan = options.plan
        self.foreseen = Foreseen(options)
        self.roll = RollCall(options, observer, mail, self.cluster, self.foreseen, started)
        self.trials: list[Trial] = []
        self.skipped: list[StageFacts] = []
        self.climbed = ALONE[-1]
        self.timed_out = False
        self.published = False

    async def run(self) -> None:
        """From the roll call to the published report."""
        await self.roll.call()
        self.deadline = time.monotonic() + self.options.timeout
        if not self.foreseen.conflicts(self.cluster()):
            await self._climb()
        await self.publish()

    async def publish(self, interrupted: bool = False) -> None:
        """Judge all facts and let every member have the report."""
        if self.published:
            return
        self.published = True
        await self.mail.poll()
        await self.mail.verify()
        cluster = self.cluster()
        judgement = judge(cluster, self.options.checks, self.options.ignore)
        await self.mail.publish(self.make_report(cluster, judgement, interrupted or self.timed_out))

    async def farewell(self, seconds: float = 2.0) -> None:
        """Wait until every member has printed; then let them go."""
        end = time.monotonic() + seconds
        there = len(self.mail.present)
        while time.monotonic() < end and await self.mail.number(self.mail.keys.bye) < there:
            await asyncio.sleep(0.01)
        await self.mail.client.set(self.mail.keys.done, b"1")
        await self.mail.client.has(self.mail.keys.done)

    def cluster(self) -> Cluster:
        """All facts so far, with the lead's own record of the meeting in those of node 0."""
        own = self.mail.own.facts.meeting if self.mail.own else None
        record = MeetingFacts(
            joined=True,
            ours=True,
            hosted=True,
            waited=round(self.roll.waited, 2),
            wait_limit=self.options.wait,
            ended=self.roll.ended,
            arrived=tuple(m.facts.key for m in self.roll.arrived()),
            expected=self.roll.expected,
            counts="ranks" if self.plan.started == "rank" else "nodes",
            lost=tuple(m.facts.key for m in self.mail.members.values() if m.lost),
            token="agreed" if self.mail.seal.keyed else "",
            forged=(*(own.forged if own else ()), *self.mail.notes),
        )
        return build(
            replace(self._with_skipped(m), meeting=record, trials=tuple(self.trials))
            if m is self.mail.own
            else self._with_skipped(m)
            for m in self.mail.members.values()
        )

    def _with_skipped(self, member: Participant) -> NodeFacts:
        """A member's facts with the stages left out since it wrote last: it has no reason to write for them."""
        facts = member.facts
        if member.left or member.lost:
            return facts
        known = {entry.stage for entry in facts.stages}
        return replace(facts, stages=(*facts.stages, *(entry for entry in self.skipped if entry.stage not in known)))

    def own_facts(self) -> NodeFacts | None:
        """Node 0's facts, with the lead's record in them."""
        own = self.mail.own
        if own is None:
            return None
        return next((s for s in self.cluster().slices if s.key == own.facts.key), None)

    # -- the climb --------------------------------------------------------------------------------------------

    async def _climb(self) -> None:
        numbering = assign_ranks(
            [m for m in self.mail.present if m.number in self.roll.in_time], self.plan, self.mail.own
        )
        failed: list[str] = []
        for stage in opened_up_to(self.options.until):
            if self.deadline - time.monotonic() < LEAST_SECONDS:
                self.timed_out = True
                await self._skip(stage, f"no time left: --timeout {self.options.timeout:g}")
                continue
            reason = self._not_needed(stage)
            needs = next((name for name in failed if name in stands_on(stage)), None)
            if reason is None and needs is not None:
                reason = f"needs {needs}"
            if reason is not None:
                await self._skip(stage, reason, needs)
                continue
            passed = await self._stage(stage, numbering)
            if not passed and (not stage.links or self.foreseen.fails(self.cluster(), stage.name)):
                failed.append(stage.name)
            self.climbed = stage.name
            if stage.tries_fixes:
                await self._try_fixes(numbering)

    async def _skip(self, stage: Stage, reason: str, needs: str | None = None) -> None:
        """Leave ``stage`` out on all nodes."""
        self.skipped.append(StageFacts(stage.name, "skipped", 0.0, reason, needs))
        await self.mail.send(Command("skip", stage.name, reason=reason, blocked_by=needs))

    def _not_needed(self, stage: Stage) -> str | None:
        """What the job lacks that ``stage`` is left out without."""
        everyone = self.mail.members.values()
        if "other nodes" in stage.skips_without and len(build([m.facts for m in everyone]).nodes) == 1:
            return "one node: there are no links"
        if "GPU" in stage.skips_without:
            without = next((m.facts for m in everyone if not m.gpus), None)
            if without is not None:
                gpu = without.ranks[0].gpu if without.ranks else None
                return f"no GPU: {gpu.reason if gpu else 'not looked at'}"
        if "plan" in stage.skips_without and stage.backend not in self.plan.backends(gpus=True):
            return f"--backend {self.plan.backend} does not use it"
        return None

    async def _stage(self, stage: Stage, numbering: Numbering) -> bool:
        seconds = stage.seconds or 0.0
        if stage.doomed_seconds is not None and self.foreseen.doomed(self.cluster(), self.climbed):
            seconds = stage.doomed_seconds
        command = _opening(stage, numbering, seconds + SECONDS_PER_RANK * numbering.world)
        if stage.links:
            command = replace(command, targets=self._targets(), lead=OWN)
        return await self._run(command)

    async def _run(self, command: Command) -> bool:
        """Open a stage for all and wait until all have ended it. Whether it went well everywhere."""
        left = max(self.deadline - time.monotonic(), LEAST_SECONDS)
        command = replace(command, seconds=min(command.seconds, left))
        await self.mail.send(command)
        mark = (command.stage, command.attempt)
        end, aborted = time.monotonic() + command.seconds + LATE_SECONDS, False
        waiting = [m for m in self.mail.members.values() if str(m.number) in command.ranks and not m.lost]
        pulse = Heartbeats(self.mail)
        while True:
            await self.mail.poll()
            open_ = [m for m in waiting if mark not in m.results and not (m.left or m.lost)]
            await pulse.feel(open_)
            failed = any(
                mark in m.troubled or m.left or m.lost or (mark in m.results and not m.results[mark].ok)
                for m in waiting
            )
            if failed and not aborted and open_ and BY_NAME[command.stage].ends_everywhere:
                # The others would wait for their full timeout.
                aborted = True
                await self.mail.send(Command("abort", command.stage))
                end = min(end, time.monotonic() + LATE_SECONDS)
            if not open_ or time.monotonic() > end:
                break
            await asyncio.sleep(0.01)
        for member in open_:
            member.lost = True
        return not failed and not open_

    def _targets(self) -> tuple[Target, ...]:
        """Every node's addresses that its peers would use, each once."""
        targets: list[Target] = []
        hosts = {m.facts.identity.host for m in self.mail.members.values()}
        nccl = "nccl" in self.plan.backends(gpus=all(m.gpus for m in self.mail.members.values()))
        for m in self.mail.members.values():
            if m.mesh_port is None:
                continue
            uses: dict[str, list[str]] = {}
            for use, address in _addresses(m.facts, nccl):
                if len(hosts) == 1 or not is_loopback(address):
                    uses.setdefault(address, []).append(use)
            targets.extend(
                Target(m.number, m.facts.key, address, m.mesh_port, tuple(use)) for address, use in uses.items()
            )
        return tuple(targets)

    # -- fixes ------------------------------------------------------------------------------------------------

    async def _try_fixes(self, numbering: Numbering) -> None:
        """Climb gloo and the barrier again with the variables that the root causes' fixes set."""
        cluster = self.cluster()
        enough = self.deadline - time.monotonic() >= LEAST_SECONDS
        wanted = self.options.try_fixes and enough
        choice = choose(judge(cluster, self.options.checks, self.options.ignore)) if wanted else None
        if choice is None:
            return
        by_number = {
            str(m.number): choice.env[node.name]
            for m in self.mail.present
            if (node := cluster.by_key.get(m.facts.key)) is not None and node.name in choice.env
        }
        started = time.monotonic()
        command = _opening(TRIAL, numbering, TRIAL.seconds or 0.0)
        await self._run(replace(command, attempt=1, env=by_number))
        results = [m.results.get((TRIAL.name, 1)) for m in self.mail.members.values() if not m.left]
        errors = [result.error for result in results if result is not None and not result.ok]
        passed = not errors and all(result is not None for result in results)
        seconds = round(time.monotonic() - started, 2)
        error = errors[0] if errors else None
        self.trials = [
            Trial(check, option, choice.env, TRIED_AGAIN, passed, seconds, error)
            for check, option in choice.options.items()
        ]


def _opening(stage: Stage, numbering: Numbering, seconds: float) -> Command:
    return Command(
        "stage",
        stage.name,
        seconds=seconds,
        world=numbering.world,
        ranks=dict(numbering.ranks),
        group_ranks=dict(numbering.group_ranks),
        node_ranks=dict(numbering.node_ranks),
    )


def _addresses(facts: NodeFacts, nccl: bool) -> Iterator[tuple[str, str]]:
    """(who would use it, address) for every address of a node that its peers connect to."""
    host, network = facts.host, facts.network
    choices = [("gloo", host.gloo if host else None), ("primary", network.primary if network else None)]
    choices += [("gloo", choice) for choice in (host.gloo_more if host else ())]
    if nccl:
        choices.append(("nccl", host.nccl if host else None))
    for use, choice in choices:
        if choice is not None and choice.address is not None:
            yield use, choice.address
