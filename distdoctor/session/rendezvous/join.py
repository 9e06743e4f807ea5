"""Rendezvous of one process: it joins the store on MASTER_PORT, or learns why it cannot.

Node 0 opens the store first and refuses nobody. A failure that may pass by itself (nothing listens yet, a silent host,
a name without an address) is retried until ``--wait`` ends and reported as "so far"; a permanent one ends the
rendezvous at once.

* *marker*: value that node 0 writes under one key of the store, so that others know it for a check's.
  It names the run, and holds node 0's plan.
* *seal*: authentication of each value in the store by the run's ``--token``; without a token it changes nothing.
* *hosting*: opening that store, in a child process (``store_host.py``), as node 0 does.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, replace
from typing import Literal

from distdoctor.mesh.listener import TOKEN_BYTES
from distdoctor.model.facts import Answer, BadFacts, Caller, Contact, NetworkFacts, encode
from distdoctor.model.stages import NETWORK
from distdoctor.probes.network.ports import intercepted
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.context import RunContext
from distdoctor.session.protocol.messages import Marker, OtherProtocol, RunKeys, read_marker
from distdoctor.session.protocol.trust import NotAuthentic, NotSealed, Seal, Sealed
from distdoctor.session.rendezvous.contact import MasterContact
from distdoctor.session.rendezvous.failure import PROBLEM_SECONDS, no_such_master
from distdoctor.session.rendezvous.lookup import MasterLookup
from distdoctor.session.rendezvous.port_scanner import PortScanner
from distdoctor.session.rendezvous.progress import WaitReporter
from distdoctor.session.rendezvous.store_host import StoreHost
from distdoctor.store.client import Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

RETRY_SECONDS, LIMITED_SECONDS = 0.3, 2.0
"""Seconds between two attempts, and if a packet filter may limit the rate of connections."""
POD = "KUBERNETES_SERVICE_HOST"
"""Variable of every pod, also without service links (kubernetes/pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap)."""


@dataclass
class JoinedStore:
    """Store that this process has joined, and the run that it found there."""

    client: StoreClient
    marker: Marker
    seal: Seal
    address: str
    """Address at which this process reached the store."""
    port: int
    host: StoreHost | None
    """Host of the store, if it is this process's own."""
    leads: bool
    """True if this process opens the stages for all."""


class Rendezvous:
    """Attempts of one process to join."""

    def __init__(self, context: RunContext, zygote: Zygote | None, lookup: MasterLookup) -> None:
        self.context, self.lookup = context, lookup
        self.seal = Seal(context.options.token)
        self.hosting = StoreHost(context, zygote, self.seal)
        self.misled_since: float | None = None
        self.wait_reporter = WaitReporter(context, zygote)
        self.contact = MasterContact(context, self.wait_reporter)
        self.port_scanner = PortScanner(context, self.seal)
        self.markers = RunMarkerReader(context, self.seal, self.hosting, self.contact)

    async def join(self) -> JoinedStore | None:
        """Return the joined store; None once ``--wait`` is over or waiting cannot help, with the observations in the
        facts."""
        deadline = self.context.clock.waits_until()
        reporting = asyncio.ensure_future(self.wait_reporter.report_while_connecting(deadline))
        try:
            return await self._join(deadline)
        finally:
            reporting.cancel()
            self.contact.close()

    async def _join(self, deadline: float) -> JoinedStore | None:
        refused: float | None = None
        while True:
            store = await self._attempt(deadline)
            now = time.monotonic()
            self.context.update_meeting(waited=round(now - self.context.clock.started, 2), joined=store is not None)
            if store is not None:
                await self.port_scanner.withdraw()
                if refused is not None and store.host is None:
                    self.context.subtract_wait(
                        NETWORK.name, now - refused
                    )  # until node 0 had started: no time of the stage's
                return store
            contact = self.network.contact
            if refused is None and contact is not None and contact.outcome == "refused":
                refused = now
                self.context.update_network(refused_before=True)
            if self._joins_only:
                await self.port_scanner.look(contact)
            if self._is_permanent() or now >= deadline:
                break
            self.wait_reporter.report(deadline - now)
            pause = LIMITED_SECONDS if self.contact.limited else RETRY_SECONDS
            await asyncio.sleep(min(pause, max(0.0, deadline - time.monotonic())))
        self.context.update_meeting(ended=True)
        self.hosting.note_holders(
            bool(self.network.master_is_own) and (self.context.plan.opens_store or self._may_host())
        )
        await self.hosting.note_visitors()
        self.hosting.note_unreached()
        self.hosting.close()
        return None

    @property
    def network(self) -> NetworkFacts:
        """Return the network facts so far."""
        return self.context.facts.network or NetworkFacts()

    @property
    def _joins_only(self) -> bool:
        """Return whether another process opens the store: on another host, or on this one if this rank is not the
        first."""
        plan = self.context.plan
        if plan.started == "rank" and plan.rank:  # tasks of one node, too, may each have a port of their own
            return not plan.agent_store
        own = not plan.node_rank and self.network.master_is_own is not False
        return not (own or plan.opens_store or plan.agent_store or plan.one_node)

    # One attempt

    async def _attempt(self, deadline: float) -> JoinedStore | None:
        if self.context.plan.master_addr is None:
            return None
        if not self._addresses:
            await self._resolve()
        if self._nameless() or not await self._host_if_first() or not self._addresses:
            return None
        contact = await self._connect(deadline)
        alone = contact.outcome == "refused" and self._may_host() and self.hosting.child is None
        if alone and await self.hosting.host() and await self._host_if_first():
            contact = await self._connect(deadline)
        return await self._join_store(contact) if contact.outcome == "open" else None

    @property
    def _addresses(self) -> tuple[str, ...]:
        """Addresses of MASTER_ADDR, none until it is resolved."""
        return self.network.master.addresses if self.network.master else ()

    async def _resolve(self) -> None:
        await self.lookup.resolve()
        if self._addresses:
            self.context.update_network(resolved_after=round(time.monotonic() - self.context.clock.started, 2))

    async def _host_if_first(self) -> bool:
        """Host the store if this process opens it. Return False if it has to be tried again."""
        self.hosting.forget_killed()
        if self.context.plan.opens_store and self.hosting.child is None and not await self.hosting.host():
            return False
        await self.hosting.write_marker()
        return self.hosting.has_marker or not self.hosting.limits_itself  # else its own first connection is on the way

    async def _connect(self, deadline: float) -> Contact:
        return self.hosting.own_contact() or await self.contact.make(self._addresses, deadline)

    def _may_host(self) -> bool:
        """Return whether this process may host the store, if nobody else does."""
        return self.context.plan.may_open_store(self.network.master_is_own)

    async def _join_store(self, contact: Contact) -> JoinedStore | None:
        marker = await self.markers.find(contact)
        if marker is None:
            if self.markers.refused(authentic=True) and self._other_run_on_port():
                self.hosting.note_other_run()
            return None
        own = self.hosting.marker
        if own is None and self.context.plan.one_node and self._other_run_on_port():
            self.hosting.note_other_run()
            return None
        if own is not None and marker.run != own.run:
            self.hosting.close()  # MASTER_ADDR is another node 0's: join it, so that the conflict is found
            own = None
        try:
            client = await self.markers.client(contact)
        except StoreError:
            return None
        leads = own is not None
        host = self.hosting if self.hosting.child is not None else None
        self.context.update_meeting(hosted=leads, ours=True, token="agreed" if self.seal.keyed else "")
        if self.seal.keyed:
            marker = replace(marker, token=self.seal.derived(f"mesh {marker.run}", TOKEN_BYTES))
        return JoinedStore(client, marker, self.seal, contact.address, contact.port, host, leads)

    def _other_run_on_port(self) -> bool:
        """Return whether this is node 0 by its own plan, and another run's store has its port.

        With several nodes it joins all the same, so that two node 0s are found.
        """
        return self.context.plan.opens_store and self.hosting.child is None and bool(self.network.master_is_own)

    # Judgement between the attempts

    def _is_permanent(self) -> bool:
        """Return whether the failure to join is permanent."""
        return (
            self.context.plan.master_addr is None
            or self._cannot_host()
            or self._port_is_others()
            or self._plan_stays_wrong()
            or self._nameless()
            or self._stays_unreachable()
        )

    def _cannot_host(self) -> bool:
        """Return whether this process is to host the store, and cannot."""
        bind = self.network.bind
        lacks_torch = self.context.facts.identity.torch_error and (self.context.plan.opens_store or self._may_host())
        return bool(lacks_torch) or (bind is not None and not bind.ok)

    def _port_is_others(self) -> bool:
        """Return whether another program, or the store of another job, has the port."""
        answer, unmarked = self.network.answer, self.markers.unmarked and not self.context.plan.agent_store
        return (answer is not None and answer.kind == "foreign") or self.markers.refused() or unmarked

    def _plan_stays_wrong(self) -> bool:
        """Return whether this process's variables are wrong, and nobody joined who knows better ones."""
        waited = time.monotonic() - self.context.clock.started
        return bool(self.context.plan.broken) and waited > PROBLEM_SECONDS and not self._node0_may_be_late()

    def _stays_unreachable(self) -> bool:
        """Return whether no later connection can lead to node 0's store."""
        seen, contact = self.network, self.network.contact
        if contact is not None and contact.outcome == "rejected":
            return True
        if contact is not None and contact.outcome == "no-answer" and seen.control is not None and not seen.let_through:
            return seen.control.answered and self.contact.filtered and not self.hosting.limits_itself
        return self._misled_by_master_addr()

    def _node0_may_be_late(self) -> bool:
        """Return whether node 0 may still import torch, as this process does: it is worth waiting to see all faults
        together."""
        return not self.context.facts.identity.torch_error and self.wait_reporter.node0_may_be_late()

    def _nameless(self) -> bool:
        return no_such_master(
            self.context.facts, time.monotonic() - self.context.clock.started, in_pod=POD in os.environ
        )

    def _misled_by_master_addr(self) -> bool:
        """Return whether node 0 hosts the store, but MASTER_ADDR does not lead to it."""
        if self.hosting.child is None or self.network.master_is_own is not False:
            return False
        self.misled_since = self.misled_since or time.monotonic()
        return time.monotonic() - self.misled_since > 2.0


# The marker in the store that answers: whether it is this run's, and which run it is.


MARKER_SECONDS = 3.0
"""Seconds for which a store with keys may lack the marker before it counts as somebody else's. An empty one may until
``--wait`` ends: node 0's own connection to it may be late, if a packet filter limits new connections."""


class RunMarkerReader:
    """Reader of the marker that node 0 of this run wrote into its store.

    It notes whatever else answers at node 0's address: another run's store, or another service.
    """

    def __init__(self, context: RunContext, seal: Seal, hosting: StoreHost, contact: MasterContact) -> None:
        self._context, self._seal, self._hosting, self._contact = context, seal, hosting, contact
        self.unmarked = False
        """True if a store was there without a marker that is to be followed."""
        self._client: StoreClient | None = None
        """Connection on which the marker was read: a packet filter may limit new ones."""
        self._empty = False
        """True if the store had no key when it was last counted, or was not counted yet."""

    async def client(self, contact: Contact) -> StoreClient:
        """Return a connection to the store whose marker was found. Raises StoreError."""
        client, self._client = self._client or self._hosting.take_client(contact), None
        if client is None and (opened := self._contact.take()) is not None:
            client = StoreClient(opened, contact.address, contact.port)
        return client or await StoreClient.connect(contact.address, contact.port)

    async def find(self, contact: Contact) -> Marker | None:
        """Return the marker of the store at ``contact``: this process's own if it is its own store."""
        if self._client is not None:
            self._client.close()
            self._client = None
        own = self._hosting.marker
        if own is not None:
            altered = await self._hosting.altered()
            if altered:
                self._context.note_forged("marker is not any more what node 0 wrote")
            if altered or self._hosting.network.master_is_own:
                self._context.update_network(answer=Answer("distdoctor"))
                return own
        return await self._read(contact)

    async def _read(self, contact: Contact) -> Marker | None:
        """Return the marker of the store at ``contact``; None if there is none (yet) or something else answers."""
        client = None
        try:
            opened = self._contact.take()
            answer = await identify(contact.address, contact.port, opened=opened)
            if answer is None or answer.kind != "tcpstore" or answer.generation == "<=2.1":
                self._context.update_network(answer=answer)
                if answer is not None and answer.kind in ("silent", "closed"):
                    ports, here = await intercepted(contact.address)
                    self._context.update_network(intercepted=ports, intercepted_here=here)
                self._context.update_meeting(ours=False if answer and answer.kind == "tcpstore" else None)
                return None
            if opened is not None and opened.fileno() >= 0:
                client = StoreClient(opened, contact.address, contact.port, validated=True)
            else:
                client = await StoreClient.connect(contact.address, contact.port)
            if self._context.plan.agent_store and self._context.plan.rank == 0:
                marker = self._hosting.marker = self._hosting.new_marker()
                await client.set(RunKeys.marker(self._context.plan), self._hosting.sealed(marker))
                await client.has(RunKeys.marker(self._context.plan))
                self._context.update_network(answer=Answer("distdoctor", answer.generation))
                return marker
            value = await self._wait(client)
            self._client, client = (client, None) if value is not None else (None, client)
        except StoreError:
            return None
        finally:
            if client is not None:
                client.close()
        if value is None:
            self.unmarked = True
            answer = replace(answer, empty=self._empty)
            self._context.update_network(answer=Answer("distdoctor", answer.generation) if self.refused() else answer)
            self._context.update_meeting(ours=False)
            return None
        self._context.update_network(answer=Answer("distdoctor", answer.generation))
        return value

    async def _wait(self, client: StoreClient) -> Marker | None:
        end, latest = time.monotonic() + MARKER_SECONDS, self._context.clock.waits_until()
        key = RunKeys.marker(self._context.plan)
        self._empty = True
        while True:
            try:
                value = await client.get(key)
                if value is not None:
                    return read_marker(self._seal.open(key, value))
            except Sealed:
                await self._note_refused(client, "missing")
                return None
            except NotSealed:
                await self._note_refused(client, "unexpected")
                return None
            except NotAuthentic:
                await self._note_refused(client, "different")
                return None
            except OtherProtocol as err:
                self._context.update_meeting(speaks=str(err))
                return None
            except (BadFacts, Oversize) as err:
                self._context.note_forged(f"marker is nothing that a node 0 writes: {str(err)[:200]}")
                return None
            now = time.monotonic()
            if now >= end and (now >= latest or not self._empty):
                return None
            self._empty = now < end or await client.count() == 0  # the marker may have come since it was asked for
            await asyncio.sleep(0.05)

    async def _note_refused(self, client: StoreClient, token: Literal["missing", "unexpected", "different"]) -> None:
        """Record that this process may not join, and leave node 0 a note of the refused process, which it cannot know
        otherwise."""
        self._context.update_meeting(token=token)
        plan = self._context.plan
        if plan.opens_store:
            return  # node 0 of another run, which only shares the port
        caller = Caller(self._context.facts.identity.hostname, client.own_address, token)
        key = RunKeys.caller(plan, await client.add(RunKeys.callers(plan), 1))
        await client.set(key, encode(caller))
        await client.has(key)  # an answer shows that the set before it has arrived

    def refused(self, authentic: bool = False) -> bool:
        """Return whether there is a marker that is not to be followed.

        ``authentic``: only another run can have written it, with another token or another distdoctor.
        """
        meeting = self._context.facts.meeting
        if meeting is None:
            return False
        other = meeting.token in ("missing", "unexpected", "different") or bool(meeting.speaks)
        return other or bool(meeting.forged and not authentic)
