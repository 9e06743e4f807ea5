"""End of a run in one process: it prints the report if that is its part, saves the facts and leaves with the others."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from distdoctor import interrupts
from distdoctor.judge.engine import Judgement
from distdoctor.judge.report import assemble
from distdoctor.model.addresses import parse_address
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import NodeFacts, files
from distdoctor.model.findings import Finding
from distdoctor.model.report import INTERRUPTED, Report
from distdoctor.model.stages import needs_torch
from distdoctor.plan.launchers import frameworks, mpi
from distdoctor.plan.launchers.schedulers import STARTED_FROM
from distdoctor.probes.resolver import ASKER
from distdoctor.session.baseline import changes, with_own_changes
from distdoctor.session.context import Clock, RunContext
from distdoctor.session.follower.follower import Membership
from distdoctor.session.interruption import (
    certain_judgement,
    for_another_node,
    interruption,
    not_joined,
    pending_failures,
    pending_notes,
)
from distdoctor.store.client import StoreError

READING_SECONDS = 1.5
"""Seconds for which an interrupted node 0 keeps the store open, so that the others can read its report."""
BREAKING_OFF_SECONDS = 2.0
ENDS_ALL = (mpi.OPENMPI_NAME,)
"""Launchers that end all processes with the first that fails (mpirun(1), orte_abort_on_non_zero_status)."""
FIRST_GOES_ON = 30.0
"""Seconds that the first process may go on for the nodes that joined, once this process stopped waiting."""


class Finish:
    """Ends the run, once. ``print_report`` gets the report where this process prints it."""

    def __init__(self, context: RunContext, reports: ReportMaker, print_report: Callable[[Report], None]) -> None:
        self._context, self._reports, self._print_report = context, reports, print_report
        self.report: Report | None = None
        """Report, once the run has one."""
        self.unsaved = False
        """True if the facts were to be saved and could not be."""
        self._alone = started_alone(os.getppid(), os.getpid())
        self._where_first: tuple[str, ...] = ()
        """Addresses of the launcher's first process, if they matter."""

    async def finish(self, report: Report | None, membership: Membership | None) -> None:
        """Print ``report`` and leave together with the others; without one, print this process's own report."""
        self.report = report or self._reports.of_own(self._context)
        self._where_first = await first_process_addresses(self._context.facts)
        self._save_and_print(membership)
        if membership is not None:
            await membership.part()
        await asyncio.sleep(self._stays(membership))

    def _stays(self, membership: Membership | None) -> float:
        """Return the seconds for which this process, which joined nobody, stays after printing.

        A bad exit status makes mpirun end all other processes, which cuts off the report of the first (seen with Open
        MPI 4.1).
        """
        plan, clock = self._context.plan, self._context.clock
        printed = self._prints(membership) or (membership is not None and membership.agreed)
        good = self.report is None or self.report.verdict in ("pass", "warn")
        if printed or good or plan.task is None or plan.launcher not in ENDS_ALL:
            return 0.0
        longest = clock.wait + min(FIRST_GOES_ON, clock.timeout)
        return max(0.0, clock.started + longest - time.monotonic())

    async def break_off(self, membership: Membership | None, importing: float | None) -> None:
        """Print what is known after an interruption or a timeout, and send it to the others.

        ``importing``: seconds for which torch has been importing, if it still is.
        """
        if self.report is not None:
            return
        if importing is not None:
            self._context.note_importing(importing)
        if membership is not None:
            if self._reports.signal is not None:
                self._context.update_meeting(left=signal.Signals(self._reports.signal).name)
            try:
                self.report = await asyncio.wait_for(membership.break_off(), BREAKING_OFF_SECONDS)
            except (StoreError, asyncio.TimeoutError, OSError):
                pass
        if self.report is None:
            if self._context.progress_reported and self._reports.signal is None:
                self._context.update_meeting(ended=True)
            self.report = self._reports.of_own(self._context, unfinished=True)
        self._save_and_print(membership)
        if membership is not None and membership.published:
            try:
                await asyncio.wait_for(membership.part(), READING_SECONDS)
            except asyncio.TimeoutError:
                pass

    def print_late(self, membership: Membership | None) -> None:
        """Print what is known, from another thread, while a step ignores its deadline."""
        nothing = Judgement("incomplete", ())
        report = self.report or self._reports.of_own(self._context, nothing, unfinished=True)
        if self._prints(membership):
            self._print_report(report)

    def _prints(self, membership: Membership | None) -> bool:
        plan = self._context.plan
        if plan.started == "node" and plan.task is None:
            return True
        leads = membership is not None and membership.leads
        if membership is not None and self.report is not None and not leads and membership.agreed:
            return False
        if plan.task is None or leads:
            return leads or self._context.leads_node or self._alone
        # A launcher that ends one process ends all, and the first prints for all.
        if plan.task != 1 or self._reports.signal is not None:
            return plan.task == 0
        return first_process_gone(self._context.facts, self._where_first)

    def _print_causes(self, report: Report) -> None:
        """Print a line on stderr for each root cause that this process saw, while another process prints the report."""
        for finding in report.findings:
            if finding.because_of is None and finding.severity == "fail":
                self._context.observer.note(
                    f"{self._context.facts.identity.hostname}: {finding.check}: {finding.summary}"
                )

    def _save_and_print(self, membership: Membership | None) -> None:
        assert self.report is not None
        problem = self._save(membership)
        self.unsaved = problem is not None
        if problem is not None and self._prints(membership):
            self.report = replace(self.report, notes=(*self.report.notes, problem))
        elif problem is not None:
            self._context.observer.note(problem)
        if self._prints(membership):
            self._print_report(self.report)
        elif self._context.plan.task is not None and not (membership is not None and membership.agreed):
            self._print_causes(self.report)
        interrupts.ignore_further()

    def _save(self, membership: Membership | None) -> str | None:
        """Save the facts if --save asks for it. Return the error, or None."""
        place, keep = self._context.options.save, self._context.options.keep
        facts = membership.own_facts() if membership is not None else self._context.facts
        if keep is not None:
            keep(facts)
        if place is None:
            return None
        try:
            files.write(place, facts, self._context.leads_node)
        except OSError as err:
            return f"the facts could not be saved: {err}"
        return None


# Reports of this run, with its start, its duration, and whether it ended early.


EACH_BY_ITSELF = (
    "up to {stage} each node is checked by itself; this report is of {name}, the others print theirs on stderr and set "
    "their own exit status"
)


class ReportMaker:
    """Makes the reports of one process."""

    def __init__(self, until: str, clock: Clock, baseline: Sequence[NodeFacts] = ()) -> None:
        """Store what all reports need. ``until``: last stage of the run; ``baseline``: facts of an earlier run."""
        self._until, self._clock, self._baseline = until, clock, baseline
        self.signal: int | None = None
        """Signal that interrupted the run."""

    def make(self, cluster: Cluster, judgement: Judgement, unfinished: bool, pending: Sequence[Finding] = ()) -> Report:
        """Return the report of what was judged. ``unfinished``: the run ended early.

        ``pending``: further findings if waiting had ended when a signal interrupted it.
        """
        missing = not_joined(cluster, pending)
        notes = [cluster.plan.note] if cluster.plan.note else []
        if self.signal is not None:
            notes.append(f"interrupted by {signal.Signals(self.signal).name}; this is what was known then")
            notes += pending_notes(pending)
        elif unfinished:
            notes.append("the run did not finish within --wait and --timeout; this is what was known then")
        if cluster.plan.task is not None and not needs_torch(self._until) and not cluster.plan.one_node:
            notes.append(EACH_BY_ITSELF.format(stage=self._until, name=cluster.reference.name))
        notes += changes(cluster.nodes, self._baseline)
        report = assemble(
            cluster,
            judgement,
            started_at=datetime.fromtimestamp(self._clock.started_at, timezone.utc).isoformat(timespec="seconds"),
            seconds=round(time.monotonic() - self._clock.began, 2),
            notes=tuple(notes),
            extra_missing=missing,
            until=self._until,
        )
        if self.signal is not None:
            text = interruption(self.signal, report.seconds, cluster, missing, self._until)
            report = replace(report, details={**report.details, INTERRUPTED: text})
        if unfinished and report.verdict in ("pass", "warn"):
            report = replace(report, verdict="incomplete")
        return report

    def with_own_changes(self, report: Report, own: NodeFacts) -> Report:
        """Return node 0's report with the changes of this node since its own baseline."""
        return with_own_changes(for_another_node(report), own, self._baseline)

    def of_own(self, context: RunContext, judgement: Judgement | None = None, unfinished: bool = False) -> Report:
        """Return the report of this process's own facts, which are judged unless ``judgement`` is given."""
        judgement = context.judge_alone() if judgement is None else judgement
        pending: tuple[Finding, ...] = ()
        if self.signal is not None:
            judgement = certain_judgement(judgement, context.facts)
            pending = pending_failures([context.facts], context.options, judgement)
        return self.make(build([context.facts]), judgement, unfinished, pending)


# The first of a launcher's processes prints the report for all: whether it is still there to do so.


SECONDS = 2.0
"""Limit of its address look-up."""
SHELLS = frozenset(["bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh"])


def started_alone(pid: int, child: int, proc: Path = Path("/proc")) -> bool:
    """Return whether this process was started by a shell or a container's init, and by nothing else that still runs.

    There is then no launcher, and no loop that starts the ranks of a host: the variables of a rank are most likely left
    over. ``pid``: the parent of ``child``, this process.
    """
    if frameworks.agent_above(pid, proc)[0]:
        return False
    for _ in range(frameworks.ANCESTORS):
        if pid == 0:  # the parent is outside this container
            return True
        parent = proc / str(pid)
        try:
            if (parent / "task" / str(pid) / "children").read_text().split() != [str(child)]:
                return False
            if (parent / "comm").read_text(errors="replace").strip() in SHELLS:
                return True
            child, pid = pid, int((parent / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # it ended, is another user's, or the kernel hides it
            return False
    return False


async def first_process_addresses(facts: NodeFacts) -> tuple[str, ...]:
    """Return the addresses of the first process, if they matter: to a second process refused at MASTER_ADDR."""
    contact = facts.network.contact if facts.network else None
    if not facts.plan.first or contact is None or contact.outcome != "refused":
        return ()
    return (await ASKER.ask("addresses", facts.plan.first, SECONDS)).found


def first_process_gone(facts: NodeFacts, first: Collection[str]) -> bool:
    """Return whether the first process has ended, or nothing listens where it is: then the second one prints.

    ``first``: its addresses, as far as they are known.
    """
    contact = facts.network.contact if facts.network else None
    if facts.network is not None and facts.network.elsewhere is not None:
        return False  # its store answers on another port, and has this process's facts
    if contact is None or contact.outcome != "refused":
        return bool(facts.meeting and facts.meeting.host_lost)
    if first and contact.address not in first and _on_another_host(facts, contact.address):
        return False
    # MASTER_ADDR is this node's own host, and the first process is on another node.
    own = {address for card in (facts.host.interfaces if facts.host else ()) for address in card.addresses}
    here = contact.address in own or contact.address.startswith("127.")
    return not (here and facts.plan.local_rank == 0)


def _on_another_host(facts: NodeFacts, address: str) -> bool:
    """Return whether MASTER_ADDR is another host than that of the first process (the host where srun was typed, or one
    with another name), and not another address of the same host."""
    master = facts.plan.master_addr or ""
    named = "" if parse_address(master) is not None else master.partition(".")[0]
    first = facts.plan.first.partition(".")[0]
    return address == os.environ.get(STARTED_FROM) or bool(named and first not in named)
