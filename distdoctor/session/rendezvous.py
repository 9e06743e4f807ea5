"""The meeting: how a process gets into the store on MASTER_PORT, or learns why it cannot.

Node 0 opens the store first and refuses nobody. What waiting may cure (nothing listens yet, a silent host, a name
without an address) is tried again until ``--wait`` ends and told as "so far"; what it cannot cure ends the meeting at
once.
"""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass, replace

from distdoctor.mesh.target import TOKEN_BYTES
from distdoctor.model.facts import Answer, BadFacts, Contact, NetworkFacts
from distdoctor.model.plan import Plan
from distdoctor.model.stages import NETWORK
from distdoctor.probes.connect import connect
from distdoctor.ranks.supervisor import Zygote
from distdoctor.session.master_lookup import MasterLookup
from distdoctor.session.protocol import Keys, Marker, read_marker
from distdoctor.session.recorder import Recorder
from distdoctor.session.seal import NotAuthentic, NotSealed, Seal, Sealed
from distdoctor.session.so_far import Teller
from distdoctor.session.store_host import StoreHost
from distdoctor.session.unmet import PROBLEM_SECONDS, no_such_master
from distdoctor.store.client import Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

MARKER_SECONDS = 3.0
"""How long a store may lack the doctor's marker before it counts as somebody else's."""
RETRY_SECONDS = 0.3
CONTROL_CONNECT_SECONDS = 2.0
SILENT_AFTER = 0.5
"""Seconds without an answer after which the host's other ports are tried, too, while the first goes on."""
POD = "KUBERNETES_SERVICE_HOST"
"""Set in every pod, also without service links (kubernetes/pkg/kubelet/kubelet_pods.go, getServiceEnvVarMap)."""


@dataclass
class JoinedStore:
    """A store that this process has got into, and the run that it found there."""

    client: StoreClient
    marker: Marker
    seal: Seal
    address: str
    """The address of the store as this process reached it."""
    port: int
    host: StoreHost | None
    """What hosts the store, where it is this process's own."""
    leads: bool
    """This process opens the stages for all."""


class Rendezvous:
    """One process's way into the meeting."""

    def __init__(self, recorder: Recorder, zygote: Zygote | None, lookup: MasterLookup) -> None:
        self.recorder, self.lookup = recorder, lookup
        self.started = recorder.started
        self.seal = Seal(recorder.options.token)
        self.hosting = StoreHost(recorder, zygote, self.seal)
        self.unmarked_since: float | None = None
        self.astray_since: float | None = None
        self.teller = Teller(recorder)

    async def join(self) -> JoinedStore | None:
        """A store, or None once ``--wait`` is over or waiting cannot help; the facts then say what was seen."""
        deadline = self.started + self.recorder.options.wait
        telling = asyncio.ensure_future(self.teller.tell_in_time(deadline))
        try:
            return await self._join(deadline)
        finally:
            telling.cancel()

    async def _join(self, deadline: float) -> JoinedStore | None:
        refused: float | None = None
        while True:
            store = await self._attempt()
            now = time.monotonic()
            self.recorder.update_meeting(waited=round(now - self.started, 2), joined=store is not None)
            if store is not None:
                if refused is not None and store.host is None:
                    self.recorder.put_down(
                        NETWORK.name, now - refused
                    )  # until node 0 had started: no time of the stage's
                return store
            contact = self.network.contact
            if refused is None and contact is not None and contact.outcome == "refused":
                refused = now
            if self._hopeless() or now >= deadline:
                break
            self.teller.tell(deadline - now)
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - time.monotonic())))
        self.recorder.update_meeting(ended=True)
        self.hosting.note_holders(bool(self.network.master_is_own) and (self._must_host() or self._may_host()))
        self.hosting.close()
        return None

    @property
    def plan(self) -> Plan:
        """The plan, with the port that the store was given."""
        return self.hosting.plan

    @property
    def network(self) -> NetworkFacts:
        """The network facts so far."""
        return self.recorder.facts.network or NetworkFacts()

    # -- one attempt ------------------------------------------------------------------------------------------

    async def _attempt(self) -> JoinedStore | None:
        if self.plan.master_addr is None:
            return None
        if not (self.network.master and self.network.master.addresses):
            await self.lookup.resolve()
            if self.network.master and self.network.master.addresses:
                self.recorder.update_network(resolved_after=round(time.monotonic() - self.started, 2))
            elif self._nameless():
                return None
        if self._must_host() and self.hosting.child is None and not await self.hosting.host():
            return None
        await self.hosting.mark()
        if not (self.network.master and self.network.master.addresses):
            return None
        contact = await self._contact(self.network.master.addresses)
        if contact.outcome != "open":
            alone = self._may_host() and self.hosting.child is None and contact.outcome == "refused"
            if alone and await self.hosting.host():
                return await self._attempt()
            return None
        return await self._sit_down(contact)

    def _must_host(self) -> bool:
        """Node 0 by its own plan: hosts wherever MASTER_ADDR leads, as PyTorch's rank 0 does."""
        if self.plan.agent_store:
            return False
        return self.plan.rank == 0 if self.plan.started == "rank" else self.plan.node_rank == 0

    def _may_host(self) -> bool:
        """The owner of MASTER_ADDR becomes node 0 where no node rank says otherwise, if nobody else did before."""
        return self.plan.started == "node" and self.plan.node_rank is None and bool(self.network.master_is_own)

    # -- reaching the store -----------------------------------------------------------------------------------

    async def _contact(self, addresses: tuple[str, ...]) -> Contact:
        """The first address that can be connected to, in the order in which a TCPStore tries them (IPv6 first)."""
        tried: list[Contact] = []
        for address in sorted(addresses, key=lambda a: ":" not in a):
            self.teller.trying = address, time.monotonic()
            attempt = asyncio.ensure_future(connect(address, self.plan.master_port))
            done, _ = await asyncio.wait([attempt], timeout=SILENT_AFTER)
            control = asyncio.ensure_future(self._control(address)) if not done else None
            contact = await attempt
            self.teller.trying = None
            tried.append(contact)
            if contact.outcome in ("no-answer", "rejected"):
                self.recorder.update_network(control=await (control or self._control(address)))
            elif control is not None:
                control.cancel()
            if contact.outcome == "open":
                break
        self.recorder.update_network(contact=tried[-1], passed_over=tuple(tried[:-1]))
        return tried[-1]

    async def _control(self, address: str) -> Contact:
        """The same host on other ports: any answer of its own there says that the host is up."""
        ours = self.plan.master_port
        others = await asyncio.gather(
            *(connect(address, port, CONTROL_CONNECT_SECONDS) for port in (22, ours + 1 if ours < 65535 else ours - 1))
        )
        alive = [c for c in others if c.outcome in ("refused", "open", "reset")]
        return (alive or list(others))[0]

    async def _sit_down(self, contact: Contact) -> JoinedStore | None:
        marker = await self._marker(contact)
        if marker is None:
            return None
        own = self.hosting.marker
        if own is None and self.plan.one_node and self._beside_another():
            self.hosting.note_other_run()
            return None
        if own is not None and marker.run != own.run:
            self.hosting.close()  # MASTER_ADDR is another host's, where another node 0 hosts: join it, be found
            own = None
        try:
            client = await StoreClient.connect(contact.address, contact.port)
        except StoreError:
            return None
        leads = own is not None
        host = self.hosting if self.hosting.child is not None else None
        self.recorder.update_meeting(hosted=leads, ours=True, token="agreed" if self.seal.keyed else "")
        if self.seal.keyed:
            marker = replace(marker, token=self.seal.derived(f"mesh {marker.run}", TOKEN_BYTES))
        return JoinedStore(client, marker, self.seal, contact.address, contact.port, host, leads)

    async def _marker(self, contact: Contact) -> Marker | None:
        """The marker of the store at ``contact``: this process's own where it is its own store, else what is there."""
        own = self.hosting.marker
        if own is not None:
            altered = await self.hosting.altered()
            if altered:
                self.recorder.note_forged("marker is not any more what node 0 wrote")
            if altered or self.network.master_is_own:
                self.recorder.update_network(answer=Answer("distdoctor"))
                return own
        return await self._read_marker(contact)

    async def _read_marker(self, contact: Contact) -> Marker | None:
        """The marker of the store at ``contact``; None where there is none (yet) or something else answers."""
        client = None
        try:
            answer = await identify(contact.address, contact.port)
            if answer is None or answer.kind != "tcpstore" or answer.generation == "<=2.1":
                self.recorder.update_network(answer=answer)
                self.recorder.update_meeting(ours=False if answer and answer.kind == "tcpstore" else None)
                return None
            client = await StoreClient.connect(contact.address, contact.port)
            if self.plan.agent_store and self.plan.rank == 0:
                marker = self.hosting.marker = self.hosting.new_marker()
                await client.set(Keys.marker(self.plan), self.hosting.sealed(marker))
                await client.has(Keys.marker(self.plan))
                self.recorder.update_network(answer=Answer("distdoctor", answer.generation))
                return marker
            value = await self._wait_for_marker(client)
        except StoreError:
            return None
        finally:
            if client is not None:
                client.close()
        if value is None:
            self.unmarked_since = self.unmarked_since or time.monotonic()
            self.recorder.update_network(answer=Answer("distdoctor", answer.generation) if self._refused() else answer)
            self.recorder.update_meeting(ours=False)
            if self._refused(by_token=True) and self._beside_another():
                self.hosting.note_other_run()
            return None
        self.recorder.update_network(answer=Answer("distdoctor", answer.generation))
        return value

    async def _wait_for_marker(self, client: StoreClient) -> Marker | None:
        end = time.monotonic() + MARKER_SECONDS
        key = Keys.marker(self.plan)
        while True:
            try:
                value = await client.get(key)
                if value is not None:
                    return read_marker(self.seal.open(key, value))
            except Sealed:
                self.recorder.update_meeting(token="missing")
                return None
            except NotSealed:
                self.recorder.update_meeting(token="unexpected")
                return None
            except NotAuthentic:
                self.recorder.update_meeting(token="different")
                return None
            except (BadFacts, Oversize) as err:
                self.recorder.note_forged(f"marker is nothing that a node 0 writes: {str(err)[:200]}")
                return None
            if time.monotonic() >= end:
                return None
            await asyncio.sleep(0.05)

    def _refused(self, by_token: bool = False) -> bool:
        """Whether there is a doctor's mark that is not to be followed. ``by_token``: for its token alone."""
        meeting = self.recorder.facts.meeting
        if meeting is None:
            return False
        return meeting.token in ("missing", "unexpected", "different") or bool(meeting.forged and not by_token)

    def _beside_another(self) -> bool:
        """Whether a mark on the port that is not this process's own is of another run: this is node 0 by its own plan,
        and the port is that of its own address. Of several nodes it joins all the same, so that two node 0s are found.
        """
        return self._must_host() and self.hosting.child is None and bool(self.network.master_is_own)

    # -- judging meanwhile ------------------------------------------------------------------------------------

    def _hopeless(self) -> bool:
        """Whether waiting cannot cure what keeps this process out."""
        seen, plan = self.network, self.plan
        if plan.master_addr is None:
            return True
        if self.recorder.facts.identity.torch_error and (self._must_host() or self._may_host()):
            return True
        if seen.bind is not None and not seen.bind.ok:
            return True
        if seen.answer is not None and seen.answer.kind == "foreign":
            return True
        if self._refused() or (self.unmarked_since is not None and not plan.agent_store):
            return True
        if plan.problems and time.monotonic() - self.started > PROBLEM_SECONDS:
            return True
        if self._nameless():
            return True
        contact, control = seen.contact, seen.control
        if contact is not None and contact.outcome == "rejected":
            return True
        if contact is not None and contact.outcome == "no-answer" and control is not None:
            return control.outcome in ("refused", "open", "reset")
        return self._astray()

    def _nameless(self) -> bool:
        return no_such_master(self.recorder.facts, time.monotonic() - self.started, in_pod=POD in os.environ)

    def _astray(self) -> bool:
        """Node 0 hosts the store, but MASTER_ADDR does not lead to it."""
        if self.hosting.child is None or self.network.master_is_own is not False:
            return False
        self.astray_since = self.astray_since or time.monotonic()
        return time.monotonic() - self.astray_since > 2.0
