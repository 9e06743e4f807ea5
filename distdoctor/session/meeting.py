"""The meeting: what a process does among the others, from the store that it has joined to leaving it together."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Literal

from distdoctor.model.facts import NodeFacts
from distdoctor.model.report import Report
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.follower import Follower
from distdoctor.session.inbox import Inbox
from distdoctor.session.leader import Leader, MakeReport
from distdoctor.session.post import OwnPost, StorePost, TooLate, Untrusted
from distdoctor.session.protocol import Event, Keys
from distdoctor.session.recorder import Recorder
from distdoctor.session.rendezvous import JoinedStore
from distdoctor.session.roll_call import planned
from distdoctor.store.client import StoreClient, StoreError, StoreSilent

PARTING_SECONDS = 2.0
"""How long a node waits for node 0's store to close, so that the port is free when its command returns."""

ANEW_SECONDS = 1.0
"""For another connection to a store that went away."""


class Meeting:
    """One process's part: all follow, and that of node 0 leads, too, and tells itself nothing through the store."""

    def __init__(
        self,
        recorder: Recorder,
        zygote: Zygote,
        store: JoinedStore,
        make_report: MakeReport,
    ) -> None:
        options, run = recorder.options, store.marker.run
        self._recorder, self._store, self._keys = recorder, store, Keys(run)
        self._inbox: Inbox | None = None
        self._leader: Leader | None = None
        if store.leads:
            self._inbox = inbox = Inbox(store.client, run, store.seal, planned(options))
            self._leader = Leader(recorder, inbox, make_report)
            self._follower = Follower(recorder, zygote, store, OwnPost(inbox), inbox.transcript.digest)
        else:
            self._follower = Follower(recorder, zygote, store, StorePost(store.client, run, store.seal))
        self._untrusted = False

    @property
    def leads(self) -> bool:
        """Whether this process opens the stages for all."""
        return self._leader is not None

    @property
    def published(self) -> bool:
        """Whether this process has given the others a report."""
        return self._leader is not None and self._leader.published

    @property
    def agreed(self) -> bool:
        """Whether the meeting came to its end for this process, with a report that all have."""
        seen = self._recorder.facts.meeting
        return bool(seen and seen.joined and not seen.host_lost and not self._untrusted)

    def own_facts(self) -> NodeFacts:
        """This process's facts; on node 0 with the leader's record in them."""
        return (self._leader.own_facts() if self._leader is not None else None) or self._recorder.facts

    async def announce(self) -> None:
        """Let node 0 know that this process is on its way: importing torch may take it longer than all the others."""
        if not self.leads:
            await self._follower.enrol()

    async def hold(self) -> Report | None:
        """Climb with the others. Node 0's report, None where there is none for this process; the facts then say why.

        Raises Unconfirmed for a report of which it is not known whether it is node 0's.
        """
        tasks: list[asyncio.Task[Any]] = []
        try:
            following = asyncio.ensure_future(self._follower.follow())
            tasks = [following, *([asyncio.ensure_future(self._leader.run())] if self._leader is not None else [])]
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
            report = following.result() if following in done else None
            self._recorder.update_meeting(host_lost=report is None)
            return report
        except StoreError:
            if self._store.host is not None:
                self._store.host.note_files()
            now = "gone" if self.leads else await self._store_now()
            if now == "gone" and self._came_too_many:  # the others have come to their end
                self._recorder.update_meeting(joined=False, late=self._follower.begun_without)
                return None
            self._recorder.update_meeting(host_lost=True, store_there=now == "there", store_silent=now == "silent")
            if now == "gone" and not self._follower.enrolled:  # node 0 knew of nobody here whom it could wait for
                self._recorder.update_meeting(joined=False, ended=True)
        except TooLate as err:
            self._recorder.update_meeting(joined=False, late=err.met)
        except Untrusted as err:
            self._untrusted = True
            await self._tell_of(err)
        finally:
            for task in tasks:
                task.cancel()
        return None

    @property
    def _came_too_many(self) -> bool:
        """Whether as many nodes as were planned had begun without this one."""
        plan, met = self._recorder.facts.plan, self._follower.begun_without
        return met is not None and plan.started == "node" and plan.nnodes is not None and met >= plan.nnodes

    async def _store_now(self) -> Literal["there", "silent", "gone"]:
        """Whether the store that went away is where it was: then it was the connection that went, or its process is
        stopped."""
        try:
            client = await StoreClient.connect(self._store.address, self._store.port, ANEW_SECONDS)
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
        """Interrupted or out of time: let the others know. Node 0's report of all that it knows, where this is node 0.

        Raises StoreError and OSError.
        """
        if self._leader is not None and self._inbox is not None and self._inbox.participants:
            seen = self._recorder.facts.meeting
            await self._leader.publish(interrupted=True, left=seen.left if seen else "")
            return self._inbox.report
        if self._follower.enrolled:
            self._recorder.update_meeting(unled=round(await self._follower.unled(), 1))
            await self._follower.tell(Event("left", self._recorder.facts))
        return None

    async def part(self) -> None:
        """Leave together with the others, once this process has printed."""
        client = self._store.client
        try:
            await client.add(self._keys.bye, 1)
            if self._leader is not None:
                await self._leader.farewell()
            elif not self._recorder.facts.plan.agent_store:
                await client.closed(PARTING_SECONDS)
            else:
                end = time.monotonic() + PARTING_SECONDS
                while time.monotonic() < end and not await client.has(self._keys.done):
                    await asyncio.sleep(0.02)
        except StoreError:
            pass

    def close(self) -> None:
        """Let go of ranks, listener and store."""
        self._follower.close()
        self._store.client.close()

    async def _tell_of(self, err: Untrusted) -> None:
        """Others write into this run's store: node 0 is to know, if it can still be told."""
        self._recorder.note_forged(str(err))
        try:
            await self._follower.tell(Event("left", self._recorder.facts))
        except StoreError:
            pass
