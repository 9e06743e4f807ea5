"""Finding the doctor's mark in the store that answers: whether it is this run's, and which run it is."""

from __future__ import annotations

import asyncio
import time
from typing import Literal

from distdoctor.model.facts import Answer, BadFacts, Caller, Contact, encode
from distdoctor.probes.interception import intercepted
from distdoctor.session.protocol import Keys, Marker, OtherProtocol, read_marker
from distdoctor.session.recorder import Recorder
from distdoctor.session.seal import NotAuthentic, NotSealed, Seal, Sealed
from distdoctor.session.store_host import StoreHost
from distdoctor.store.client import Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

MARKER_SECONDS = 3.0
"""How long a store may lack the doctor's marker before it counts as somebody else's."""


class MarkerFinder:
    """Reads markers, and notes what else it found in their place."""

    def __init__(self, recorder: Recorder, seal: Seal, hosting: StoreHost) -> None:
        self._recorder, self._seal, self._hosting = recorder, seal, hosting
        self.unmarked = False
        """A store was there, and no marker in it that is to be followed."""

    async def find(self, contact: Contact) -> Marker | None:
        """The marker of the store at ``contact``: this process's own where it is its own store, else what is there."""
        own = self._hosting.marker
        if own is not None:
            altered = await self._hosting.altered()
            if altered:
                self._recorder.note_forged("marker is not any more what node 0 wrote")
            if altered or self._hosting.network.master_is_own:
                self._recorder.update_network(answer=Answer("distdoctor"))
                return own
        return await self._read(contact)

    async def _read(self, contact: Contact) -> Marker | None:
        """The marker of the store at ``contact``; None where there is none (yet) or something else answers."""
        client = None
        try:
            answer = await identify(contact.address, contact.port)
            if answer is None or answer.kind != "tcpstore" or answer.generation == "<=2.1":
                self._recorder.update_network(answer=answer)
                if answer is not None and answer.kind in ("silent", "closed"):
                    ports, here = await intercepted(contact.address)
                    self._recorder.update_network(intercepted=ports, intercepted_here=here)
                self._recorder.update_meeting(ours=False if answer and answer.kind == "tcpstore" else None)
                return None
            client = await StoreClient.connect(contact.address, contact.port)
            if self._hosting.plan.agent_store and self._hosting.plan.rank == 0:
                marker = self._hosting.marker = self._hosting.new_marker()
                await client.set(Keys.marker(self._hosting.plan), self._hosting.sealed(marker))
                await client.has(Keys.marker(self._hosting.plan))
                self._recorder.update_network(answer=Answer("distdoctor", answer.generation))
                return marker
            value = await self._wait(client)
        except StoreError:
            return None
        finally:
            if client is not None:
                client.close()
        if value is None:
            self.unmarked = True
            self._recorder.update_network(answer=Answer("distdoctor", answer.generation) if self.refused() else answer)
            self._recorder.update_meeting(ours=False)
            return None
        self._recorder.update_network(answer=Answer("distdoctor", answer.generation))
        return value

    async def _wait(self, client: StoreClient) -> Marker | None:
        end = time.monotonic() + MARKER_SECONDS
        key = Keys.marker(self._hosting.plan)
        while True:
            try:
                value = await client.get(key)
                if value is not None:
                    return read_marker(self._seal.open(key, value))
            except Sealed:
                await self._turned_away(client, "missing")
                return None
            except NotSealed:
                await self._turned_away(client, "unexpected")
                return None
            except NotAuthentic:
                await self._turned_away(client, "different")
                return None
            except OtherProtocol as err:
                self._recorder.update_meeting(speaks=str(err))
                return None
            except (BadFacts, Oversize) as err:
                self._recorder.note_forged(f"marker is nothing that a node 0 writes: {str(err)[:200]}")
                return None
            if time.monotonic() >= end:
                return None
            await asyncio.sleep(0.05)

    async def _turned_away(self, client: StoreClient, token: Literal["missing", "unexpected", "different"]) -> None:
        """Record that this process may not join, and leave node 0 a note of who called: it knows of nobody else."""
        self._recorder.update_meeting(token=token)
        plan = self._hosting.plan
        if plan.opens_store:
            return  # node 0 of another run, which only shares the port
        caller = Caller(self._recorder.facts.identity.hostname, client.own_address, token)
        key = Keys.caller(plan, await client.add(Keys.callers(plan), 1))
        await client.set(key, encode(caller))
        await client.has(key)  # an answer: the set before it has arrived

    def refused(self, authentic: bool = False) -> bool:
        """Whether there is a doctor's mark that is not to be followed. ``authentic``: which only another run can have
        written, with another token or another distdoctor.
        """
        meeting = self._recorder.facts.meeting
        if meeting is None:
            return False
        other = meeting.token in ("missing", "unexpected", "different") or bool(meeting.speaks)
        return other or bool(meeting.forged and not authentic)
