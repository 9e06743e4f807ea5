"""One run of ``check`` in one process, from the first probe to the last."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from distdoctor import interrupts
from distdoctor.judge.build_report import assemble
from distdoctor.judge.engine import Judgement
from distdoctor.model.cluster import Cluster, build
from distdoctor.model.facts import StageStatus, files
from distdoctor.model.observer import Observer
from distdoctor.model.report import Report
from distdoctor.model.stages import ENVIRONMENT, GPU, HOST, NETWORK, needs_torch, opened_up_to, position
from distdoctor.probes.connect import connect
from distdoctor.probes.look_up import ASKER
from distdoctor.ranks.supervisor import Zygote, adopt_orphans
from distdoctor.session.confirm import Unconfirmed, with_unconfirmed
from distdoctor.session.follower import Follower
from distdoctor.session.guard import TELLING_SECONDS, Guard
from distdoctor.session.inbox import Inbox
from distdoctor.session.join_line import line_for_others, with_master
from distdoctor.session.leader import Leader
from distdoctor.session.options import Options
from distdoctor.session.post import OwnPost, StorePost, TooLate, Untrusted
from distdoctor.session.protocol import Event
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import JoinedStore, Rendezvous
from distdoctor.session.roll_call import planned
from distdoctor.session.seal import VARIABLE
from distdoctor.session.unmet import contact_words, why_not_met
from distdoctor.store.client import StoreError

MARGIN_SECONDS = 5.0
"""No process outlives --wait + --timeout by more than this."""
LATE_SECONDS = 0.5
"""How long after --wait + --timeout this process stops what it does, and tells what is known."""
READING_SECONDS = 1.5
"""How long an interrupted node 0 keeps the store open, so that the others can read its report."""
PARTING_SECONDS = 2.0
"""How long a node waits for node 0's store to close, so that the port is free when its command returns."""


@dataclass(frozen=True)
class Outcome:
    """How a run ended."""

    report: Report
    exit_signal: int | None
    """The signal that interrupted it, or None."""
    prints: bool
    """Whether this process printed the report (once per rank, only one does)."""
    unsaved: bool = False
    """Whether the facts were to be saved and could not be."""


def run(options: Options, observer: Observer, tell: Callable[[Report], None]) -> Outcome:
    """Climb the ladder. ``tell`` gets the report at the moment it is to be printed, where this process prints it.

    Raises UsageError where the plan cannot be carried out here.
    """
    os.environ.pop(VARIABLE, None)  # it is in the options: no process of ours needs to inherit it
    adopt_orphans()
    interrupts.hold()  # until the event loop has handlers of its own
    zygote = Zygote() if needs_torch(options.until) else None
    with suppress(OSError):  # look-ups then have threads
        ASKER.start()
    guard = None
    try:
        doctor = CheckSession(options, observer, tell, zygote)
        guard = Guard(options.wait + options.timeout + MARGIN_SECONDS - TELLING_SECONDS, doctor.tell_late)
        guard.start()
        return asyncio.run(doctor.run())
    finally:
        interrupts.hold()
        if guard is not None:
            guard.cancel()
        ASKER.stop()
        if zygote is not None:
            zygote.stop()


def _ignore_socket_errors(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """What asyncio meets outside of any task, such as an accept() without a file descriptor left, is in the facts."""
    if not isinstance(context.get("exception"), OSError):
        loop.default_exception_handler(context)


class CheckSession:
    def __init__(
        self, options: Options, observer: Observer, tell: Callable[[Report], None], zygote: Zygote | None
    ) -> None:
        self.options, self.observer, self.tell, self.zygote = with_master(options), observer, tell, zygote
        self.started = time.monotonic()
        self.started_at = datetime.now(timezone.utc).isoformat(timespec="seconds")
        self.member = Recorder(self.options, observer, zygote)
        self.meeting: Rendezvous | None = None
        self.seat: JoinedStore | None = None
        self.climber: Follower | None = None
        self.lead: Leader | None = None
        self.signal: int | None = None
        self.expired = False
        self.report: Report | None = None
        self.untrusted = False
        self.printed = False
        self.unsaved = False

    async def run(self) -> Outcome:
        if self.zygote is not None:
            self.zygote.listen()
        task = asyncio.ensure_future(self._climb())
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(_ignore_socket_errors)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, self._interrupt, number, task)
        if (early := interrupts.pending()) is not None:
            self._interrupt(early, task)
        loop.call_later(self.options.wait + self.options.timeout + LATE_SECONDS, self._expire, task)
        try:
            await task
        except asyncio.CancelledError:
            await self._partial()
        finally:
            if self.climber is not None:
                self.climber.close()
            if self.seat is not None:
                self.seat.client.close()
        assert self.report is not None
        return Outcome(self.report, self.signal, self.printed, self.unsaved)

    def _interrupt(self, number: int, task: asyncio.Future[None]) -> None:
        if self.signal is not None:
            os._exit(128 + number)  # asked twice: leave at once; the zygote and its children go with us
        self.signal = number
        self._cancel(task)

    def _cancel(self, task: asyncio.Future[None]) -> None:
        """Cancel until it is done: up to Python 3.11, wait_for() swallows a cancel that comes as its work ends."""
        if not task.done():
            task.cancel()
            asyncio.get_running_loop().call_later(0.2, self._cancel, task)

    def _expire(self, task: asyncio.Future[None]) -> None:
        """--wait and --timeout are spent, perhaps because node 0 still waits for others: tell what is known."""
        if self.report is None:
            self.expired = True
            self._cancel(task)

    # -- the ladder -------------------------------------------------------------------------------------------

    async def _climb(self) -> None:
        member, until = self.member, position(self.options.until)
        await member.run_stage(ENVIRONMENT.name, member.environment())
        if until >= position(HOST.name):
            if member.leads_node:
                await member.run_stage(HOST.name, member.host())
            else:
                member.skip(HOST.name, "another process of this node does it")
        if self.options.plan.announce and needs_torch(self.options.until):
            self.observer.announce(line_for_others(self.options), self.options.plan.nnodes or 1)
        gpu = (
            asyncio.ensure_future(member.run_stage(GPU.name, member.gpu(), GPU.seconds))
            if until >= position(GPU.name)
            else None
        )
        if until >= position(NETWORK.name):
            await self._network(gpu)
        elif gpu is not None:
            await gpu
        if self.report is None:
            await self._finish(self._own_report(member.judge_alone()))

    async def _network(self, gpu: asyncio.Future[StageStatus] | None) -> None:
        member = self.member
        if not needs_torch(self.options.until):
            if gpu is not None:
                await gpu
            await member.run_stage(NETWORK.name, self._network_alone())
            return
        self.meeting = Rendezvous(member)
        await member.run_stage(NETWORK.name, self._join(self.meeting), self.options.wait)
        if gpu is not None:
            await gpu
        if self.seat is None:
            for stage in opened_up_to(self.options.until):
                member.skip(stage.name, f"needs {NETWORK.name}", NETWORK.name)
            return
        await self._meet()

    async def _network_alone(self) -> tuple[StageStatus, str]:
        """Up to here nobody hosts a store: that nothing listens on the port yet is no fault."""
        member = self.member
        await asyncio.gather(member.look_up_master(), member.look_around())
        seen, plan = member.facts.network, self.options.plan
        if seen is None or seen.master is None or not seen.master.addresses:
            return "failed", why_not_met(member.facts)
        if not seen.master_is_own:
            contact = await connect(seen.master.addresses[0], plan.master_port)
            if contact.outcome not in ("open", "refused"):
                member.update_network(contact=contact)
                return "failed", contact_words(contact)
        return "ok", ""

    async def _join(self, meeting: Rendezvous) -> tuple[StageStatus, str]:
        await asyncio.gather(self.member.look_up_master(), self.member.look_around())
        backwards = asyncio.ensure_future(self.member.look_up_backwards())
        self.seat = await meeting.join()
        await backwards
        if self.seat is not None:
            return "ok", f"{self.seat.address} port {self.seat.port}"
        return "failed", why_not_met(self.member.facts)

    async def _meet(self) -> None:
        assert self.seat is not None and self.zygote is not None
        self.member.note_torch(await self.zygote.torch())
        report: Report | None = None
        tasks: list[asyncio.Task[Any]] = []
        if self.options.plan.nnodes != 1:
            left = self.started + self.options.wait + self.options.timeout - time.monotonic()
            self.observer.waits("waiting for the others", left)
        try:
            leading, self.climber = self._parts(self.seat)
            following = asyncio.ensure_future(self.climber.follow())
            tasks = [following, *([asyncio.ensure_future(leading.run())] if leading is not None else [])]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            report = following.result() if following in done else None
            self.member.update_meeting(host_lost=report is None)
        except StoreError:
            if self.meeting is not None:
                self.meeting.hosting.note_files()
            self.member.update_meeting(host_lost=True)
        except TooLate as err:
            self.member.update_meeting(joined=False, late=err.met)
        except Unconfirmed as err:
            report = with_unconfirmed(self._own_report(self.member.judge_alone()), err.report, self.options.checks)
        except Untrusted as err:
            self.untrusted = True
            await self._tell_of(err)
        finally:
            for task in tasks:
                task.cancel()
        if report is None:
            self.member.update_meeting(ended=True)
            return
        await self._finish(report)

    def _parts(self, seat: JoinedStore) -> tuple[Leader | None, Follower]:
        """This process's parts in the meeting. Node 0 leads, and tells itself nothing through the store."""
        if not seat.leads:
            return None, Follower(self.member, seat, StorePost(seat.client, seat.marker.run, seat.seal))
        mail = Inbox(seat.client, seat.marker.run, seat.seal, planned(self.options))
        self.lead = Leader(self.options, self.observer, mail, self._make_report, self.member.started)
        return self.lead, Follower(self.member, seat, OwnPost(mail), mail.transcript.digest)

    async def _tell_of(self, err: Untrusted) -> None:
        """Others write into this run's store: node 0 is to know, if it can still be told."""
        assert self.climber is not None
        forged = self.member.facts.meeting.forged if self.member.facts.meeting else ()
        self.member.update_meeting(forged=tuple(dict.fromkeys((*forged, str(err))))[:8])
        try:
            await self.climber.send(Event("left", self.member.facts))
        except StoreError:
            pass

    # -- telling ----------------------------------------------------------------------------------------------

    async def _finish(self, report: Report) -> None:
        """Print where it is this process's turn, save, and leave together with the others."""
        self.report = report
        self._save_and_tell()
        if self.seat is not None and self.climber is not None:
            await self._part()

    def _prints(self) -> bool:
        if self.options.plan.started == "node":
            return True
        if self.seat is not None and self.report is not None and self.lead is None and self._met():
            return False
        return self.lead is not None or self.member.leads_node

    def _met(self) -> bool:
        meeting = self.member.facts.meeting
        return bool(meeting and meeting.joined and not meeting.host_lost and not self.untrusted)

    async def _part(self) -> None:
        assert self.seat is not None and self.climber is not None
        try:
            await self.seat.client.add(self.climber.post.keys.bye, 1)
            if self.lead is not None:
                await self.lead.farewell()
            elif not self.member.facts.plan.agent_store:
                await self.seat.client.closed(PARTING_SECONDS)
            else:
                end = time.monotonic() + PARTING_SECONDS
                while time.monotonic() < end and not await self.seat.client.has(self.climber.post.keys.done):
                    await asyncio.sleep(0.02)
        except StoreError:
            pass

    async def _partial(self) -> None:
        """Interrupted or out of time: tell what is known so far, and let the others know."""
        if self.report is not None:
            return
        self.member.note_importing()
        try:
            await asyncio.wait_for(self._partial_from_all(), 2.0)
        except (StoreError, asyncio.TimeoutError, OSError):
            pass
        if self.report is None:
            self.report = self._own_report(self.member.judge_alone(), interrupted=True)
        self._save_and_tell()
        if self.lead is not None and self.lead.published:
            try:
                await asyncio.wait_for(self._part(), READING_SECONDS)
            except asyncio.TimeoutError:
                pass

    async def _partial_from_all(self) -> None:
        if self.lead is not None and self.lead.mail.members:
            await self.lead.publish(interrupted=True)
            self.report = self.lead.mail.report
        elif self.climber is not None and self.seat is not None:
            await self.climber.send(Event("left", self.member.facts))

    def _make_report(self, cluster: Cluster, judgement: Judgement, unfinished: bool) -> Report:
        notes: list[str] = []
        if self.signal is not None:
            notes.append(f"interrupted by {signal.Signals(self.signal).name}: this is what was known then")
        elif unfinished:
            notes.append("not finished within --wait and --timeout: this is what was known then")
        report = assemble(
            cluster,
            judgement,
            started_at=self.started_at,
            seconds=round(time.monotonic() - self.started, 2),
            notes=tuple(notes),
            until=self.options.until,
        )
        if unfinished and report.verdict in ("pass", "warn"):
            report = replace(report, verdict="incomplete")
        return report

    def _own_report(self, judgement: Judgement, interrupted: bool = False) -> Report:
        return self._make_report(build([self.member.facts]), judgement, interrupted)

    def tell_late(self) -> None:
        """Called by the guard, in another thread, while a step here ignores its deadline: tell what is known."""
        report = self.report or self._own_report(Judgement("incomplete", ()), interrupted=True)
        if self._prints():
            self.tell(report)

    def _save_and_tell(self) -> None:
        assert self.report is not None
        problem = self._save()
        self.unsaved = problem is not None
        if problem is not None and self._prints():
            self.report = replace(self.report, notes=(*self.report.notes, problem))
        elif problem is not None:
            self.observer.note(problem)
        if self._prints():
            self.printed = True
            self.tell(self.report)

    def _save(self) -> str | None:
        """Save the facts where that is asked for. What went wrong, or None."""
        if self.options.save is None:
            return None
        facts = (self.lead.own_facts() if self.lead is not None else None) or self.member.facts
        try:
            files.write(self.options.save, facts, self.member.leads_node)
        except OSError as err:
            return f"the facts could not be saved: {err}"
        return None
