"""Leader of a check, in node 0: it waits for the nodes, opens the stages for all, judges, and publishes the report."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from distdoctor.judge.engine import Judgement, judge
from distdoctor.knowledge.torchrun import announcing_node
from distdoctor.mesh.link import LIMITED_SECONDS
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.device_mesh import size
from distdoctor.model.facts import NodeFacts, RendezvousFacts, SmallerGroup, StageFacts, Trial
from distdoctor.model.findings import Finding
from distdoctor.model.report import Report
from distdoctor.model.stages import (
    ALONE,
    COLLECTIVE,
    GLOO,
    MESH,
    SECONDS_PER_RANK,
    STORE,
    Stage,
    opened_up_to,
    required_stages,
)
from distdoctor.session.context import RunContext
from distdoctor.session.interruption import pending_failures
from distdoctor.session.leader.inbox import OWN, Inbox, Participant
from distdoctor.session.leader.roll_call import EarlyVerdict, RollCall
from distdoctor.session.leader.stages import Numbering, StageOpener, assign_ranks, search, try_fixes
from distdoctor.session.protocol.messages import Command
from distdoctor.session.stages.mesh import joined_late, limited_addresses, seconds_to_pass, targets

GROUPS_SECONDS = 8.0
SECONDS_PER_GROUP = 0.5
"""Seconds that further groups may take: in all, and for each group that a rank belongs to."""
MakeReport = Callable[[Cluster, Judgement, bool, Sequence[Finding]], Report]
"""Arguments: the judged cluster; whether the run is unfinished; further findings if waiting had ended."""


class Leader:
    """Part of node 0 in the process that hosts the store (under torchrun: rank 0's)."""

    def __init__(self, context: RunContext, inbox: Inbox, make_report: MakeReport) -> None:
        options = context.options
        self._options, self._plan, self._inbox, self._make_report = options, context.plan, inbox, make_report
        self._clock, self._foreseen = context.clock, EarlyVerdict(options)
        self._roll = RollCall(context, inbox, self.cluster, self._foreseen)
        self._trials: list[Trial] = []
        self._groups: list[SmallerGroup] = []
        self._skipped: list[StageFacts] = []
        self._last_stage = ALONE[-1]
        self._timed_out = False
        self._left = ""
        self.published = False

    async def run(self) -> None:
        """Lead the run from the roll call to the published report."""
        await self._roll.call()
        opener = StageOpener(self._inbox, time.monotonic() + self._options.timeout)
        if not self._foreseen.conflicts(self.cluster()):
            await self._run_stages(opener)
        await self._roll.hear_surplus()
        await self.publish()

    async def publish(self, interrupted: bool = False, left: str = "") -> None:
        """Judge all facts and publish the report. ``left``: signal that interrupted node 0 itself."""
        if self.published:
            return
        self.published, self._left = True, left
        if interrupted and not left:
            self._roll.break_off()
        await self._inbox.poll()
        await self._inbox.verify()
        cluster = self.cluster()
        judgement = judge(cluster, self._options.checks, self._options.ignore)
        waits = bool(left) and not self._roll.ended
        pending = pending_failures(cluster.slices, self._options, judgement) if waits else ()
        report = self._make_report(cluster, judgement, interrupted or self._timed_out, pending)
        await self._inbox.publish(report, {check.id for check in self._options.checks if check.is_of_a_site})

    async def farewell(self, seconds: float = 2.0) -> None:
        """Wait until everyone has printed; then let them go."""
        end = time.monotonic() + seconds
        there = len(self._inbox.present)
        while time.monotonic() < end and await self._inbox.number(self._inbox.keys.bye) < there:
            await asyncio.sleep(0.01)
        await self._inbox.client.set(self._inbox.keys.done, b"1")
        await self._inbox.client.has(self._inbox.keys.done)

    def cluster(self) -> Cluster:
        """Return all facts so far, with the leader's own record of the rendezvous in those of node 0."""
        own = self._inbox.own.facts.meeting if self._inbox.own else None
        everyone = self._inbox.participants.values()
        record = RendezvousFacts(
            joined=True,
            ours=True,
            hosted=True,
            waited=round(self._roll.waited, 2),
            wait_limit=self._options.wait,
            ended=self._roll.ended,
            cut_short=self._roll.cut_short,
            arrived=tuple(participant.facts.key for participant in self._roll.arrived()),
            expected=self._roll.expected,
            counts="ranks" if self._plan.started == "rank" else "nodes",
            lost=tuple(
                participant.facts.key for participant in everyone if participant.lost and participant.stalled is None
            ),
            left=self._left,
            token="agreed" if self._inbox.seal.keyed else "",
            callers=tuple(dict.fromkeys(filter(None, self._inbox.callers))),
            forged=(*(own.forged if own else ()), *self._inbox.notes),
            verdict=self._inbox.report.verdict if self._inbox.report else "",
        )
        present = [
            replace(
                self._with_skipped(participant),
                meeting=record,
                trials=tuple(self._trials),
                groups=(*self._groups, *participant.facts.groups),
            )
            if participant is self._inbox.own
            else self._with_skipped(participant)
            for participant in everyone
        ]
        return build([*present, *self._inbox.strays.values()])

    def _with_skipped(self, participant: Participant) -> NodeFacts:
        """Return its facts with the stages skipped since it last wrote: it does not write for them."""
        facts = participant.facts
        if participant.stalled is not None:
            before = (entry for entry in facts.stages if entry.stage != participant.stalled.stage)
            return replace(facts, stages=(*before, participant.stalled))
        if participant.left or participant.lost:
            return facts
        known = {entry.stage for entry in facts.stages}
        return replace(facts, stages=(*facts.stages, *(entry for entry in self._skipped if entry.stage not in known)))

    def own_facts(self) -> NodeFacts | None:
        """Return node 0's facts, with the leader's record in them."""
        own = self._inbox.own
        if own is None:
            return None
        return next((facts for facts in self.cluster().slices if facts.key == own.facts.key), None)

    # The stages

    async def _run_stages(self, opener: StageOpener) -> None:
        inbox = self._inbox
        numbering = assign_ranks(
            [participant for participant in inbox.present if participant.number in self._roll.in_time],
            self._plan,
            inbox.own,
        )
        failed: list[str] = []
        for stage in opened_up_to(self._options.until):
            if not opener.time_left:
                self._timed_out = True
                await self._skip(stage, f"no time left: --timeout {self._options.timeout:g}")
                continue
            reason = self._lacking(stage)
            needs = next((name for name in failed if name in required_stages(stage)), None)
            if reason is None and needs is not None:
                reason = f"needs {needs}"
            if reason is not None:
                await self._skip(stage, reason, needs)
                continue
            passed = await self._open(stage, opener, numbering)
            if not passed and (not stage.links or self._foreseen.fails(self.cluster(), stage.name)):
                failed.append(stage.name)
            self._last_stage = stage.name
            if stage.searched and not passed:
                self._groups = await search(self.cluster(), self._inbox, opener, numbering)
            if stage.tries_fixes and self._options.try_fixes and opener.time_left:
                cluster = self.cluster()
                judgement = judge(cluster, self._options.checks, self._options.ignore)
                self._trials = await try_fixes(judgement, cluster, inbox, opener, numbering)

    async def _open(self, stage: Stage, opener: StageOpener, numbering: Numbering) -> bool:
        """Return whether the stage succeeded everywhere."""
        seconds = stage.seconds or 0.0
        if stage.doomed_seconds is not None and self._foreseen.doomed(self.cluster(), self._last_stage):
            seconds = stage.doomed_seconds
        seconds += SECONDS_PER_RANK * numbering.world
        everyone = self._inbox.participants.values()
        if "GPU" in stage.skips_without:  # each rank's process initializes CUDA again
            seconds += max((participant.cuda_start for participant in everyone), default=0.0)
        groups = self._groups_of(numbering) if stage == COLLECTIVE else {}
        limited = limited_addresses(everyone) if stage in (STORE, MESH, GLOO) or groups else ()
        if limited or (stage == STORE and joined_late(everyone)):
            delays = [seconds_to_pass(participant, numbering.world) or 0.0 for participant in everyone]
            seconds += LIMITED_SECONDS + max((delay for delay in delays if not math.isinf(delay)), default=0.0)
            opener.extend(self._clock.left)
        if stage == STORE:
            return await opener.open(stage, numbering, seconds, limited=limited, marks=self._marks())
        if groups:
            seconds += GROUPS_SECONDS + SECONDS_PER_GROUP * (
                max(len(groups["mesh"]), len(groups["mesh_order"])) + groups["extra"]
            )
            seconds += max((participant.cuda_start for participant in everyone), default=0.0)
        if not stage.links:
            return await opener.open(stage, numbering, seconds, limited=limited, **groups)
        nccl = "nccl" in self._plan.backends(gpus=all(participant.gpus for participant in everyone))
        meant = announcing_node(self.cluster())
        name = meant.host.announced.name if meant and meant.host.announced else ""
        announcer = next(
            (participant.number for participant in everyone if meant and participant.facts.key == meant.facts.key), None
        )
        links = tuple(targets(everyone, nccl=nccl))
        return await opener.open(
            stage, numbering, seconds, targets=links, limited=limited, lead=OWN, announced=name, announcer=announcer
        )

    def _groups_of(self, numbering: Numbering) -> dict[str, Any]:
        """Return the mesh and the extra groups of the plan for a command; empty without any, or if other nodes plan
        others, or fewer ranks than the mesh has have joined."""
        plans = {
            (member.facts.plan.mesh, member.facts.plan.mesh_order, member.facts.plan.groups)
            for member in self._inbox.present
        }
        mesh, extra = self._plan.mesh, self._plan.groups
        complete = numbering.world == (self._plan.world_size or numbering.world)
        if not (mesh or extra) or not complete or len(plans) > 1 or size(mesh) > numbering.world:
            return {}
        return {"mesh": mesh, "mesh_order": self._plan.mesh_order, "extra": extra}

    def _marks(self) -> dict[str, str]:
        """Return the folders in which this node left a file for the others, and the file's name."""
        host = self._inbox.own.facts.host if self._inbox.own else None
        return {
            participant.path: participant.mark
            for participant in (host.shared if host else None) or ()
            if participant.mark
        }

    async def _skip(self, stage: Stage, reason: str, needs: str | None = None) -> None:
        self._skipped.append(StageFacts(stage.name, "skipped", 0.0, reason, needs))
        await self._inbox.send(Command("skip", stage.name, reason=reason, blocked_by=needs))

    def _lacking(self, stage: Stage) -> str | None:
        """Return the name of what the job lacks and ``stage`` needs."""
        everyone = self._inbox.participants.values()
        if (
            "other nodes" in stage.skips_without
            and len(build([participant.facts for participant in everyone]).nodes) == 1
        ):
            return "one node: there are no links"
        if "GPU" in stage.skips_without:
            without = next((participant.facts for participant in everyone if not participant.gpus), None)
            if without is not None:
                gpu = without.ranks[0].gpu if without.ranks else None
                return f"no GPU: {gpu.reason if gpu else 'not looked at'}"
        if "plan" in stage.skips_without and stage.backend not in self._plan.backends(gpus=True):
            return f"--backend {self._plan.backend} does not use it"
        return None
