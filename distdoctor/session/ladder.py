"""The ladder: the stages in their order, first those that this process climbs by itself, then those of the meeting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable

from distdoctor.model.report import Report
from distdoctor.model.stages import ENVIRONMENT, GPU, HOST, NETWORK, Stage, needs_torch, opened_up_to, position
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session import local_stages
from distdoctor.session.confirm import Unconfirmed, with_unconfirmed
from distdoctor.session.join_line import line_for_others
from distdoctor.session.local_stages import ANOTHER_PROCESS, Ended
from distdoctor.session.master_lookup import MasterLookup
from distdoctor.session.meeting import Meeting
from distdoctor.session.network_stage import NetworkStage
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import Rendezvous
from distdoctor.session.report_maker import ReportMaker


class Ladder:
    """Climbed once, up to ``--until``. Without a zygote no stage that needs torch is."""

    def __init__(self, recorder: Recorder, zygote: Zygote | None, reports: ReportMaker) -> None:
        self._recorder, self._options, self._zygote, self._reports = recorder, recorder.options, zygote, reports
        self._lookup = MasterLookup(recorder)
        self.meeting: Meeting | None = None
        """Where this process has got into it."""

    async def climb(self) -> Report | None:
        """Node 0's report; None where there is none, or where no stage is climbed together."""
        recorder, plan = self._recorder, self._options.plan
        await self._alone(ENVIRONMENT, lambda: local_stages.environment(recorder))
        if self._wants(HOST):
            await self._alone(HOST, self._host)
        if plan.announce and self._wants_meeting:
            recorder.observer.announce(line_for_others(self._options), plan.nnodes or 1)
        gpus: asyncio.Future[None] | None = None
        if self._wants(GPU):
            gpus = asyncio.ensure_future(self._alone(GPU, lambda: local_stages.look_at_gpus(recorder, self._zygote)))
        if self._wants_meeting:
            await self._network()
        if gpus is not None:
            await gpus
        if self._wants(NETWORK) and not self._wants_meeting:
            await self._alone(NETWORK, NetworkStage(recorder, self._lookup).look_only)
        if self.meeting is not None:
            return await self._meet(self.meeting)
        for stage in opened_up_to(self._options.until):
            recorder.skip(stage.name, f"needs {NETWORK.name}", NETWORK.name)
        return None

    @property
    def _wants_meeting(self) -> bool:
        return needs_torch(self._options.until)

    def _wants(self, stage: Stage) -> bool:
        return position(self._options.until) >= position(stage.name)

    async def _alone(self, stage: Stage, work: Callable[[], Awaitable[Ended]]) -> None:
        """One stage that needs no other node, where this process is the one to climb it."""
        if stage.climbs == "node" and not self._recorder.leads_node:
            self._recorder.skip(stage.name, ANOTHER_PROCESS)
        else:
            await self._recorder.run_stage(stage.name, work(), stage.seconds)

    async def _host(self) -> Ended:
        if self._wants(NETWORK):
            self._lookup.begin()
        return await local_stages.look_at_host(self._recorder)

    async def _network(self) -> None:
        network = NetworkStage(self._recorder, self._lookup)
        rendezvous = Rendezvous(self._recorder, self._zygote, self._lookup)
        await self._recorder.run_stage(NETWORK.name, network.join(rendezvous), self._options.wait)
        if network.store is not None and self._zygote is not None:
            self.meeting = Meeting(self._recorder, self._zygote, network.store, self._reports.make)

    async def _meet(self, meeting: Meeting) -> Report | None:
        assert self._zygote is not None
        recorder, options = self._recorder, self._options
        await meeting.announce()
        recorder.note_torch(await self._zygote.torch())
        if options.plan.nnodes != 1:
            left = self._reports.started + options.wait + options.timeout - time.monotonic()
            recorder.observer.waits("waiting for the others", left)
        try:
            report = await meeting.hold()
        except Unconfirmed as err:
            return with_unconfirmed(self._reports.of_own(recorder), err.report, options.checks, err.proven)
        if report is None:
            recorder.update_meeting(ended=True)
            return None
        return self._reports.with_own_changes(report, recorder.facts)
