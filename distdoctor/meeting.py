"""The meeting: how a process gets into the store on MASTER_PORT, or learns why it cannot.

Node 0 opens the store first and refuses nobody. What waiting may cure (nothing listens yet, a silent host, a name
without an address) is tried again until ``--wait`` ends and told as "so far"; what it cannot cure ends the meeting at
once.
"""

from __future__ import annotations

import asyncio
import errno
import os
import secrets
import time
from dataclasses import dataclass, replace
from typing import Any

from distdoctor import __version__
from distdoctor.facts import (
    Answer,
    BadFacts,
    Bind,
    Contact,
    NetworkFacts,
    decode,
    encode,
)
from distdoctor.member import Member
from distdoctor.mesh import TOKEN_BYTES
from distdoctor.probes import ports
from distdoctor.probes.answer import identify
from distdoctor.probes.connect import connect
from distdoctor.proc import listening
from distdoctor.processes import Child, Died
from distdoctor.protocol import Marker, marker_key
from distdoctor.so_far import Teller
from distdoctor.store_client import StoreClient, StoreError

MARKER_SECONDS = 3.0
"""How long a store may lack the doctor's marker before it counts as somebody else's."""
RETRY_SECONDS = 0.3
CONTROL_CONNECT_SECONDS = 2.0
SILENT_AFTER = 0.5
"""Seconds without an answer after which the host's other ports are tried, too, while the first goes on."""
HOST_SECONDS = 15.0
SELF_CONNECT_SECONDS = 1.0
LOOPBACK_SECONDS = 1.0
PROBLEM_SECONDS = 6.0
"""How long a process whose own variables are wrong still tries to meet the others, who know better values."""


@dataclass
class Seat:
    """A place at the meeting."""

    client: StoreClient
    marker: Marker
    address: str
    """The address of the store as this process reached it."""
    port: int
    host: Child | None
    """The process that hosts the store, where it is ours."""
    leads: bool
    """This process opens the stages for all."""


class Meeting:
    """One process's way into the meeting."""

    def __init__(self, member: Member) -> None:
        self.member = member
        self.plan = member.options.plan
        self.started = member.started
        self.host_child: Child | None = None
        self.own_marker: Marker | None = None
        self.marked = False
        """The store that this process hosts is known to hold its marker."""
        self.unmarked_since: float | None = None
        self.port_taken_since: float | None = None
        self.why_not: tuple[int, str, Answer | None] | None = None
        """The last vain try to host: errno, its text, and what answers on the port."""
        self.astray_since: float | None = None
        self.teller = Teller(member)

    async def join(self) -> Seat | None:
        """A seat, or None once ``--wait`` is over or waiting cannot help; the facts then say what was seen."""
        deadline = self.started + self.member.options.wait
        telling = asyncio.ensure_future(self.teller.tell_in_time(deadline))
        try:
            return await self._join(deadline)
        finally:
            telling.cancel()

    async def _join(self, deadline: float) -> Seat | None:
        while True:
            seat = await self._attempt()
            now = time.monotonic()
            self.member.update_meeting(waited=round(now - self.started, 2), joined=seat is not None)
            if seat is not None:
                return seat
            if self._hopeless() or now >= deadline:
                break
            self.teller.tell(deadline - now)
            await asyncio.sleep(min(RETRY_SECONDS, max(0.0, deadline - time.monotonic())))
        self.member.update_meeting(ended=True)
        self._note_holders()
        self.close()
        return None

    def _note_holders(self) -> None:
        """Where something on the port kept this node from hosting the store: what that is, and which port is free."""
        if self.network.bind is not None:
            return
        answer = self.network.answer
        mine = self.network.master_is_own and (self._must_host() or self._may_host())
        if self.why_not is None and mine and answer is not None and answer.kind in ("tcpstore", "foreign", "closed"):
            self.why_not = (errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), answer)
        if self.why_not is not None:
            self._cannot_bind(*self.why_not)

    def close(self) -> None:
        """End the store this process hosts, where there is one."""
        if self.host_child is not None:
            self.host_child.kill()
            self.host_child.close()
            self.host_child = None

    @property
    def network(self) -> NetworkFacts:
        """The network facts so far."""
        return self.member.facts.network or NetworkFacts()

    # -- one attempt ------------------------------------------------------------------------------------------

    async def _attempt(self) -> Seat | None:
        if self.plan.master_addr is None:
            return None
        if not (self.network.master and self.network.master.addresses):
            await self.member.look_up_master()
            if self.network.master and self.network.master.addresses:
                self.member.update_network(resolved_after=round(time.monotonic() - self.started, 2))
        if self._must_host() and self.host_child is None and not await self._host():
            return None
        if self.host_child is not None and not self.marked:
            await self._mark()
        if not (self.network.master and self.network.master.addresses):
            return None
        contact = await self._contact(self.network.master.addresses)
        if contact.outcome != "open":
            if self._may_host() and self.host_child is None and contact.outcome == "refused" and await self._host():
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

    async def _host(self) -> bool:
        zygote = self.member.zygote
        if zygote is None:
            return False
        torch = await self.member.torch(zygote, "network")
        if torch.version is None:
            return False
        child = zygote.spawn("distdoctor:sto")
        answer = await self._ask_to_host(child)
        if answer["ok"]:
            self.host_child = child
            if self.plan.master_port != answer["port"]:
                self.plan = replace(self.plan, master_port=answer["port"])
                self.member.update(plan=self.plan)
            after = round(time.time() - self.member.facts.started_at, 2)
            self.member.update_network(bind=Bind(True, answer["port"], after=after))
            self.own_marker = Marker(secrets.token_hex(8), secrets.token_hex(TOKEN_BYTES), __version__)
            await self._mark()
            return True
        child.kill()
        child.close()
        return await self._cannot_host(answer["errno"], answer["error"])

    async def _ask_to_host(self, child: Child) -> dict[str, Any]:
        """The child's answer. A store whose constructor waits for a connection to itself listens all the same."""
        port = self.plan.master_port
        call = asyncio.ensure_future(child.call("store_host", port=port, timeout=30.0))
        end = time.monotonic() + HOST_SECONDS
        while time.monotonic() < end:
            await asyncio.wait([call], timeout=SELF_CONNECT_SECONDS)
            if call.done():
                break
            if child.pid is not None and any(number == port for _, number in listening(child.pid)):
                call.cancel()
                return {"ok": True, "port": port}
        if not call.done():
            call.cancel()
            return {"ok": False, "error": f"hosting a TCPStore did not return within {HOST_SECONDS:g} s", "errno": 0}
        try:
            return call.result()
        except Died as err:
            return {"ok": False, "error": str(err), "errno": 0}

    async def _mark(self) -> None:
        """Write the doctor's marker into the store that this process hosts; it is tried again where that is slow.

        Where the store cannot be reached from here at all, the contact tells how.
        """
        client = None
        try:
            client = await self._own_client()
            await client.set(marker_key(self.plan), encode(self.own_marker))
            self.marked = await client.has(marker_key(self.plan))  # an answer: the set before it has arrived
        except StoreError:
            pass
        finally:
            if client is not None:
                client.close()

    async def _own_client(self) -> StoreClient:
        """A client of the store that this process hosts: by its address, else over loopback."""
        own = self.network.master.addresses if self.network.master and self.network.master_is_own else ()
        for address in (*own, "127.0.0.1", "::1"):
            try:
                return await StoreClient.connect(address, self.plan.master_port, LOOPBACK_SECONDS)
            except StoreError:
                continue
        raise StoreError("the store that this process hosts cannot be reached from here")

    async def _cannot_host(self, number: int, error: str) -> bool:
        """Note why; True where the port is held by another process of this same check, so that joining it is right."""
        address = next(iter(self.network.master.addresses if self.network.master else ()), "127.0.0.1")
        answer = await identify(address if self.network.master_is_own else "127.0.0.1", self.plan.master_port)
        if number == errno.EADDRINUSE and answer is not None and answer.kind == "tcpstore":
            self.member.update_network(bind=None, answer=answer)
            return True  # perhaps the doctor's own: the marker will tell
        self.why_not = (number, error, answer)
        now = time.monotonic()
        self.port_taken_since = self.port_taken_since or now
        if number == errno.EADDRINUSE and now - self.port_taken_since < 2.0:
            return False  # an earlier run's store may be closing just now
        self._cannot_bind(number, error, answer)
        return False

    def _cannot_bind(self, number: int, error: str, answer: Answer | None) -> None:
        port = self.plan.master_port
        self.member.update_network(
            bind=Bind(
                ok=False,
                port=port,
                errno=number,
                error=error,
                holders=ports.holders(port),
                answer=answer,
                free_port=ports.free_port(port),
            )
        )

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
                self.member.update_network(control=await (control or self._control(address)))
            elif control is not None:
                control.cancel()
            if contact.outcome == "open":
                break
        self.member.update_network(contact=tried[-1], passed_over=tuple(tried[:-1]))
        return tried[-1]

    async def _control(self, address: str) -> Contact:
        """The same host on other ports: any answer of its own there says that the host is up."""
        ours = self.plan.master_port
        others = await asyncio.gather(
            *(connect(address, port, CONTROL_CONNECT_SECONDS) for port in (22, ours + 1 if ours < 65535 else ours - 1))
        )
        alive = [c for c in others if c.outcome in ("refused", "open", "reset")]
        return (alive or list(others))[0]

    async def _sit_down(self, contact: Contact) -> Seat | None:
        marker = await self._read_marker(contact)
        if marker is None:
            return None
        if self.own_marker is not None and marker.run != self.own_marker.run:
            self.close()  # MASTER_ADDR is another host's, where another node 0 already hosts: join it, be found
            self.own_marker, self.marked = None, False
        try:
            client = await StoreClient.connect(contact.address, contact.port)
        except StoreError:
            return None
        leads = self.own_marker is not None if not self.plan.agent_store else self.plan.rank == 0
        self.member.update_meeting(hosted=leads, ours=True)
        return Seat(client, marker, contact.address, contact.port, self.host_child, leads)

    async def _read_marker(self, contact: Contact) -> Marker | None:
        """The marker of the store at ``contact``; None where there is none (yet) or something else answers."""
        client = None
        try:
            answer = await identify(contact.address, contact.port)
            if answer is None or answer.kind != "tcpstore" or answer.generation == "<=2.1":
                self.member.update_network(answer=answer)
                self.member.update_meeting(ours=False if answer and answer.kind == "tcpstore" else None)
                return None
            client = await StoreClient.connect(contact.address, contact.port)
            if self.plan.agent_store and self.plan.rank == 0:
                marker = Marker(secrets.token_hex(8), secrets.token_hex(TOKEN_BYTES), __version__)
                await client.set(marker_key(self.plan), encode(marker))
            value = await self._wait_for_marker(client)
        except StoreError:
            return None
        finally:
            if client is not None:
                client.close()
        if value is None:
            self.unmarked_since = self.unmarked_since or time.monotonic()
            self.member.update_network(answer=answer)
            self.member.update_meeting(ours=False)
            return None
        self.member.update_network(answer=Answer("distdoctor", answer.generation))
        return value

    async def _wait_for_marker(self, client: StoreClient) -> Marker | None:
        end = time.monotonic() + MARKER_SECONDS
        while True:
            value = await client.get(marker_key(self.plan))
            if value is not None:
                try:
                    return decode(value, Marker)
                except BadFacts:
                    return None
            if time.monotonic() >= end:
                return None
            await asyncio.sleep(0.05)

    # -- judging meanwhile ------------------------------------------------------------------------------------

    def _hopeless(self) -> bool:
        """Whether waiting cannot cure what keeps this process out."""
        seen, plan = self.network, self.plan
        if plan.master_addr is None or (self._must_host() and self.member.facts.identity.torch_error):
            return True
        if seen.bind is not None and not seen.bind.ok:
            return True
        if seen.answer is not None and seen.answer.kind == "foreign":
            return True
        if self.unmarked_since is not None and not plan.agent_store:
            return True
        if plan.problems and time.monotonic() - self.started > PROBLEM_SECONDS:
            return True
        contact, control = seen.contact, seen.control
        if contact is not None and contact.outcome == "rejected":
            return True
        if contact is not None and contact.outcome == "no-answer" and control is not None:
            return control.outcome in ("refused", "open", "reset")
        return self._astray()

    def _astray(self) -> bool:
        """Node 0 hosts the store, but MASTER_ADDR does not lead to it."""
        if self.host_child is None or self.network.master_is_own is not False:
            return False
        self.astray_since = self.astray_since or time.monotonic()
        return time.monotonic() - self.astray_since > 2.0
