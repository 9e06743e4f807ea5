"""One started process of the run: what it has seen so far, and the processes it has."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable
from dataclasses import replace
from typing import Any

from distdoctor.judge.engine import Judgement, judge
from distdoctor.knowledge import variables
from distdoctor.knowledge.interfaces import is_bridge
from distdoctor.knowledge.torchrun import may_announce
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import build
from distdoctor.model.facts import (
    AddressChoice,
    Gpu,
    GpuFacts,
    MeetingFacts,
    NetworkFacts,
    NodeFacts,
    RankFacts,
    RankStage,
    Resolution,
    StageFacts,
    StageStatus,
    Work,
)
from distdoctor.model.observer import Observer
from distdoctor.model.sanitize import encodable, environment
from distdoctor.model.stages import GPU, NETWORK, needs_torch, position
from distdoctor.probes import (
    firewall,
    host,
    identity,
    init_file,
    interfaces,
    leftovers,
    memory,
    names,
    routes,
    temporary,
)
from distdoctor.probes.threads import in_thread
from distdoctor.ranks.supervisor import Child, Died, Zygote
from distdoctor.ranks.torch_info import TorchInfo
from distdoctor.session.options import Options

SLOW_SECONDS = 1.0
"""A look-up that is answered takes milliseconds."""


TORCH = "importing torch"


class Recorder:
    """This process's facts, growing stage by stage."""

    def __init__(self, options: Options, observer: Observer, zygote: Zygote | None) -> None:
        self.options, self.observer, self.zygote = options, observer, zygote
        self.started = time.monotonic()
        self._early: dict[str, asyncio.Future[Resolution]] = {}
        """Look-ups that were begun before their stage, by what they are of: the master, and its address backwards."""
        self.waits: dict[str, float] = {}
        """Stage -> seconds that it waited for the import of torch, or for node 0 to start."""
        self.oom_kills = memory.oom_kills()
        plan = options.plan
        local = range(plan.nproc_per_node or 1) if plan.started == "node" else [plan.local_rank or 0]
        env = environment(os.environ)
        self.facts = NodeFacts(
            identity=encodable(identity.identity()),
            plan=plan,
            variables=identity.variables(env),
            near_misses=variables.near_misses(env),
            ranks=tuple(RankFacts(plan.rank, number) for number in local),
            meeting=MeetingFacts(wait_limit=options.wait),
            started_at=time.time(),
            until=options.until,
        )

    @property
    def leads_node(self) -> bool:
        """Whether this process does the node's probes: started once per node, or local rank 0, or not known to be
        another."""
        return self.options.plan.started == "node" or not self.options.plan.local_rank

    def update(self, **changes: Any) -> None:
        """Put new values into the facts."""
        self.facts = replace(self.facts, **encodable(changes))

    def update_meeting(self, **changes: Any) -> None:
        """Put new values into the facts about the meeting."""
        self.update(meeting=replace(self.facts.meeting or MeetingFacts(), **changes))

    def update_network(self, **changes: Any) -> None:
        """Put new values into the facts about the network."""
        self.update(network=replace(self.facts.network or NetworkFacts(), **changes))

    def judge_alone(self) -> Judgement:
        """What the checks say of this process's own facts."""
        return judge(build([self.facts]), self.options.checks, self.options.ignore)

    def skip(self, stage: str, reason: str, blocked_by: str | None = None) -> None:
        """Record that ``stage`` is not run here."""
        self.record(StageFacts(stage, "skipped", 0.0, reason, blocked_by))
        self.observer.stage_ended(stage, "skipped", 0.0, reason)

    def record(self, entry: StageFacts) -> None:
        """Record how a stage ended, in place of an earlier record of it."""
        self.update(stages=(*(s for s in self.facts.stages if s.stage != entry.stage), entry))

    async def run_stage(
        self, stage: str, work: Awaitable[tuple[StageStatus, str]], most: float | None = None
    ) -> StageStatus:
        """Run one stage's work and record how it ended; a crash of a probe is a result, too.

        ``most``: the seconds that it may take, where they are known.

        Its seconds are its own: the time it waited for the import of torch is torch's (``identity.torch_seconds``), and
        that for node 0 to start is no stage's.
        """
        self.observer.stage_started(stage, most)
        started = time.monotonic()
        status: StageStatus
        try:
            status, reason = await work
        except Exception as err:
            status, reason = "error", f"{type(err).__name__}: {err}"
        seconds = round(max(0.0, time.monotonic() - started - self.waits.pop(stage, 0.0)), 3)
        self.record(StageFacts(stage, status, seconds, reason))
        self.observer.stage_ended(stage, status, seconds, reason)
        return status

    # -- the stages that need no other node -------------------------------------------------------------------

    async def environment(self) -> tuple[StageStatus, str]:
        """The launch variables: the plan has looked at them."""
        problems = self.options.plan.problems
        if not problems:
            return "ok", ""
        return "failed", "; ".join(f"{p.variable}: {p.why}" for p in problems)

    async def host(self) -> tuple[StageStatus, str]:
        """Names, interfaces, and the address gloo will pick."""
        plan = self.options.plan
        self._look_up_early()
        facts = await host.probe(self.facts.identity.hostname, self.facts.variables, may_announce(plan))
        facts = replace(facts, init_file=init_file.probe(plan.init_method), temporary=temporary.probe())
        self.update(host=facts)
        if facts.gloo and facts.gloo.address is None:
            return "failed", f"GLOO_SOCKET_IFNAME={facts.gloo.variable}: no such interface"
        return "ok", ""

    async def gpu(self) -> tuple[StageStatus, str]:
        """The devices this process's ranks see, asked in a process of its own."""
        if self.zygote is None:
            return "skipped", "devices are seen through torch, which is not loaded up to the network stage"
        torch = await self.torch(self.zygote, GPU.name)
        if torch.version is None:
            return "skipped", "torch cannot be imported"
        child = self.zygote.spawn("distdoctor:gpu")
        try:
            answer = await asyncio.wait_for(child.call(GPU.name), GPU.seconds)
        except (asyncio.TimeoutError, Died) as err:
            child.kill()
            error = (
                f"no answer from the driver within {GPU.seconds:.0f} s"
                if isinstance(err, asyncio.TimeoutError)
                else str(err)
            )
            answer = {"ok": False, "error": error}
        finally:
            child.close()
        mask = os.environ.get("CUDA_VISIBLE_DEVICES")
        devices = tuple(Gpu(**device) for device in answer.get("visible", ()))
        seen = GpuFacts(devices, answer.get("reason"), mask, answer.get("error"))
        self.update(ranks=tuple(replace(rank, gpu=seen) for rank in self.facts.ranks))
        if seen.error:
            return "error", seen.error
        return ("ok", f"{len(devices)} visible") if devices else ("skipped", f"no GPU: {seen.reason}")

    async def torch(self, zygote: Zygote, stage: str) -> TorchInfo:
        """What torch is here, once its import has ended. ``stage`` is the one that waits for it."""
        began = time.monotonic()
        most = self.started + self.options.wait + self.options.timeout - began
        self.observer.waits(TORCH, most)
        try:
            torch = await zygote.torch()
        finally:
            self.observer.waited(TORCH)
            self.put_down(stage, time.monotonic() - began)
        self.note_torch(torch)
        return torch

    def put_down(self, stage: str, seconds: float) -> None:
        """So much of the time of ``stage`` was waiting for something else."""
        self.waits[stage] = self.waits.get(stage, 0.0) + seconds

    def note_torch(self, torch: TorchInfo) -> None:
        """Put into the facts what torch is here."""
        failure = memory.around(torch.failure, self.oom_kills) if torch.failure else None
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
            )
        )

    def note_importing(self) -> None:
        """Put into the facts that torch is still being imported, where it is."""
        if self.zygote is not None and self.zygote.importing:
            seconds = self.zygote.torch_seconds()
            self.update(identity=replace(self.facts.identity, torch_seconds=seconds, torch_importing=True))

    @property
    def gpus(self) -> int:
        """How many devices the first rank here sees."""
        gpu = self.facts.ranks[0].gpu if self.facts.ranks else None
        return len(gpu.visible) if gpu else 0

    def _look_up_early(self) -> None:
        """Begin now what the network stage needs: a name server that does not answer costs seconds each time."""
        name = self.options.plan.master_addr
        if name is None or position(self.options.until) < position(NETWORK.name):
            return
        master = asyncio.ensure_future(names.resolve(name))

        async def backwards() -> Resolution:
            found = await asyncio.shield(master)
            return await names.reverse(found.addresses[0]) if found.addresses else found

        self._early = {"master": master, "reverse": asyncio.ensure_future(backwards())}

    async def look_up_master(self) -> None:
        """Resolve MASTER_ADDR and note the route there and the address this node is reached at."""
        plan, ours = self.facts.plan, self.facts.host.interfaces if self.facts.host else ()
        if plan.master_addr is None:
            self.update_network(primary=interfaces.reachable_address(ours))
            return
        master = await (self._early.pop("master", None) or names.resolve(plan.master_addr))
        if not master.addresses:
            self.update_network(
                master=master,
                master_is_own=None,
                primary=interfaces.reachable_address(ours),
                master_lines=names.hosts_lines(lambda fields: plan.master_addr in fields[1:]),
            )
            return
        own = any(interfaces.owned(address, ours) for address in master.addresses)
        target = master.addresses[0]
        way = interfaces.route(target, plan.master_port, ours)
        primary: AddressChoice | None
        interface = next((i.name for i in ours if target in i.addresses), None) if own else None
        # A bridge for containers leads to no other host, whatever /etc/hosts says of this host's own name.
        if is_loopback(target) or is_bridge(interface) or (not own and way.source is None):
            primary = interfaces.reachable_address(ours)
        elif own:
            primary = AddressChoice(target, interface, "MASTER_ADDR")
        else:
            primary = AddressChoice(way.source, way.interface, "route")
        self.update_network(
            master=master,
            master_is_own=own,
            route=way,
            primary=primary,
            master_name=None if own else (names.name_in_hosts(target) or _unless_numeric(plan.master_addr)),
        )

    async def look_around(self) -> None:
        """Note this host's packet filter and what an earlier run has left on it."""
        port = self.options.plan.master_port
        rules, left = await asyncio.gather(
            in_thread(firewall.firewall, 10.0), in_thread(lambda: leftovers.probe(port), 10.0)
        )
        self.update_network(firewall=rules, routes=routes.table(), strict=routes.strict())
        if self.facts.host is not None:
            self.update(host=replace(self.facts.host, leftovers=left))

    async def look_up_backwards(self) -> None:
        """Note the reverse look-up of the master's address, which each store client makes."""
        master = self.facts.network.master if self.facts.network else None
        if master is not None and master.addresses:
            early = self._early.pop("reverse", None)
            found = await early if early is not None else None
            address = master.addresses[0]
            self.update_network(reverse=found if found and found.name == address else await names.reverse(address))

    @property
    def names_cost_seconds(self) -> bool:
        """Whether look-ups are known to wait for a name server in vain, and nothing needs one that is slow to answer.

        Each rank would wait as long again: its store client for the name of the store's address, which is for its log
        lines only, and gloo for the address of the own name.
        """
        host, network = self.facts.host, self.facts.network
        forward = (host.own_name if host else None, network.master if network else None)
        looks = [look for look in (*forward, network.reverse if network else None) if look is not None]
        late = [look for look in forward if look and look.addresses and look.seconds > SLOW_SECONDS]
        # Found by a second question, which gave each name server one second.
        return any(look.seconds > SLOW_SECONDS for look in looks) and all(look.timed_out for look in late)

    # -- ranks ------------------------------------------------------------------------------------------------

    def note_ranks(self, node_rank: int | None, ranks: tuple[int, ...]) -> None:
        """Put the ranks assigned at the meeting into the facts."""
        if len(ranks) == len(self.facts.ranks):
            self.update(
                node_rank=node_rank,
                ranks=tuple(replace(r, rank=number) for r, number in zip(self.facts.ranks, ranks, strict=True)),
            )

    def note_rank_stages(self, entries: dict[int, RankStage]) -> None:
        """Put how a stage ended for each rank (by its place here) into the facts."""
        self.update(
            ranks=tuple(
                _with_stage(rank, entries[i]) if i in entries else rank for i, rank in enumerate(self.facts.ranks)
            )
        )

    def note_pids(self, children: list[Child]) -> None:
        """Put the ranks' process ids into the facts."""
        self.update(ranks=tuple(replace(r, pid=c.pid) for r, c in zip(self.facts.ranks, children, strict=False)))

    @property
    def needs_torch(self) -> bool:
        """Whether the run climbs high enough to need torch."""
        return needs_torch(self.options.until)


def _with_stage(rank: RankFacts, entry: RankStage) -> RankFacts:
    """The rank with this stage in place of an earlier record of it, and with the work it measured there."""
    detail = dict(entry.detail)
    work = detail.pop("work", None)
    stages = (*(s for s in rank.stages if s.stage != entry.stage), replace(entry, detail=detail))
    return replace(rank, stages=stages, work=Work(**work) if work else rank.work)


def _unless_numeric(name: str) -> str | None:
    from distdoctor.model.addresses import parse_address

    return None if parse_address(name) else name
