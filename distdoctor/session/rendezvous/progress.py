"""Progress lines while nodes are still joining, and the line that the other nodes are started with."""

from __future__ import annotations

import asyncio
import re
import shlex
import socket
import time
from collections.abc import Sequence
from dataclasses import replace

from distdoctor.judge.engine import judge
from distdoctor.model.addresses import endpoint, parse_address
from distdoctor.model.cluster import build
from distdoctor.model.device_mesh import text_of
from distdoctor.model.errors import PlanError, UsageError
from distdoctor.model.facts import Contact, NetworkFacts, NodeFacts, RendezvousFacts
from distdoctor.model.findings import Finding
from distdoctor.model.launch_settings import (
    BACKEND,
    GROUPS,
    INIT_METHOD,
    MASTER_ADDR,
    MASTER_PORT,
    MESH,
    NNODES,
    NPROC_PER_NODE,
    RDZV_BACKEND,
    RDZV_ENDPOINT,
    RDZV_ID,
    VARIABLE,
)
from distdoctor.model.observer import Observer
from distdoctor.model.plan import Plan
from distdoctor.plan.launchers import mpi
from distdoctor.probes.network import interfaces
from distdoctor.ranks.supervisor import Zygote
from distdoctor.render.words import fold
from distdoctor.session.context import RunContext
from distdoctor.session.options import Options

SO_FAR_AFTER = 3.5
SETTLED_SECONDS, LONGEST_SETTLED = 1.0, 1.5
"""Seconds after its own readiness before a process reports another as missing: that one may still import torch. A third
of its own start time, within these two."""
PATIENT_SECONDS = 20.0
"""Seconds after which a missing node is reported also while this process still imports torch."""
LAST_CHANCE = 2.0
"""Seconds before waiting ends in which it is reported in any case."""
REPORT_AGAIN_SECONDS = 1.0
_NUMBER = r"\d+(?:\.\d+)?"
UNANSWERED_SECONDS = 2.0
"""Seconds without an answer after which an attempt to connect is reported."""


def judge_facts(facts: Sequence[NodeFacts], options: Options) -> tuple[Finding, ...]:
    """Return the root causes of severity fail in these facts."""
    roots = judge(build(facts), options.checks, options.ignore).roots
    return tuple(finding for finding in roots if finding.severity == "fail")


def news_at(waiting: float, ready: float) -> float:
    """Return the time from which a missing node is reported by a process that waits since ``waiting`` and is ready
    since ``ready``; all of the monotonic clock."""
    settled = min(LONGEST_SETTLED, max(SETTLED_SECONDS, (ready - waiting) / 3))
    return max(waiting + SO_FAR_AFTER, ready + settled)


def report_progress(observer: Observer, findings: Sequence[Finding], left: float, limit: float) -> None:
    """Report the failures that may still pass by themselves. ``left`` of ``limit`` seconds remain."""
    waited = f"{max(limit - left, 0):.0f} s of {limit:.0f} s"
    for finding in findings:
        text = progress_line(finding)
        key = f"{finding.check} {finding.nodes} {re.sub(_NUMBER, '0', text)}"  # seconds that pass are no news
        observer.failure_so_far(key, text, waited)


def progress_line(finding: Finding) -> str:
    """Return the line on one finding, without the time."""
    if not finding.incomplete:
        return f"so far: {finding.check}: {finding.summary} Still waiting"
    # The finding says that nodes did not join, which is not known yet. The last observation ends its evidence.
    last = finding.evidence[-1].partition("; ")[2] if finding.evidence else ""
    return f"so far: {finding.check}: still waiting for {fold(finding.nodes)}{f'; {last}' if last else ''}"


class WaitReporter:
    """Reports what keeps one process from joining."""

    def __init__(self, context: RunContext, zygote: Zygote | None = None) -> None:
        self.context, self.zygote = context, zygote
        self.trying: tuple[str, float] | None = None
        """Address that is being connected to, and since when."""
        self._next = 0.0
        """Time of the next report, of the monotonic clock."""

    def report(self, left: float) -> None:
        """Report the findings as if waiting ended now; ``left`` seconds remain."""
        context = self.context
        now = time.monotonic()
        if now < self._next or now < self._from() or left < 1.0:
            return
        if self.node0_may_be_late() and left > LAST_CHANCE:
            return
        facts = replace(context.facts, meeting=replace(context.facts.meeting or RendezvousFacts(), ended=True))
        if (pending := self._unanswered()) is not None:
            facts = replace(facts, network=replace(facts.network or NetworkFacts(), contact=pending))
        self._next = now + REPORT_AGAIN_SECONDS
        findings = judge_facts([facts], context.options)
        context.progress_reported |= bool(findings)
        report_progress(context.observer, findings, left, context.clock.wait)

    async def report_while_connecting(self, deadline: float) -> None:
        """Report while an attempt to connect goes on: it takes seconds, and the next one as many again."""
        await asyncio.sleep(max(0.0, self._from() - time.monotonic()))
        while True:
            contact = self._contact() or self._unanswered()
            if contact is not None and contact.outcome != "open":
                self.report(deadline - time.monotonic())
            await asyncio.sleep(REPORT_AGAIN_SECONDS)

    def _from(self) -> float:
        """Return the time of the first report, of the monotonic clock."""
        return self.context.clock.waiting_since + SO_FAR_AFTER

    def node0_may_be_late(self) -> bool:
        """Return whether nobody listens at the master's port yet, and node 0 may still be in a step that this process
        just ended: it opens the port once it has imported torch."""
        contact, now = self._contact(), time.monotonic()
        if contact is None or contact.outcome != "refused" or self.zygote is None:
            return False
        waiting, ready = self.context.clock.waiting_since, self.zygote.imported
        return now < waiting + PATIENT_SECONDS if ready is None else now < news_at(waiting, ready)

    def _contact(self) -> Contact | None:
        return self.context.facts.network.contact if self.context.facts.network else None

    def _unanswered(self) -> Contact | None:
        """Return the first attempt to connect as one without an answer, if it has lasted long enough."""
        if self._contact() is not None or self.trying is None:
            return None
        address, since = self.trying
        seconds = round(time.monotonic() - since, 4)
        if seconds < UNANSWERED_SECONDS or time.monotonic() - self.context.clock.started < SO_FAR_AFTER:
            return None
        return Contact(address, self.context.plan.master_port, "no-answer", seconds=seconds)


# Master address of node 0 when no flag or variable names one, and the line for the other nodes.


def with_master(options: Options) -> Options:
    """Return the options of node 0 with an address that the others can reach, if none is named."""
    plan = options.plan
    _insist_on_rank0(plan)
    if not plan.announce:
        return options
    choice = interfaces.reachable_address(interfaces.interfaces())
    if choice is None or choice.address is None:
        raise UsageError("this host has no address that another host could reach; name one with " + MASTER_ADDR.flag)
    sources = {**plan.sources, "master_addr": f"{choice.reason}, {choice.interface}"}
    plan = replace(plan, master_addr=choice.address, sources=sources)
    if plan.launcher:  # it starts the others, and passes them node 0's address
        return replace(options, plan=replace(plan, announce=False))
    return replace(options, plan=plan)


def _insist_on_rank0(plan: Plan) -> None:
    """Raise PlanError in a rank 0 that is not where its MPI launcher was started, which no variable shows."""
    launchers = {
        mpi.OPENMPI_NAME: mpi.OPENMPI_RANKS,
        mpi.HYDRA_NAME: mpi.HYDRA_RANKS,
        mpi.MVAPICH_NAME: mpi.MVAPICH_RANKS,
        mpi.HOROVOD_NAME: mpi.HOROVOD_RANKS,
    }
    address, source = plan.master_addr, plan.sources.get("master_addr", "")
    named = source in MASTER_ADDR.all_variables or source.startswith("--")
    if plan.launcher not in launchers or plan.rank != 0 or plan.nnodes == 1 or named or address is None:
        return
    host = socket.gethostname()
    literal = parse_address(address) is not None
    here = (
        {held for card in interfaces.interfaces() for held in card.addresses} if literal else {host.partition(".")[0]}
    )
    if (address if literal else address.partition(".")[0]) not in here:
        line = launchers[plan.launcher].with_host(host)
        raise PlanError(
            f"rank 0 is on {host}, and not on {address}, which {source} makes the first: `{line} ... distdoctor check`"
        )


def line_for_others(options: Options) -> str:
    """Return the line to run on each of the other nodes, after the user's token if this run has one."""
    plan = options.plan
    words = [*options.command, NNODES.flag, str(plan.nnodes)]
    if plan.sources.get("nproc_per_node", "default") not in ("default", "visible GPUs"):
        words += [NPROC_PER_NODE.flag, str(plan.nproc_per_node)]
    if plan.rdzv_backend == "c10d":  # torchrun reads no --master-addr then
        words += [RDZV_ENDPOINT.flag, endpoint(str(plan.master_addr), plan.master_port)]
    else:
        words += [MASTER_ADDR.flag, str(plan.master_addr), MASTER_PORT.flag, str(plan.master_port)]
    for setting, value, usual in (
        (BACKEND, plan.backend, "auto"),
        (RDZV_BACKEND, plan.rdzv_backend, "static"),
        (RDZV_ID, plan.run_id, "none"),
        (INIT_METHOD, plan.init_method, None),
        (MESH, text_of(plan.mesh), ""),
        (GROUPS, plan.groups, 0),
    ):
        if value != usual:
            words += [setting.flag, str(value)]
    words += [word for path in options.shared for word in ("--shared", path)]
    secret = f"{VARIABLE}={shlex.quote(options.token)} " if options.token else ""
    return secret + shlex.join(words)
