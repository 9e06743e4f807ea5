"""Host of the store: node 0 opens it on MASTER_PORT, in a process of its own, and puts distdoctor's marker into it."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import secrets
import time
from dataclasses import replace
from typing import Any

from distdoctor import __version__
from distdoctor.mesh.listener import TOKEN_BYTES
from distdoctor.model.facts import Answer, Bind, Contact, NetworkFacts, encode
from distdoctor.model.plan import DEFAULT_PORT
from distdoctor.model.stages import NETWORK
from distdoctor.plan.notice import notice_of
from distdoctor.probes.host.proc import listening
from distdoctor.probes.network import ports
from distdoctor.probes.network.tcp import PATIENT_SECONDS, Opened, give_up, open_socket
from distdoctor.ranks.supervisor import Child, Died, Zygote
from distdoctor.session.context import RunContext, wait_for_torch
from distdoctor.session.leader.notice import post_notice
from distdoctor.session.protocol.messages import Marker, RunKeys
from distdoctor.session.protocol.trust import Seal
from distdoctor.store.client import MAX_SEGMENT, Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

HOST_SECONDS = 15.0
UNREACHED_SECONDS = 3.0
"""Limit if the loopback interface is down: a store connects to itself, which does not work then."""
SELF_CONNECT_SECONDS = 1.0
CONNECTS_WITHIN = 3600.0
"""Seconds after which the store ends that could not connect to itself; until then it serves all others."""
LOOPBACK_SECONDS = 1.0
"""Seconds that one call waits for a connection to the own store."""
CLOSING_SECONDS = 2.0
"""Seconds for which the port of an earlier run may be closing."""
SPARE_FILES = 2
"""Descriptors that a server without any for connections may have free for a moment."""


def descriptors_exhausted(child: Child) -> tuple[int, int] | None:
    """Return (open, limit) of a process's descriptors if none is left; else None."""
    try:
        held = len(os.listdir(f"/proc/{child.pid}/fd"))
        limit = resource.prlimit(child.pid or 0, resource.RLIMIT_NOFILE)[0]
    except (OSError, ValueError):
        return None
    return (held, limit) if 0 < limit <= held + SPARE_FILES else None


class StoreHost:
    """Store of a node 0, if this process is one and the port is free."""

    def __init__(self, context: RunContext, zygote: Zygote | None, seal: Seal) -> None:
        self.context, self.zygote, self.seal = context, zygote, seal
        self.child: Child | None = None
        self.marker: Marker | None = None
        """Mark that this process wrote into its store. It is never read back from there."""
        self._notice: asyncio.Server | None = None
        self._client: StoreClient | None = None
        self._opening: dict[str, asyncio.Future[Opened]] = {}
        """Connections to the own store that got no answer yet, by address."""
        self.has_marker = False
        """True if the store is known to hold the marker."""
        self._port_taken_since: float | None = None
        self._failure: tuple[int, str, Answer | None] | None = None
        """Last failed attempt: errno, its text, and what answers on the port."""

    @property
    def network(self) -> NetworkFacts:
        """Return the network facts so far."""
        return self.context.facts.network or NetworkFacts()

    @property
    def limits_itself(self) -> bool:
        """Return whether this process hosts the store behind a packet filter of its node that limits new
        connections."""
        chains = self.network.firewall.chains if self.network.firewall else ()
        return self.child is not None and any(chain.hook == "input" and chain.by_rate for chain in chains)

    def note_files(self) -> None:
        """Note the descriptors of the store if none is left for further clients."""
        bind = self.network.bind
        if self.child is not None and bind is not None and (files := descriptors_exhausted(self.child)) is not None:
            self.context.update_network(bind=replace(bind, files=files))

    def close(self) -> None:
        """End the store, if there is one."""
        self.note_files()
        if self.child is not None:
            self.child.kill()
            self.child.close()
        if self._notice is not None:
            self._notice.close()
        for attempt in self._opening.values():
            give_up(attempt)
        self._opening = {}
        if self._client is not None:
            self._client.close()
        self.child = self.marker = self._notice = self._client = None
        self.has_marker = False

    def forget_killed(self) -> None:
        """Forget the store if its process was killed: another is opened, as nobody has joined this one yet."""
        if self.child is not None and self.child.exited.is_set():
            self.close()

    def new_marker(self) -> Marker:
        """Return the marker of a new run. With a token, the listeners' secret is derived from it and not written."""
        token = "" if self.seal.keyed else secrets.token_hex(TOKEN_BYTES)
        host = self.context.facts.identity.hostname
        return Marker(secrets.token_hex(8), token, __version__, host=host, plan=self.context.plan)

    def sealed(self, marker: Marker) -> bytes:
        """Return the marker as it is written."""
        return self.seal.close(RunKeys.marker(self.context.plan), encode(marker))

    async def altered(self) -> bool:
        """Return whether somebody else has written another marker into the store that this process hosts."""
        if self.child is None or self.marker is None or not self.has_marker:
            return False
        try:
            client = await self._own_client()
        except StoreError:
            return False
        try:
            value = await client.get(RunKeys.marker(self.context.plan))
        except Oversize:
            return True
        except StoreError:
            client.close()
            return False
        return value != self.sealed(self.marker)

    async def note_visitors(self) -> None:
        """Note the clients that reached this store by a MASTER_ADDR that does not lead this node itself to it."""
        if self.child is None or self.marker is None or self.network.master_is_own is not False:
            return
        client = None
        try:
            client = await self._own_client()
            self.context.update_meeting(visitors=await client.add(RunKeys(self.marker.run).members, 0))
        except StoreError:
            pass
        finally:
            if client is not None:
                client.close()

    def note_holders(self, mine: bool) -> None:
        """Note which process holds the port, if one kept this node from hosting the store, and which port is free."""
        if self.network.bind is not None:
            return
        answer = self.network.answer
        if self._failure is None and mine and answer is not None and answer.kind in ("tcpstore", "foreign", "closed"):
            self._failure = (errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), answer)
        if self._failure is not None:
            self._cannot_bind(*self._failure)

    def note_other_run(self) -> None:
        """Note that another run of the check has the port of this node 0."""
        self._cannot_bind(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), self.network.answer)

    async def try_port(self) -> None:
        """Note whether node 0's port is free, and else what has it, if no process is to host the store yet."""
        while number := ports.refused_bind(self.context.plan.master_port):
            if not await self._cannot_host(number, os.strerror(number)) and self.network.bind is None:
                await asyncio.sleep(CLOSING_SECONDS / 10)
                continue
            if self.network.bind is None and await self._of_another_run():
                self.context.update_network(answer=Answer("distdoctor"))
                self.note_other_run()
            # An agent of the c10d rendezvous that finds a store on its own port joins that (c10d_rendezvous_backend.py,
            # _create_tcp_store).
            self.note_holders(self.context.plan.rdzv_backend == "static" or self.context.plan.is_host is True)
            return

    async def _of_another_run(self) -> bool:
        """Return whether the store on the port has distdoctor's marker."""
        client = None
        try:
            client = await self._own_client()
            return await client.has(RunKeys.marker(self.context.plan))
        except StoreError:
            return False
        finally:
            if client is not None:
                client.close()

    async def host(self) -> bool:
        """Return whether the store is there, ours or, perhaps, that of another process of this same check."""
        if self.zygote is None:
            return False
        torch = await wait_for_torch(self.context, self.zygote, NETWORK.name)
        if torch.version is None:
            return False
        child = self.zygote.spawn("distdoctor:sto")
        answer = await self._ask_to_host(child)
        if answer["ok"]:
            self.child = child
            self.context.use_port(answer["port"])
            after = round(time.time() - self.context.clock.started_at, 2)
            self.context.update_network(bind=Bind(True, answer["port"], after=after))
            self.marker, self.has_marker = self.new_marker(), False
            await self.write_marker()
            if (notice := notice_of(os.environ)) is not None:
                self._notice = await post_notice(notice, self.context.plan.master_port)
            return True
        child.kill()
        child.close()
        return await self._cannot_host(answer["errno"], answer["error"])

    async def _ask_to_host(self, child: Child) -> dict[str, Any]:
        """Return the child's answer. A store whose constructor waits to connect to itself listens all the same."""
        port = self.context.plan.master_port
        call = asyncio.ensure_future(child.call("store_host", port=port, timeout=CONNECTS_WITHIN))
        seconds = HOST_SECONDS if self._reaches_itself() else UNREACHED_SECONDS
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            await asyncio.wait([call], timeout=SELF_CONNECT_SECONDS)
            if call.done():
                break
            if child.pid is not None and any(number == port for _, number in listening(child.pid)):
                call.cancel()
                return {"ok": True, "port": port}
        if not call.done():
            call.cancel()
            return {"ok": False, "error": f"hosting a TCPStore did not return within {seconds:g} s", "errno": 0}
        try:
            return call.result()
        except Died as err:
            return {"ok": False, "error": str(err), "errno": 0}

    def _reaches_itself(self) -> bool:
        host = self.context.facts.host
        up = [card.up for card in (host.interfaces if host else ()) if card.loopback]
        return not up or any(up)

    async def write_marker(self) -> None:
        """Write the marker into the store that this process hosts; it is tried again if that is slow.

        If the store cannot be reached from here at all, the contact has the reason.
        """
        if self.child is None or self.marker is None or self.has_marker:
            return
        client = None
        try:
            client = await self._own_client()
            await client.set(RunKeys.marker(self.context.plan), self.sealed(self.marker))
            self.has_marker = await client.has(RunKeys.marker(self.context.plan))  # answers after the set
        except StoreError:
            if client is not None:
                client.close()

    async def _own_client(self) -> StoreClient:
        """Return the client of the store that this process hosts: by its address, else over loopback.

        A connection that gets no answer at once goes on: a packet filter that limits new ones, also of this host, may
        let a later SYN through. Raises StoreError.
        """
        own = self.network.master.addresses if self.network.master and self.network.master_is_own else ()
        port = self.context.plan.master_port
        for address in own if own and self.limits_itself else (*own, "127.0.0.1", "::1"):
            if self._client is not None and self._client.is_open:
                return self._client
            attempt = self._opening.get(address)
            if attempt is None:
                attempt = asyncio.ensure_future(open_socket(address, port, PATIENT_SECONDS, MAX_SEGMENT))
                self._opening[address] = attempt
            done, _ = await asyncio.wait([attempt], timeout=LOOPBACK_SECONDS)
            if done and self._opening.pop(address, None) is attempt and (opened := attempt.result()[1]) is not None:
                self._client = StoreClient(opened, address, port)
        if self._client is not None and self._client.is_open:
            return self._client
        raise StoreError("the store that this process hosts cannot be reached from here")

    def own_contact(self) -> Contact | None:
        """Note and return the contact with the own store at MASTER_ADDR's only address, if a connection is open."""
        own = self.network.master.addresses if self.network.master and self.network.master_is_own else ()
        if self.child is None or self._client is None or not self._client.is_open or own != (self._client.address,):
            return None
        contact = Contact(self._client.address, self.context.plan.master_port, "open")
        self.context.update_network(contact=contact, passed_over=(), neighbour=None)
        return contact

    def note_unreached(self) -> None:
        """Note that a store which this process hosts gave it no answer at MASTER_ADDR, if it could never connect."""
        master, bind = self.network.master, self.network.bind
        own = master.addresses if master is not None and self.network.master_is_own else ()
        if self.child is None or self.has_marker or self.network.contact is not None or bind is None or not own:
            return
        seconds = round(time.time() - self.context.clock.started_at - (bind.after or 0), 1)
        self.context.update_network(contact=Contact(own[0], self.context.plan.master_port, "no-answer", None, seconds))

    def take_client(self, contact: Contact) -> StoreClient | None:
        """Return the connection to the own store, once, if it is the one of ``contact``."""
        if self._client is None or not self._client.is_open or self._client.address != contact.address:
            return None
        client, self._client = self._client, None
        return client

    async def _cannot_host(self, number: int, error: str) -> bool:
        """Note the reason. Return True if another process of this same check holds the port, so that joining it is
        right."""
        address = next(iter(self.network.master.addresses if self.network.master else ()), "127.0.0.1")
        answer = await identify(address if self.network.master_is_own else "127.0.0.1", self.context.plan.master_port)
        if number == errno.EADDRINUSE and answer is not None and answer.kind == "tcpstore":
            self.context.update_network(bind=None, answer=answer)
            return True  # perhaps this check's own: the marker will show
        self._failure = (number, error, answer)
        now = time.monotonic()
        self._port_taken_since = self._port_taken_since or now
        if number == errno.EADDRINUSE and now - self._port_taken_since < CLOSING_SECONDS:
            return False  # an earlier run's store may be closing just now
        self._cannot_bind(number, error, answer)
        return False

    def _cannot_bind(self, number: int, error: str, answer: Answer | None) -> None:
        port = self.context.plan.master_port
        self.context.update_network(
            bind=Bind(
                ok=False,
                port=port,
                errno=number,
                error=error,
                holders=ports.holders(port),
                answer=answer,
                free_port=ports.free_port(port or DEFAULT_PORT - 1),
            )
        )
