"""The end of a run in one process: its report is printed where it is its turn, the facts are saved, all leave."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace

from distdoctor import interrupts
from distdoctor.judge.engine import Judgement
from distdoctor.launch import openmpi
from distdoctor.model.facts import files
from distdoctor.model.report import Report
from distdoctor.session import first_process
from distdoctor.session.first_process import first_is_gone, started_alone
from distdoctor.session.meeting import Meeting
from distdoctor.session.recorder import Recorder
from distdoctor.session.report_maker import ReportMaker
from distdoctor.store.client import StoreError

READING_SECONDS = 1.5
"""How long an interrupted node 0 keeps the store open, so that the others can read its report."""
BREAKING_OFF_SECONDS = 2.0
ENDS_ALL = (openmpi.NAME,)
"""Launchers that end all processes with the first that fails (mpirun(1), orte_abort_on_non_zero_status)."""
FIRST_GOES_ON = 30.0
"""Seconds that the first process may go on for those who came, once waiting is over here."""


class Finish:
    """Brings the run to its end, once. ``tell`` gets the report where this process prints it."""

    def __init__(self, recorder: Recorder, reports: ReportMaker, tell: Callable[[Report], None]) -> None:
        self._recorder, self._reports, self._tell = recorder, reports, tell
        self.report: Report | None = None
        """The report, once the run has one."""
        self.unsaved = False
        """Whether the facts were to be saved and could not be."""
        self._alone = started_alone(os.getppid(), os.getpid())
        self._where_first: tuple[str, ...] = ()
        """The addresses of the launcher's first process, where that has to be known."""

    async def finish(self, report: Report | None, meeting: Meeting | None) -> None:
        """Tell node 0's report, where there is one, else this process's own; leave together where it is node 0's."""
        self.report = report or self._reports.of_own(self._recorder)
        self._where_first = await first_process.addresses(self._recorder.facts)
        self._save_and_tell(meeting)
        if meeting is not None:
            await meeting.part()
        await asyncio.sleep(self._stays(meeting))

    def _stays(self, meeting: Meeting | None) -> float:
        """Seconds that this process, which met nobody, stays after it has told what it saw: what ends with a bad status
        makes mpirun end all others, and what the first was about to tell is cut off (seen with Open MPI 4.1)."""
        plan, wait = self._recorder.options.plan, self._recorder.options.wait
        told = self._prints(meeting) or (meeting is not None and meeting.agreed)
        good = self.report is None or self.report.verdict in ("pass", "warn")
        if told or good or plan.task is None or plan.launcher not in ENDS_ALL:
            return 0.0
        longest = wait + min(FIRST_GOES_ON, self._recorder.options.timeout)
        return max(0.0, self._recorder.started + longest - time.monotonic())

    async def break_off(self, meeting: Meeting | None, importing: float | None) -> None:
        """Interrupted or out of time: tell what is known so far, and let the others know.

        ``importing``: torch is still being imported, for so many seconds already.
        """
        if self.report is not None:
            return
        if importing is not None:
            self._recorder.note_importing(importing)
        if meeting is not None:
            if self._reports.signal is not None:
                self._recorder.update_meeting(left=signal.Signals(self._reports.signal).name)
            try:
                self.report = await asyncio.wait_for(meeting.break_off(), BREAKING_OFF_SECONDS)
            except (StoreError, asyncio.TimeoutError, OSError):
                pass
        if self.report is None:
            if self._recorder.told_so_far and self._reports.signal is None:
                self._recorder.update_meeting(ended=True)
            self.report = self._reports.of_own(self._recorder, unfinished=True)
        self._save_and_tell(meeting)
        if meeting is not None and meeting.published:
            try:
                await asyncio.wait_for(meeting.part(), READING_SECONDS)
            except asyncio.TimeoutError:
                pass

    def tell_late(self, meeting: Meeting | None) -> None:
        """Called in another thread, while a step here ignores its deadline: tell what is known."""
        nothing = Judgement("incomplete", ())
        report = self.report or self._reports.of_own(self._recorder, nothing, unfinished=True)
        if self._prints(meeting):
            self._tell(report)

    def _prints(self, meeting: Meeting | None) -> bool:
        plan = self._recorder.options.plan
        if plan.started == "node" and plan.task is None:
            return True
        leads = meeting is not None and meeting.leads
        if meeting is not None and self.report is not None and not leads and meeting.agreed:
            return False
        if plan.task is None or leads:
            return leads or self._recorder.leads_node or self._alone
        # A launcher that ends one process ends all, and the first tells.
        if plan.task != 1 or self._reports.signal is not None:
            return plan.task == 0
        return first_is_gone(self._recorder.facts, self._where_first)

    def _tell_beside(self, report: Report) -> None:
        """What this process saw, where it met nobody and another tells the report: a line of stderr for each cause."""
        for finding in report.findings:
            if finding.because_of is None and finding.severity == "fail":
                self._recorder.observer.note(
                    f"{self._recorder.facts.identity.hostname}: {finding.check}: {finding.summary}"
                )

    def _save_and_tell(self, meeting: Meeting | None) -> None:
        assert self.report is not None
        problem = self._save(meeting)
        self.unsaved = problem is not None
        if problem is not None and self._prints(meeting):
            self.report = replace(self.report, notes=(*self.report.notes, problem))
        elif problem is not None:
            self._recorder.observer.note(problem)
        if self._prints(meeting):
            self._tell(self.report)
        elif self._recorder.options.plan.task is not None and not (meeting is not None and meeting.agreed):
            self._tell_beside(self.report)
        interrupts.over()

    def _save(self, meeting: Meeting | None) -> str | None:
        """Save the facts where that is asked for. What went wrong, or None."""
        place, keep = self._recorder.options.save, self._recorder.options.keep
        facts = meeting.own_facts() if meeting is not None else self._recorder.facts
        if keep is not None:
            keep(facts)
        if place is None:
            return None
        try:
            files.write(place, facts, self._recorder.leads_node)
        except OSError as err:
            return f"the facts could not be saved: {err}"
        return None
