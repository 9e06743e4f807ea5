"""One run of ``check`` in one process: its stages, its deadlines, and the signals that may end it."""

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
from distdoctor.model.stages import ENVIRONMENT, GPU, HOST, NETWORK, Stage, needs_torch, opened_up_to, stage_index
from distdoctor.probes.resolver import ASKER
from distdoctor.ranks.supervisor import Zygote, adopt_orphans
from distdoctor.render.exit_status import INCOMPLETE
from distdoctor.session.context import RunContext
from distdoctor.session.finish import Finish, ReportMaker
from distdoctor.session.follower.follower import Membership
from distdoctor.session.options import Options
from distdoctor.session.protocol.confirm import Unconfirmed, with_unconfirmed
from distdoctor.session.rendezvous.join import Rendezvous
from distdoctor.session.rendezvous.lookup import MasterLookup
from distdoctor.session.rendezvous.progress import line_for_others, with_master
from distdoctor.session.stages import local
from distdoctor.session.stages.local import ANOTHER_PROCESS, Ended
from distdoctor.session.stages.network import NetworkStage

MARGIN_SECONDS = 5.0
"""Limit by which a process may outlive --wait + --timeout."""
LATE_SECONDS = 0.5
"""Seconds after --wait + --timeout at which this process stops its work and prints what is known."""
WATCH_SECONDS = 0.1
"""Interval of the checks for a signal, and for a reader of this process's output."""


@dataclass(frozen=True)
class Outcome:
    """End of a run."""

    report: Report
    exit_signal: int | None
    """Signal that interrupted it, or None."""
    unsaved: bool = False
    """True if the facts were to be saved and could not be."""


def run(options: Options, observer: Observer, print_report: Callable[[Report], None]) -> Outcome:
    """Run the stages. ``print_report`` gets the report when it is to be printed, if this process prints it.

    Raises UsageError if the plan cannot be carried out here.
    """
    os.environ.pop(VARIABLE, None)  # it is in the options: no process of ours needs to inherit it
    adopt_orphans()
    interrupts.hold()  # the session polls them
    zygote = Zygote() if needs_torch(options.until) else None
    with suppress(OSError):  # look-ups then have threads
        ASKER.start()
    guard = None
    try:
        session = CheckSession(options, observer, print_report, zygote)
        guard = Guard(options.wait + options.timeout + MARGIN_SECONDS - PRINTING_SECONDS, session.print_late)
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
    """Ignore errors outside of any task: the facts have them (an accept() without a file descriptor left, a thread that
    cannot be started)."""
    err = context.get("exception")
    if not isinstance(err, OSError) and not (isinstance(err, RuntimeError) and "start new thread" in str(err)):
        loop.default_exception_handler(context)


class CheckSession:
    """Life of one process of the run: to its end, its timeout, or a signal."""

    def __init__(
        self, options: Options, observer: Observer, print_report: Callable[[Report], None], zygote: Zygote | None
    ) -> None:
        options = with_master(options)
        self._zygote = zygote
        self._context = context = RunContext(options, observer, zygote.started if zygote is not None else None)
        self._reports = ReportMaker(options.until, context.clock, options.baseline)
        self._stages = StageRunner(context, zygote, self._reports)
        self._finish = Finish(context, self._reports, print_report)

    async def run(self) -> Outcome:
        """Run the stages and print the report."""
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
            await self._finish.break_off(self._stages.membership, self._importing())
        finally:
            watching.cancel()
            if self._stages.membership is not None:
                self._stages.membership.close()
        assert self._finish.report is not None
        return Outcome(self._finish.report, self._reports.signal, self._finish.unsaved)

    def print_late(self) -> None:
        """Print what is known, in the guard's thread, while a step ignores its deadline."""
        self._finish.print_late(self._stages.membership)

    async def _run(self) -> None:
        report = await self._stages.run()
        await self._finish.finish(report, self._stages.membership)

    def _importing(self) -> float | None:
        """Return the seconds for which torch has been importing, if it still is."""
        return self._zygote.torch_seconds() if self._zygote is not None and self._zygote.importing else None

    async def _watch(self, task: asyncio.Future[None]) -> None:
        """End on a signal, and as on SIGHUP once nobody reads: the remote side of an ended ssh lives on, and would be
        counted among the nodes of the next run.

        Signals are polled, not delivered by the event loop: while that gives up its handlers, a signal would find none,
        or a closed socket.
        """
        while (number := interrupts.pending()) is None and not streams.nobody_reads():
            await asyncio.sleep(WATCH_SECONDS)
        self._reports.signal = number or signal.SIGHUP
        self._cancel(task)

    def _cancel(self, task: asyncio.Future[None]) -> None:
        """Cancel until it is done: up to Python 3.11, wait_for() swallows a cancel that arrives as its work ends."""
        if not task.done():
            task.cancel()
            asyncio.get_running_loop().call_later(0.2, self._cancel, task)

    def _expire(self, task: asyncio.Future[None]) -> None:
        """Print what is known once --wait and --timeout are spent, perhaps because node 0 still waits for others."""
        if self._finish.report is None:
            self._cancel(task)


# The stages in their order: first those that this process runs by itself, then those that node 0 opens for all.


class StageRunner:
    """Runs the stages once, up to ``--until``. Without a zygote no stage that needs torch runs."""

    def __init__(self, context: RunContext, zygote: Zygote | None, reports: ReportMaker) -> None:
        self._context, self._options, self._zygote, self._reports = context, context.options, zygote, reports
        self._lookup = MasterLookup(context)
        self.membership: Membership | None = None
        """Membership in the run, once this process has joined."""

    async def run(self) -> Report | None:
        """Return node 0's report; None if there is none, or if no stage runs together."""
        context, plan = self._context, self._context.plan
        await self._alone(ENVIRONMENT, lambda: local.environment(context))
        if self._wants(HOST):
            await self._alone(HOST, self._host)
        if plan.announce and self._wants_others:
            context.observer.announce(line_for_others(self._options), plan.nnodes or 1)
        gpus: asyncio.Future[None] | None = None
        if self._wants(GPU):
            gpus = asyncio.ensure_future(self._alone(GPU, lambda: local.look_at_gpus(context, self._zygote)))
        if self._wants_others:
            await self._network()
        if gpus is not None:
            await gpus
        if self._wants(NETWORK) and not self._wants_others:
            await self._alone(NETWORK, NetworkStage(context, self._lookup).look_only)
        if self.membership is not None:
            return await self._run_together(self.membership)
        for stage in opened_up_to(self._options.until):
            context.skip(stage.name, f"needs {NETWORK.name}", NETWORK.name)
        return None

    @property
    def _wants_others(self) -> bool:
        return needs_torch(self._options.until)

    def _wants(self, stage: Stage) -> bool:
        return stage_index(self._options.until) >= stage_index(stage.name)

    async def _alone(self, stage: Stage, work: Callable[[], Awaitable[Ended]]) -> None:
        """Run one stage that needs no other node, if this process is the one to run it."""
        if stage.runs_in == "node" and not self._context.leads_node:
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
            self.membership = Membership(self._context, self._zygote, network.store, self._reports.make)

    async def _run_together(self, membership: Membership) -> Report | None:
        assert self._zygote is not None
        context, options = self._context, self._options
        await membership.announce()
        context.note_torch(await self._zygote.torch())
        if context.plan.nnodes != 1:
            context.observer.waits("waiting for the others", context.clock.left)
        try:
            report = await membership.take_part()
        except Unconfirmed as err:
            return with_unconfirmed(self._reports.of_own(context), err.report, options.checks, err.proven)
        if report is None:
            context.update_meeting(ended=True)
            return None
        return self._reports.with_own_changes(report, context.facts)


# Last resort: a step that ignores its deadline must not keep the process, and what is known is printed.


PRINTING_SECONDS = 1.0
"""Limit of printing then: stdout may be what blocks."""
SWITCH_SECONDS = 0.0005
"""Seconds for which the thread that does not end may hold the interpreter then, a tenth of the default."""


class Guard:
    """Ends this process ``seconds`` after :meth:`start`, unless it is cancelled. Its children end with it.

    ``print_known`` runs first, in a thread of its own; whatever becomes of it, the process then ends.
    """

    def __init__(self, seconds: float, print_known: Callable[[], None]) -> None:
        self._print_known = print_known
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True

    def start(self) -> None:
        with suppress(RuntimeError):  # no further thread is allowed: only its own deadlines end this process
            self._timer.start()

    def cancel(self) -> None:
        """Stop the timer: the run ended by itself."""
        self._timer.cancel()

    def _end(self) -> None:
        try:
            sys.setswitchinterval(SWITCH_SECONDS)
            printer = threading.Thread(target=self._print_known, daemon=True)
            printer.start()
            printer.join(PRINTING_SECONDS)
            os.write(2, b"distdoctor: could not finish within --wait + --timeout; giving up\n")
        except (OSError, RuntimeError):  # nobody reads, or no further thread is allowed
            pass
        finally:
            os._exit(INCOMPLETE)
