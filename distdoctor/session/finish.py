"""The end of a run in one process: its report is printed where it is its turn, the facts are saved, all leave."""

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
"""How long an interrupted node 0 keeps the store open, so that the others can read its report."""
BREAKING_OFF_SECONDS = 2.0
ENDS_ALL = (mpi.OPENMPI_NAME,)
"""Launchers that end all processes with the first that fails (mpirun(1), orte_abort_on_non_zero_status)."""
FIRST_GOES_ON = 30.0
"""Seconds that the first process may go on for those who came, once waiting is over here."""


class Finish:
    """Brings the run to its end, once. ``tell`` gets the report where this process prints it."""

    def __init__(self, context: RunContext, reports: ReportMaker, tell: Callable[[Report], None]) -> None:
        self._context, self._reports, self._tell = context, reports, tell
        self.report: Report | None = None
        """The report, once the run has one."""
        self.unsaved = False
        """Whether the facts were to be saved and could not be."""
        self._alone = started_alone(os.getppid(), os.getpid())
        self._where_first: tuple[str, ...] = ()
        """The addresses of the launcher's first process, where that has to be known."""

    async def finish(self, report: Report | None, meeting: Membership | None) -> None:
        """Tell node 0's report, where there is one, else this process's own; leave together where it is node 0's."""
        self.report = report or self._reports.of_own(self._context)
        self._where_first = await first_process_addresses(self._context.facts)
        self._save_and_tell(meeting)
        if meeting is not None:
            await meeting.part()
        await asyncio.sleep(self._stays(meeting))

    def _stays(self, meeting: Membership | None) -> float:
        """Seconds that this process, which met nobody, stays after it has told what it saw: what ends with a bad status
        makes mpirun end all others, and what the first was about to tell is cut off (seen with Open MPI 4.1)."""
        plan, clock = self._context.plan, self._context.clock
        told = self._prints(meeting) or (meeting is not None and meeting.agreed)
        good = self.report is None or self.report.verdict in ("pass", "warn")
        if told or good or plan.task is None or plan.launcher not in ENDS_ALL:
            return 0.0
        longest = clock.wait + min(FIRST_GOES_ON, clock.timeout)
        return max(0.0, clock.started + longest - time.monotonic())

    async def break_off(self, meeting: Membership | None, importing: float | None) -> None:
        """Interrupted or out of time: tell what is known so far, and let the others know.

        ``importing``: torch is still being imported, for so many seconds already.
        """
        if self.report is not None:
            return
        if importing is not None:
            self._context.note_importing(importing)
        if meeting is not None:
            if self._reports.signal is not None:
                self._context.update_meeting(left=signal.Signals(self._reports.signal).name)
            try:
                self.report = await asyncio.wait_for(meeting.break_off(), BREAKING_OFF_SECONDS)
            except (StoreError, asyncio.TimeoutError, OSError):
                pass
        if self.report is None:
            if self._context.progress_reported and self._reports.signal is None:
                self._context.update_meeting(ended=True)
            self.report = self._reports.of_own(self._context, unfinished=True)
        self._save_and_tell(meeting)
        if meeting is not None and meeting.published:
            try:
                await asyncio.wait_for(meeting.part(), READING_SECONDS)
            except asyncio.TimeoutError:
                pass

    def tell_late(self, meeting: Membership | None) -> None:
        """Called in another thread, while a step here ignores its deadline: tell what is known."""
        nothing = Judgement("incomplete", ())
        report = self.report or self._reports.of_own(self._context, nothing, unfinished=True)
        if self._prints(meeting):
            self._tell(report)

    def _prints(self, meeting: Membership | None) -> bool:
        plan = self._context.plan
        if plan.started == "node" and plan.task is None:
            return True
        leads = meeting is not None and meeting.leads
        if meeting is not None and self.report is not None and not leads and meeting.agreed:
            return False
        if plan.task is None or leads:
            return leads or self._context.leads_node or self._alone
        # A launcher that ends one process ends all, and the first tells.
        if plan.task != 1 or self._reports.signal is not None:
            return plan.task == 0
        return first_process_gone(self._context.facts, self._where_first)

    def _tell_beside(self, report: Report) -> None:
        """What this process saw, where it met nobody and another tells the report: a line of stderr for each cause."""
        for finding in report.findings:
            if finding.because_of is None and finding.severity == "fail":
                self._context.observer.note(
                    f"{self._context.facts.identity.hostname}: {finding.check}: {finding.summary}"
                )

    def _save_and_tell(self, meeting: Membership | None) -> None:
        assert self.report is not None
        problem = self._save(meeting)
        self.unsaved = problem is not None
        if problem is not None and self._prints(meeting):
            self.report = replace(self.report, notes=(*self.report.notes, problem))
        elif problem is not None:
            self._context.observer.note(problem)
        if self._prints(meeting):
            self._tell(self.report)
        elif self._context.plan.task is not None and not (meeting is not None and meeting.agreed):
            self._tell_beside(self.report)
        interrupts.over()

    def _save(self, meeting: Membership | None) -> str | None:
        """Save the facts where that is asked for. What went wrong, or None."""
        place, keep = self._context.options.save, self._context.options.keep
        facts = meeting.own_facts() if meeting is not None else self._context.facts
        if keep is not None:
            keep(facts)
        if place is None:
            return None
        try:
            files.write(place, facts, self._context.leads_node)
        except OSError as err:
            return f"the facts could not be saved: {err}"
        return None


# Making reports of this run: with when it began, how long it took, and whether it was ended before its end.


EACH_BY_ITSELF = (
    "up to {stage} each node is checked by itself; this report is of {name}, the others print theirs on stderr and set "
    "their own exit status"
)


class ReportMaker:
    """Makes the reports of one process."""

    def __init__(self, until: str, clock: Clock, baseline: Sequence[NodeFacts] = ()) -> None:
        """``until``: the last stage of the run. ``baseline``: facts of an earlier run, to report what changed since."""
        self._until, self._clock, self._baseline = until, clock, baseline
        self.signal: int | None = None
        """The signal that interrupted the run."""

    def make(self, cluster: Cluster, judgement: Judgement, unfinished: bool, pending: Sequence[Finding] = ()) -> Report:
        """The report of what was judged; ``unfinished``: of a run that did not come to its end.

        ``pending``: what would be found if waiting had ended, of a run that was interrupted while it waited.
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
            told = interruption(self.signal, report.seconds, cluster, missing, self._until)
            report = replace(report, details={**report.details, INTERRUPTED: told})
        if unfinished and report.verdict in ("pass", "warn"):
            report = replace(report, verdict="incomplete")
        return report

    def with_own_changes(self, report: Report, own: NodeFacts) -> Report:
        """Node 0's report, with what changed on this node since its own baseline."""
        return with_own_changes(for_another_node(report), own, self._baseline)

    def of_own(self, context: RunContext, judgement: Judgement | None = None, unfinished: bool = False) -> Report:
        """The report of this process's own facts; they are judged here where that is not done."""
        judgement = context.judge_alone() if judgement is None else judgement
        pending: tuple[Finding, ...] = ()
        if self.signal is not None:
            judgement = certain_judgement(judgement, context.facts)
            pending = pending_failures([context.facts], context.options, judgement)
        return self.make(build([context.facts]), judgement, unfinished, pending)


# Whether the first of a launcher's processes, which tells the report of all, is there to tell it.


SECONDS = 2.0
"""To look its address up."""
SHELLS = frozenset(["bash", "sh", "dash", "zsh", "fish", "ksh", "csh", "tcsh"])


def started_alone(pid: int, child: int, proc: Path = Path("/proc")) -> bool:
    """Return whether a shell started this process, or what a container started, and nothing else that runs now: no
    launcher, and no loop that starts the ranks of a host. A rank's variables are then most likely left over from
    somebody else.

    ``pid``: the parent of ``child``, this process.
    """
    if frameworks.agent_above(pid, proc)[0]:
        return False
    for _ in range(frameworks.ANCESTORS):
        if pid == 0:  # nothing is above it in its container
            return True
        parent = proc / str(pid)
        try:
            if (parent / "task" / str(pid) / "children").read_text().split() != [str(child)]:
                return False
            if (parent / "comm").read_text(errors="replace").strip() in SHELLS:
                return True
            child, pid = pid, int((parent / "stat").read_text(errors="replace").rpartition(")")[2].split()[1])
        except (OSError, ValueError, IndexError):  # gone, somebody else's, or a kernel that does not tell
            return False
    return False


async def first_process_addresses(facts: NodeFacts) -> tuple[str, ...]:
    """Its addresses, where it matters: for a second process that was refused at MASTER_ADDR."""
    contact = facts.network.contact if facts.network else None
    if not facts.plan.first or contact is None or contact.outcome != "refused":
        return ()
    return (await ASKER.ask("addresses", facts.plan.first, SECONDS)).found


def first_process_gone(facts: NodeFacts, first: Collection[str]) -> bool:
    """Return whether the first process has ended, or nothing listens where it is: the second one then tells.

    ``first``: its addresses, as far as they are known."""
    contact = facts.network.contact if facts.network else None
    if facts.network is not None and facts.network.elsewhere is not None:
        return False  # its store answers on another port, and has this process's facts
    if contact is None or contact.outcome != "refused":
        return bool(facts.meeting and facts.meeting.host_lost)
    if first and contact.address not in first and _elsewhere(facts, contact.address):
        return False
    # The first of another node, whose MASTER_ADDR is its own host: the first one is not there.
    own = {address for one in (facts.host.interfaces if facts.host else ()) for address in one.addresses}
    here = contact.address in own or contact.address.startswith("127.")
    return not (here and facts.plan.local_rank == 0)


def _elsewhere(facts: NodeFacts, address: str) -> bool:
    """Return whether MASTER_ADDR means another host than that of the first process, and not a further address of
    that one: the host that srun was typed on, or one with another name."""
    master = facts.plan.master_addr or ""
    named = "" if parse_address(master) is not None else master.partition(".")[0]
    first = facts.plan.first.partition(".")[0]
    return address == os.environ.get(STARTED_FROM) or bool(named and first not in named)
