"""One run of ``check`` in one process: what it has of its own, its deadlines, and the signals that may end it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from distdoctor import interrupts, streams
from distdoctor.model.launch_settings import VARIABLE
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report
from distdoctor.model.stages import ENVIRONMENT, GPU, HOST, NETWORK, Stage, needs_torch, opened_up_to, position
from distdoctor.probes.resolver import ASKER
from distdoctor.ranks.supervisor import Zygote, adopt_orphans
from distdoctor.render.exit_status import INCOMPLETE
from distdoctor.session.context import RunContext
from distdoctor.session.finish import Finish, ReportMaker
from distdoctor.session.follower.follower import Membership
from distdoctor.session.options import Options
from distdoctor.session.protocol.confirm import Unconfirmed, with_unconfirmed
from distdoctor.session.rendezvous.join import Rendezvous
from distdoctor.session.rendezvous.master import MasterLookup
from distdoctor.session.rendezvous.progress import line_for_others, with_master
from distdoctor.session.stages import local
from distdoctor.session.stages.local import ANOTHER_PROCESS, Ended
from distdoctor.session.stages.network import NetworkStage

MARGIN_SECONDS = 5.0
"""No process outlives --wait + --timeout by more than this."""
LATE_SECONDS = 0.5
"""How long after --wait + --timeout this process stops what it does, and tells what is known."""
WATCH_SECONDS = 0.1
"""How often it is looked whether a signal came, and whether anybody still reads what this process will tell."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    report: Report
    exit_signal: int | None
    """The signal that interrupted it, or None."""
    unsaved: bool = False
    """Whether the facts were to be saved and could not be."""


def run(options: Options, observer: Observer, tell: Callable[[Report], None]) -> Outcome:
    """Climb the ladder. ``tell`` gets the report at the moment it is to be printed, where this process prints it.

    Raises UsageError where the plan cannot be carried out here.
    """
    os.environ.pop(VARIABLE, None)  # it is in the options: no process of ours needs to inherit it
    adopt_orphans()
    interrupts.hold()  # the session looks at them
    zygote = Zygote() if needs_torch(options.until) else None
    with suppress(OSError):  # look-ups then have threads
        ASKER.start()
    guard = None
    try:
        session = CheckSession(options, observer, tell, zygote)
        guard = Guard(options.wait + options.timeout + MARGIN_SECONDS - TELLING_SECONDS, session.tell_late)
        guard.start()
        return asyncio.run(session.run())
    finally:
        interrupts.hold()
        if guard is not None:
            guard.cancel()
        ASKER.stop()
        if zygote is not None:
            zygote.stop()


def _ignore_shortage(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What is met outside of any task, or in one that nobody waits for any more, is in the facts: an accept() without a
    file descriptor left, a thread that cannot be started."""
    err = context.get("exception")
    if not isinstance(err, OSError) and not (isinstance(err, RuntimeError) and "start new thread" in str(err)):
        loop.default_exception_handler(context)


class CheckSession:
    """The life of one process of the run: to its end, or to that of its time, or to a signal."""

    def __init__(
        self, options: Options, observer: Observer, tell: Callable[[Report], None], zygote: Zygote | None
    ) -> None:
        options = with_master(options)
        self._zygote = zygote
        self._context = context = RunContext(options, observer, zygote.started if zygote is not None else None)
        self._reports = ReportMaker(options.until, context.clock, options.baseline)
        self._ladder = StageRunner(context, zygote, self._reports)
        self._finish = Finish(context, self._reports, tell)

    async def run(self) -> Outcome:
        """Climb the ladder and tell the report."""
        if self._zygote is not None:
            self._zygote.listen()
        task = asyncio.ensure_future(self._run())
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_ignore_shortage)
        loop.call_later(self._context.clock.left + LATE_SECONDS, self._expire, task)
        watching = asyncio.ensure_future(self._watch(task))
        try:
            await task
        except asyncio.CancelledError:
            await self._finish.break_off(self._ladder.meeting, self._importing())
        finally:
            watching.cancel()
            if self._ladder.meeting is not None:
                self._ladder.meeting.close()
        assert self._finish.report is not None
        return Outcome(self._finish.report, self._reports.signal, self._finish.unsaved)

    def tell_late(self) -> None:
        """Called by the guard, in another thread, while a step here ignores its deadline: tell what is known."""
        self._finish.tell_late(self._ladder.meeting)

    async def _run(self) -> None:
        report = await self._ladder.climb()
        await self._finish.finish(report, self._ladder.meeting)

    def _importing(self) -> float | None:
        """For how long torch is being imported, where it still is."""
        return self._zygote.torch_seconds() if self._zygote is not None and self._zygote.importing else None

    async def _watch(self, task: asyncio.Future[None]) -> None:
        """End on a signal, and as on SIGHUP once nobody reads: of an ssh that was ended the remote side lives on, and
        would be counted among the nodes of the next run.

        Looked at, and not told by the loop: while that gives up its handlers, a signal would find none, or a closed
        socket.
        """
        while (number := interrupts.pending()) is None and not streams.nobody_reads():
            await asyncio.sleep(WATCH_SECONDS)
        self._reports.signal = number or signal.SIGHUP
        self._cancel(task)

    def _cancel(self, task: asyncio.Future[None]) -> None:
        """Cancel until it is done: up to Python 3.11, wait_for() swallows a cancel that comes as its work ends."""
        if not task.done():
            task.cancel()
            asyncio.get_running_loop().call_later(0.2, self._cancel, task)

    def _expire(self, task: asyncio.Future[None]) -> None:
        """--wait and --timeout are spent, perhaps because node 0 still waits for others: tell what is known."""
        if self._finish.report is None:
            self._cancel(task)


# The ladder: the stages in their order, first those that this process climbs by itself, then those of the meeting.


class StageRunner:
    """Climbed once, up to ``--until``. Without a zygote no stage that needs torch is."""

    def __init__(self, context: RunContext, zygote: Zygote | None, reports: ReportMaker) -> None:
        self._context, self._options, self._zygote, self._reports = context, context.options, zygote, reports
        self._lookup = MasterLookup(context)
        self.meeting: Membership | None = None
        """Where this process has got into it."""

    async def climb(self) -> Report | None:
        """Node 0's report; None where there is none, or where no stage is climbed together."""
        context, plan = self._context, self._context.plan
        await self._alone(ENVIRONMENT, lambda: local.environment(context))
        if self._wants(HOST):
            await self._alone(HOST, self._host)
        if plan.announce and self._wants_meeting:
            context.observer.announce(line_for_others(self._options), plan.nnodes or 1)
        gpus: asyncio.Future[None] | None = None
        if self._wants(GPU):
            gpus = asyncio.ensure_future(self._alone(GPU, lambda: local.look_at_gpus(context, self._zygote)))
        if self._wants_meeting:
            await self._network()
        if gpus is not None:
            await gpus
        if self._wants(NETWORK) and not self._wants_meeting:
            await self._alone(NETWORK, NetworkStage(context, self._lookup).look_only)
        if self.meeting is not None:
            return await self._meet(self.meeting)
        for stage in opened_up_to(self._options.until):
            context.skip(stage.name, f"needs {NETWORK.name}", NETWORK.name)
        return None

    @property
    def _wants_meeting(self) -> bool:
        return needs_torch(self._options.until)

    def _wants(self, stage: Stage) -> bool:
        return position(self._options.until) >= position(stage.name)

    async def _alone(self, stage: Stage, work: Callable[[], Awaitable[Ended]]) -> None:
        """One stage that needs no other node, where this process is the one to climb it."""
        if stage.climbs == "node" and not self._context.leads_node:
            self._context.skip(stage.name, ANOTHER_PROCESS)
        else:
            await self._context.run_stage(stage.name, work(), stage.seconds)

    async def _host(self) -> Ended:
        if self._wants(NETWORK):
            self._lookup.begin()
        return await local.look_at_host(self._context)

    async def _network(self) -> None:
        network = NetworkStage(self._context, self._lookup)
        rendezvous = Rendezvous(self._context, self._zygote, self._lookup)
        await self._context.run_stage(NETWORK.name, network.join(rendezvous), self._context.clock.wait)
        if network.store is not None and self._zygote is not None:
            self.meeting = Membership(self._context, self._zygote, network.store, self._reports.make)

    async def _meet(self, meeting: Membership) -> Report | None:
        assert self._zygote is not None
        context, options = self._context, self._options
        await meeting.announce()
        context.note_torch(await self._zygote.torch())
        if context.plan.nnodes != 1:
            context.observer.waits("waiting for the others", context.clock.left)
        try:
            report = await meeting.hold()
        except Unconfirmed as err:
            return with_unconfirmed(self._reports.of_own(context), err.report, options.checks, err.proven)
        if report is None:
            context.update_meeting(ended=True)
            return None
        return self._reports.with_own_changes(report, context.facts)


# The last resort: a step that ignores its deadline must not keep the process, and what is known is told.


TELLING_SECONDS = 1.0
"""How long telling may take then: stdout may be what does not go on."""
SWITCH_SECONDS = 0.0005
"""How long the thread that does not end may keep others from their turn then, a tenth of what is usual."""


class Guard:
    """Ends this process ``seconds`` after :meth:`start`, unless it is cancelled. Its children die with it.

    ``tell`` is called first, in a thread of its own; whatever becomes of it, the process then ends.
    """

    def __init__(self, seconds: float, tell: Callable[[], None]) -> None:
        self._tell = tell
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def start(self) -> None:
        """Begin to wait."""
        with suppress(RuntimeError):  # no further thread is allowed: its own deadlines are left to this process
            self._timer.start()

    def cancel(self) -> None:
        """It went well."""
        self._timer.cancel()

    def _end(self) -> None:
        try:
            sys.setswitchinterval(SWITCH_SECONDS)
            teller = threading.Thread(target=self._tell, daemon=True)
            teller.start()
            teller.join(TELLING_SECONDS)
            os.write(2, b"distdoctor: could not finish within --wait + --timeout; giving up\n")
        except (OSError, RuntimeError):  # nobody reads, or no further thread is allowed
            pass
        finally:
            os._exit(INCOMPLETE)
