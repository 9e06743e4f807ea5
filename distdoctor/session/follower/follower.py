"""Follower of a check: it runs the stages that node 0 opens, in every process, and receives node 0's report."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import BadFacts, NodeFacts
from distdoctor.model.report import Report
from distdoctor.model.stages import BY_NAME, MESH, SEARCH, TRIAL
from distdoctor.probes.network import routing
from distdoctor.probes.network.neighbours import answered, unanswered
from distdoctor.ranks.calls import LATE_SECONDS
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.follower.outbox import Outbox, OwnPost, StorePost, TooLate, Untrusted
from distdoctor.session.leader.inbox import Inbox
from distdoctor.session.leader.leader import Leader, MakeReport
from distdoctor.session.leader.roll_call import planned
from distdoctor.session.protocol.confirm import Unconfirmed, confirm, proven
from distdoctor.session.protocol.messages import Command, Event, RunKeys
from distdoctor.session.protocol.trust import CommandValidator
from distdoctor.session.rendezvous.join import JoinedStore
from distdoctor.session.stages.local import Ended, look_at_kernel_log, look_for_files
from distdoctor.session.stages.mesh import MeshStage
from distdoctor.session.stages.ranks import RankStages
from distdoctor.store.client import StoreClient, StoreError, StoreGone, StoreSilent, StoreUnanswered


class StageFollower:
    """Carries out the leader's commands until its report is there."""

    def __init__(
        self,
        context: RunContext,
        zygote: Zygote,
        store: JoinedStore,
        post: Outbox,
        transcript: Callable[[], bytes] | None = None,
    ) -> None:
        """Prepare to follow. ``transcript``: on node 0, what its listener confirms."""
        self._context, self._zygote, self._store, self._post = context, zygote, store, post
        self._transcript = transcript
        self._ranks: RankStages | None = None
        self._mesh: MeshStage | None = None
        self._work: asyncio.Task[None] | None = None
        """Stage that runs, or the last one that ran."""
        self._due: float | None = None
        """Time of the monotonic clock until which node 0's commands so far may take; None without a command, or after
        it."""
        self._together: dict[str, int] = {}
        """Stage -> number of processes that ran it together."""
        self.begun_without: int | None = None
        """Number of processes in the stage that node 0 opened, as long as this one took part in none; else None."""

    async def enrol(self) -> None:
        """Announce this process to node 0, before it can say hello. A failure shows again in ``follow``."""
        with suppress(StoreError, Untrusted):
            await self._post.enrol()

    async def follow(self) -> Report | None:
        """Say hello, run the stages that node 0 opens, and return its report; None if node 0 went away before it.

        Raises StoreGone if the store goes away, Untrusted if others write into it, Unconfirmed, TooLate.
        """
        await self._post.enrol()
        ranks, mesh = await self._say_hello()
        orders = self._orders()
        try:
            async for command in self._post.commands():
                try:
                    orders.admit(command)
                except BadFacts as err:
                    raise Untrusted(f"a command to {command.op} {command.stage[:40]}: {err}") from None
                if self._transcript is not None and self._work is None:
                    self._note_network()
                if command.op == "report":
                    self._due = None
                    if self._work is not None:
                        self._work.cancel()  # a stage that has not ended by now is not in the report
                        await asyncio.wait([self._work])
                    return await self._report(command)
                self._due = max(self._due or 0.0, time.monotonic() + command.seconds)
                await self._obey(command, ranks, mesh)
        finally:
            if self._work is not None and not self._work.done():
                self._work.cancel()
        return None

    async def _say_hello(self) -> tuple[RankStages, MeshStage]:
        """Announce this process's facts and the port of its listener; return the work of its stages."""
        number, store = self._post.number, self._store
        self._mesh = mesh = MeshStage(self._context, store.marker.token, number)
        address = self._context.plan.master_addr or store.address
        self._ranks = ranks = RankStages(
            self._context, self._zygote, address, store.port, self._post.keys, number, self.send
        )
        listens = self._context.leads_node or self._transcript is not None
        port = await mesh.listen(self._transcript) if listens else None
        await self.send(Event("hello", self._context.facts, mesh_port=port))
        return ranks, mesh

    def _note_network(self) -> None:
        """Note on node 0 the neighbours that do not answer, and the IPsec policies."""
        if silent := unanswered():
            self._context.update_network(hardware_addresses=answered(), unanswered=silent)
        self._context.update_network(ipsec=routing.ipsec_policies())

    async def _obey(self, command: Command, ranks: RankStages, mesh: MeshStage) -> None:
        """Begin a stage, after the one before it has ended; or skip one, or end it early."""
        if command.op == "abort":
            ranks.abort.set()
        elif command.op == "skip":
            self._context.skip(command.stage, command.reason, command.blocked_by)
        elif str(self._post.number) not in command.ranks:
            if self._work is None:
                self.begun_without = len(command.ranks)
            self._context.skip(command.stage, "the others had begun without this node")
        else:
            self._together[command.stage] = len(command.ranks)
            if self._work is not None:
                await self._work
            ranks.abort = asyncio.Event()
            stage, trials = BY_NAME[command.stage], {TRIAL: ranks.trial, SEARCH: ranks.search}
            self._work = asyncio.create_task(
                self._run_trial(command, trials[stage])
                if stage in trials
                else self._run_stage(command, mesh.measure if stage == MESH else ranks.work[stage])
            )

    async def send(self, event: Event) -> None:
        """Send one message to the leader, with the current facts where it carries facts."""
        self._note_forged()
        await self._post.send(replace(event, facts=self._context.facts) if event.facts is not None else event)

    async def unled(self) -> float:
        """Return the seconds without a command from node 0, beyond the time of its last ones, while its store answers.

        0.0 while a command is there. Raises StoreError.
        """
        if self._due is None or await self._post.ordered():
            return 0.0
        return max(0.0, time.monotonic() - self._due)

    @property
    def enrolled(self) -> bool:
        """Return whether this process has a number, under which it can write messages."""
        return self._ranks is not None

    def close(self) -> None:
        """Close the listener and end the ranks."""
        if self._mesh is not None:
            self._mesh.close()
        if self._ranks is not None:
            self._ranks.close()

    def _note_forged(self) -> None:
        if isinstance(self._post, StorePost):
            self._context.note_forged(*(f"{place} {why}" for place, why in self._post.forged.items()))

    def _orders(self) -> CommandValidator:
        facts = self._context.facts
        one_host = is_loopback(self._store.address) or bool(facts.network and facts.network.master_is_own)
        return CommandValidator(self._post.number, len(facts.ranks), planned(self._context.plan), one_host=one_host)

    async def _run_stage(self, command: Command, work: Callable[[Command], Awaitable[Ended]]) -> None:
        """Run one stage and report how it ended."""
        most = command.seconds + LATE_SECONDS
        status, _ = await asyncio.gather(
            self._context.run_stage(command.stage, work(command), most),
            _where_possible(look_for_files(self._context, command.marks)),
        )
        if status not in ("ok", "skipped"):
            await _where_possible(look_at_kernel_log(self._context))
        await self._send_result(command, status in ("ok", "skipped"), "")

    async def _run_trial(self, command: Command, trial: Callable[[Command], Awaitable[tuple[bool, str]]]) -> None:
        """Run what is no stage of its own (a trial, a search), and report how it ended."""
        observer, what = self._context.observer, BY_NAME[command.stage].spoken
        observer.waits(what, command.seconds)
        passed, error = await trial(command)
        observer.waited(what)
        await self._send_result(command, passed, error)

    async def _send_result(self, command: Command, ok: bool, error: str) -> None:
        try:
            await self.send(Event("result", self._context.facts, command.stage, command.attempt, ok, error))
        except StoreGone:
            return  # the loop that reads commands sees it, too

    async def _report(self, command: Command) -> Report:
        """Return node 0's report, once node 0 confirmed it. Raises Untrusted, Unconfirmed and TooLate."""
        report = await self._post.report(command)
        self._context.update_meeting(verdict=report.verdict)
        self._note_forged()
        if not isinstance(self._post, StorePost) or self._store.seal.keyed:
            return report
        answer = "no-answer"
        if command.port is not None:
            transcript = self._post.transcript.digest()
            answer = await confirm(self._store.address, command.port, self._store.marker.token, transcript)
        if answer == "denied":
            raise Untrusted("the commands and the report are not those that node 0 gives when it is asked directly")
        if answer == "no-answer":
            raise Unconfirmed(report, proven(self._context, self._together))
        return report


async def _where_possible(look: Awaitable[None]) -> None:
    """Run a probe beside a stage. Without a free thread or process node 0 still gets the stage's result."""
    with suppress(OSError, RuntimeError):
        await look


# Membership in a run, from the joined store to leaving it together.


PARTING_SECONDS = 2.0
"""Seconds for which a node waits for node 0's store to close, so that the port is free when its command returns."""

ANEW_SECONDS = 1.0
"""Limit of another connection to a store that went away."""


class Membership:
    """One process's part: every process follows; that of node 0 also leads, and sends itself nothing through the
    store."""

    def __init__(self, context: RunContext, zygote: Zygote, store: JoinedStore, make_report: MakeReport) -> None:
        run = store.marker.run
        self._context, self._store, self._keys = context, store, RunKeys(run)
        self._inbox: Inbox | None = None
        self._leader: Leader | None = None
        if store.leads:
            self._inbox = inbox = Inbox(store.client, run, store.seal, planned(context.plan))
            self._leader = Leader(context, inbox, make_report)
            self._follower = StageFollower(context, zygote, store, OwnPost(inbox), inbox.transcript.digest)
        else:
            self._follower = StageFollower(context, zygote, store, StorePost(store.client, run, store.seal))
        self._untrusted = False

    @property
    def leads(self) -> bool:
        """Return whether this process opens the stages for all."""
        return self._leader is not None

    @property
    def published(self) -> bool:
        """Return whether this process has published a report."""
        return self._leader is not None and self._leader.published

    @property
    def agreed(self) -> bool:
        """Return whether this process has a report that all nodes have."""
        seen = self._context.facts.meeting
        return bool(seen and seen.joined and not seen.host_lost and not self._untrusted)

    def own_facts(self) -> NodeFacts:
        """Return this process's facts; on node 0 with the leader's record in them."""
        return (self._leader.own_facts() if self._leader is not None else None) or self._context.facts

    async def announce(self) -> None:
        """Announce this process to node 0: importing torch may take it longer than all the others."""
        if not self.leads:
            await self._follower.enrol()

    async def take_part(self) -> Report | None:
        """Run the stages with the others. Return node 0's report, or None with the reason in the facts.

        Raises Unconfirmed for a report that node 0 may not have written.
        """
        tasks: list[asyncio.Task[Any]] = []
        try:
            following = asyncio.ensure_future(self._follower.follow())
            tasks = [following, *([asyncio.ensure_future(self._leader.run())] if self._leader is not None else [])]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            report = following.result() if following in done else None
            self._context.update_meeting(host_lost=report is None)
            return report
        except StoreError:
            if self._store.host is not None:
                self._store.host.note_files()
            now = "gone" if self.leads else await self._store_now()
            self._context.note_link_losses()  # the stage that was cut off has not noted them
            gone = now in ("gone", "unanswered")
            if gone and self._is_surplus:  # the others have reached the end
                self._context.update_meeting(joined=False, late=self._follower.begun_without)
                return None
            self._context.update_meeting(
                host_lost=True,
                store_there=now == "there",
                store_silent=now == "silent",
                store_unanswered=now == "unanswered",
            )
            if gone and not self._follower.enrolled:  # node 0 did not know that this process exists
                self._context.update_meeting(joined=False, ended=True)
        except TooLate as err:
            self._context.update_meeting(joined=False, late=err.met)
        except Untrusted as err:
            self._untrusted = True
            await self._report_untrusted(err)
        finally:
            for task in tasks:
                task.cancel()
        return None

    @property
    def _is_surplus(self) -> bool:
        """Return whether as many nodes as were planned began without this one."""
        plan, met = self._context.plan, self._follower.begun_without
        return met is not None and plan.started == "node" and plan.nnodes is not None and met >= plan.nnodes

    async def _store_now(self) -> Literal["there", "silent", "gone", "unanswered"]:
        """Return what a new connection to the store that went away finds.

        ``there``: only the old connection broke. ``silent``: its process is stopped. ``unanswered``: nobody answers."""
        try:
            client = await StoreClient.connect(self._store.address, self._store.port, ANEW_SECONDS)
        except StoreUnanswered:
            return "unanswered"
        except StoreError:
            return "gone"
        try:
            return "there" if await client.has(self._keys.members) else "gone"  # a key of this run
        except StoreSilent:
            return "silent"
        except StoreError:
            return "gone"
        finally:
            client.close()

    async def break_off(self) -> Report | None:
        """Inform the others after an interruption or a timeout. Return node 0's report of all that it knows on node 0.

        Raises StoreError and OSError.
        """
        if self._leader is not None and self._inbox is not None and self._inbox.participants:
            seen = self._context.facts.meeting
            await self._leader.publish(interrupted=True, left=seen.left if seen else "")
            return self._inbox.report
        if self._follower.enrolled:
            self._context.update_meeting(unled=round(await self._follower.unled(), 1))
            await self._follower.send(Event("left", self._context.facts))
        return None

    async def part(self) -> None:
        """Leave together with the others, once this process has printed."""
        client = self._store.client
        try:
            await client.add(self._keys.bye, 1)
            if self._leader is not None:
                await self._leader.farewell()
            elif not self._context.plan.agent_store:
                await client.closed(PARTING_SECONDS)
            else:
                end = time.monotonic() + PARTING_SECONDS
                while time.monotonic() < end and not await client.has(self._keys.done):
                    await asyncio.sleep(0.02)
        except StoreError:
            pass

    def close(self) -> None:
        """Close ranks, listener and store."""
        self._follower.close()
        self._store.client.close()

    async def _report_untrusted(self, err: Untrusted) -> None:
        """Inform node 0, if it can still be reached, that others write into this run's store."""
        self._context.note_forged(str(err))
        try:
            await self._follower.send(Event("left", self._context.facts))
        except StoreError:
            pass
