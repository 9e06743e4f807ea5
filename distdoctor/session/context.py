"""Context of one run in one process: plan, clock, observer, and the facts that grow until they are judged."""

from __future__ import annotations

import os
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from distdoctor.judge.engine import Judgement, judge
from distdoctor.knowledge import nccl, settings
from distdoctor.model.cluster import build
from distdoctor.model.facts import (
    NcclLog,
    NetworkFacts,
    NodeFacts,
    RankFacts,
    RankStage,
    RendezvousFacts,
    StageFacts,
    StageStatus,
    Work,
)
from distdoctor.model.observer import Observer
from distdoctor.model.plan import Plan
from distdoctor.model.text import encodable, environment
from distdoctor.probes.gpu import nccl as gpu_nccl
from distdoctor.probes.host import identity, limits
from distdoctor.probes.network.interfaces import LinkWatch
from distdoctor.ranks.supervisor import Child, Zygote
from distdoctor.ranks.torch_info import TorchInfo
from distdoctor.session.options import Options

MAX_FORGED = 8


OWN_START_SECONDS = 1.0
"""Most of the program's own start time that counts as waiting: a process that starts slowly waits for others that do,
too."""


@dataclass
class Clock:
    """Start and deadlines of a run, in seconds of the monotonic clock."""

    wait: float
    """Limit of the rendezvous (--wait)."""
    timeout: float
    """Limit of everything after it (--timeout)."""
    started: float = field(default_factory=time.monotonic)
    launched: float | None = None
    """Start of the command; None if it is not known to be earlier than the run's."""
    started_at: float = field(default_factory=time.time)
    """Start of the run in seconds since the epoch."""

    @property
    def began(self) -> float:
        """Return the start of the command, from which a user counts."""
        return self.started if self.launched is None else min(self.launched, self.started)

    @property
    def waiting_since(self) -> float:
        """Return the time since which this process has kept its user waiting."""
        return max(self.began, self.started - OWN_START_SECONDS)

    @property
    def left(self) -> float:
        """Return the seconds until --wait and --timeout are both spent."""
        return self.started + self.wait + self.timeout - time.monotonic()

    def waits_until(self) -> float:
        """Return the time at which a process that now begins to wait for others stops waiting.

        That is --wait after its start, and at least half of --wait from now: on a busy host the import of torch alone
        outlasts a short --wait, and the other nodes join as late, for the same reason.
        """
        return max(self.started + self.wait, time.monotonic() + self.wait / 2)


class RunContext:
    """Plan, clock, facts and observer of one run in one process. The facts grow stage by stage."""

    def __init__(self, options: Options, observer: Observer, launched: float | None = None) -> None:
        """Start the facts of this run. ``launched``: see :class:`Clock`."""
        self.options, self.observer = options, observer
        self.clock = Clock(options.wait, options.timeout, launched=launched)
        self.progress_reported = False
        """True if a failure was printed while nodes could still join: a report before the end keeps it."""
        self._waits: dict[str, float] = {}
        """Stage -> seconds that it waited for the import of torch, or for node 0 to start."""
        self._oom_kills = limits.oom_kills()
        self.memory_used = limits.memory_used()
        """Memory of the container or unit in use before torch was imported, in bytes."""
        plan = options.plan
        local = range(plan.nproc_per_node or 1) if plan.started == "node" else [plan.local_rank or 0]
        env = environment(os.environ)
        self._site_variables = tuple(sorted({name for check in options.checks for name in check.variables}))
        self.facts = NodeFacts(
            identity=encodable(identity.identity()),
            plan=plan,
            **_settings(nccl.NEWEST, self._site_variables),
            site_variables=self._site_variables,
            near_misses=settings.near_misses(env),
            ranks=tuple(RankFacts(plan.rank, number) for number in local),
            meeting=RendezvousFacts(wait_limit=options.wait),
            started_at=self.clock.started_at,
            until=options.until,
        )
        self._links = LinkWatch() if self.leads_node else None

    @property
    def plan(self) -> Plan:
        """Return the plan of this run; its port is the one in use once node 0 has opened the store."""
        return self.facts.plan

    def use_port(self, port: int) -> None:
        """Put the port that the store was given into the plan."""
        if port != self.plan.master_port:
            self.update(plan=replace(self.plan, master_port=port))

    @property
    def leads_node(self) -> bool:
        """Return whether this process runs the node's probes: one process per node, local rank 0, or local rank
        unknown."""
        return self.plan.started == "node" or not self.plan.local_rank

    def update(self, **changes: Any) -> None:
        """Put new values into the facts."""
        self.facts = replace(self.facts, **encodable(changes))

    def update_meeting(self, **changes: Any) -> None:
        """Put new values into the facts about the rendezvous."""
        self.update(meeting=replace(self.facts.meeting or RendezvousFacts(), **changes))

    def update_network(self, **changes: Any) -> None:
        """Put new values into the facts about the network."""
        self.update(network=replace(self.facts.network or NetworkFacts(), **changes))

    def judge_alone(self) -> Judgement:
        """Return the judgement of this process's own facts."""
        return judge(build([self.facts]), self.options.checks, self.options.ignore)

    def skip(self, stage: str, reason: str, blocked_by: str | None = None) -> None:
        """Record that ``stage`` does not run here."""
        self.record(StageFacts(stage, "skipped", 0.0, reason, blocked_by))
        self.observer.stage_ended(stage, "skipped", 0.0, reason)

    def record(self, entry: StageFacts) -> None:
        """Record how a stage ended, replacing an earlier record of it."""
        self.update(stages=(*(s for s in self.facts.stages if s.stage != entry.stage), entry))

    async def run_stage(
        self, stage: str, work: Awaitable[tuple[StageStatus, str]], most: float | None = None
    ) -> StageStatus:
        """Run one stage's work and record how it ended; a crash of a probe is a result, too.

        ``most``: limit of its seconds, if known. The recorded seconds do not count waiting for the import of torch
        (``identity.torch_seconds``) or for node 0 to start.
        """
        self.observer.stage_started(stage, most)
        started = time.monotonic()
        status: StageStatus
        try:
            status, reason = await work
        except Exception as err:
            status, reason = "error", f"{type(err).__name__}: {err}"
        self.note_link_losses()
        seconds = round(max(0.0, time.monotonic() - started - self._waits.pop(stage, 0.0)), 3)
        self.record(StageFacts(stage, status, seconds, reason))
        self.observer.stage_ended(stage, status, seconds, reason)
        return status

    def note_link_losses(self) -> None:
        """Put the link losses of each interface, and the links that are down, into the facts."""
        if self._links is not None and (host := self.facts.host) is not None:
            losses, down = self._links.losses(), self._links.down
            if (losses, down) != (host.link_losses, host.links_down):
                self.update(host=replace(host, link_losses=losses, links_down=down))

    def subtract_wait(self, stage: str, seconds: float) -> None:
        """Subtract ``seconds`` of waiting for something else from the time of ``stage``."""
        self._waits[stage] = self._waits.get(stage, 0.0) + seconds

    def note_torch(self, torch: TorchInfo) -> None:
        """Put the installed torch into the facts."""
        failure = limits.memory_around(torch.failure, self._oom_kills) if torch.failure else None
        self.update(
            identity=replace(
                self.facts.identity,
                torch=torch.version,
                torch_error=torch.error,
                cuda=torch.cuda,
                backends=torch.backends,
                nccl=torch.nccl,
                torch_path=torch.path,
                torch_seconds=torch.seconds,
                torch_importing=False,
                torch_failure=failure,
                torch_memory=torch.memory,
                torch_cpus=torch.cpus,
            )
        )
        if torch.nccl:
            self._follow_nccl(nccl.version(torch.nccl))

    def _follow_nccl(self, version: nccl.Version) -> None:
        """Correct the NCCL facts for an NCCL of this version, as older ones read and pick differently."""
        self.update(**_settings(version, self._site_variables))
        if host := self.facts.host:
            self.update(host=replace(host, nccl=nccl.predict(self.facts.variables, host.interfaces, version)))

    def note_importing(self, seconds: float | None) -> None:
        """Put into the facts for how many seconds torch has been importing."""
        self.update(identity=replace(self.facts.identity, torch_seconds=seconds, torch_importing=True))

    def note_forged(self, *hosts: str) -> None:
        """Put into the facts which values in the store nobody of this run wrote."""
        known = self.facts.meeting.forged if self.facts.meeting else ()
        if not set(hosts) <= set(known):
            self.update_meeting(forged=tuple(dict.fromkeys((*known, *hosts)))[:MAX_FORGED])

    def note_ranks(self, node_rank: int | None, ranks: tuple[int, ...]) -> None:
        """Put the ranks that node 0 assigned into the facts."""
        if len(ranks) == len(self.facts.ranks):
            self.update(
                node_rank=node_rank,
                ranks=tuple(replace(r, rank=number) for r, number in zip(self.facts.ranks, ranks, strict=True)),
            )

    def note_rank_stages(self, entries: dict[int, RankStage]) -> None:
        """Put how a stage ended for each rank (by local index) into the facts."""
        self.update(
            ranks=tuple(
                _with_stage(rank, entries[i]) if i in entries else rank for i, rank in enumerate(self.facts.ranks)
            )
        )

    def note_nccl(self, logs: Sequence[NcclLog | None]) -> None:
        """Put the logs of the ranks' NCCL into the facts."""
        self.update(ranks=tuple(replace(r, nccl=log) for r, log in zip(self.facts.ranks, logs, strict=True)))

    def note_pids(self, children: list[Child]) -> None:
        """Put the ranks' process ids into the facts."""
        self.update(ranks=tuple(replace(r, pid=c.pid) for r, c in zip(self.facts.ranks, children, strict=False)))


def _with_stage(rank: RankFacts, entry: RankStage) -> RankFacts:
    """Return the rank with this stage in place of an earlier record of it, and with the work measured in it."""
    detail = dict(entry.detail)
    work = detail.pop("work", None)
    stages = (*(s for s in rank.stages if s.stage != entry.stage), replace(entry, detail=detail))
    return replace(rank, stages=stages, work=Work(**work) if work else rank.work)


def _settings(version: nccl.Version, more: Sequence[str]) -> dict[str, Any]:
    """Return the NCCL settings (environment, NCCL's files, ``more``), and the files they came from."""
    env = environment(os.environ)
    of_files = gpu_nccl.settings_in_files(env, nccl=version)
    return {
        "variables": identity.variables({**{name: value for name, (value, _) in of_files.items()}, **env}, more),
        "variable_files": identity.variables({name: path for name, (_, path) in of_files.items()}),
    }


# Wait for the import of torch, which runs in a process of its own from the start.


WHAT = "importing torch"


async def wait_for_torch(context: RunContext, zygote: Zygote, stage: str) -> TorchInfo:
    """Return the installed torch once its import has ended. ``stage`` is the stage that waits for it."""
    began = time.monotonic()
    context.observer.waits(WHAT, context.clock.left)
    try:
        torch = await zygote.torch()
    finally:
        context.observer.waited(WHAT)
        context.subtract_wait(stage, time.monotonic() - began)
    context.note_torch(torch)
    return torch
