"""One run of ``check`` in one process: what it has of its own, its deadlines, and the signals that may end it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from distdoctor import interrupts, streams
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report
from distdoctor.model.shared_token import VARIABLE
from distdoctor.model.stages import needs_torch
from distdoctor.probes.look_up import ASKER
from distdoctor.ranks.supervisor import Zygote, adopt_orphans
from distdoctor.session.finish import Finish
from distdoctor.session.guard import TELLING_SECONDS, Guard
from distdoctor.session.join_line import with_master
from distdoctor.session.ladder import Ladder
from distdoctor.session.options import Options
from distdoctor.session.recorder import Recorder
from distdoctor.session.report_maker import ReportMaker

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
        self._seconds = options.wait + options.timeout
        launched = zygote.started if zygote is not None else None
        self._reports = ReportMaker(options.until, options.baseline, launched)
        recorder = Recorder(options, observer, launched)
        self._ladder = Ladder(recorder, zygote, self._reports)
        self._finish = Finish(recorder, self._reports, tell)

    async def run(self) -> Outcome:
        """Climb the ladder and tell the report."""
        if self._zygote is not None:
            self._zygote.listen()
        task = asyncio.ensure_future(self._run())
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_ignore_shortage)
        loop.call_later(self._seconds + LATE_SECONDS, self._expire, task)
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
