"""Connection to MASTER_PORT: the address that answers, or whether the host is up at all."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from distdoctor.model.addresses import in_network
from distdoctor.model.facts import Contact, InterfaceContact
from distdoctor.probes.network import routing
from distdoctor.probes.network.names import hosts_lines
from distdoctor.probes.network.neighbours import answered, neighbour, unanswered
from distdoctor.probes.network.tcp import CONNECT_SECONDS, PATIENT_SECONDS, Opened, connect, open_alone, open_socket
from distdoctor.session.context import RunContext
from distdoctor.session.rendezvous.lookup import reached_at
from distdoctor.session.rendezvous.progress import WaitReporter
from distdoctor.store.client import MAX_SEGMENT

T = TypeVar("T")

CONTROL_CONNECT_SECONDS = 2.0
LAST_SECONDS = 1.5
"""Least seconds of an attempt, however little is left of ``--wait``: a SYN and its first retransmission."""
MOST_INTERFACES = 4
SILENT_AFTER = 0.5
"""Seconds without an answer after which the host's other ports are tried, too, while the first attempt goes on."""
FILTERED_SECONDS = 2 * PATIENT_SECONDS
"""Seconds of silence from a host that is up after which a packet filter drops all packets: one that limits new
connections lets some through by then."""


def control_ports(port: int) -> tuple[int, int]:
    """Return the ports of a silent host to try beside ``port``: that of ssh, and one where nobody should listen."""
    return 22, port + 1 if port < 65535 else port - 1


async def _result(task: asyncio.Future[T] | None, begin: Callable[[], Awaitable[T]], wanted: bool) -> T | None:
    """Return the result of a task, which begins now if it has not; None, without the task, if it is not wanted."""
    if wanted:
        return await (task or begin())
    if task is not None:
        task.cancel()
    return None


class MasterContact:
    """Connects to the master, and notes the result."""

    def __init__(self, context: RunContext, wait_reporter: WaitReporter) -> None:
        self._context, self._wait_reporter = context, wait_reporter
        self._opened: socket.socket | None = None
        self._silent_since: float | None = None
        self.limited = False
        """True once a connection got no answer for a while from a host that is up: from then on few are made, as a
        packet filter may limit their rate."""

    @property
    def filtered(self) -> bool:
        """Return whether a packet filter drops all packets."""
        return self._silent_since is not None and time.monotonic() - self._silent_since >= FILTERED_SECONDS

    def take(self) -> socket.socket | None:
        """Return the open connection of the last attempt, once: a packet filter may limit new ones."""
        opened, self._opened = self._opened, None
        return opened

    def close(self) -> None:
        """Close what nobody took."""
        if (opened := self.take()) is not None:
            opened.close()

    async def make(self, addresses: tuple[str, ...], deadline: float) -> Contact:
        """Return the first address that accepts a connection, in the order in which a TCPStore tries them (IPv6 first).

        ``deadline`` (of the monotonic clock) cuts a repeated attempt short. Then the result of the one before it still
        counts, if that had all its time.
        """
        self.close()
        tried: list[Contact] = []
        by_others: tuple[InterfaceContact, ...] | None = None
        for address in sorted(addresses, key=lambda a: ":" not in a):
            contact, by_others = await self._try(address, deadline)
            tried.append(contact)
            if contact.outcome == "open":
                break
        *passed_over, last = tried
        self._context.update_network(contact=last, passed_over=tuple(passed_over))
        network = self._context.facts.network
        if last.outcome == "open" and passed_over and network is not None and network.master_is_own is False:
            # Not the first address, for which the route was looked up: the one that answers has another route.
            route, primary = reached_at(self._context.facts, last.address, own=False)
            self._context.update_network(route=route, primary=primary)
        if last.outcome != "open":
            self._context.update_network(
                hardware_addresses=answered(), unanswered=unanswered(), ipsec=routing.ipsec_policies()
            )
        if by_others:
            self._context.update_network(other_ways=by_others)
        self._note_neighbour(last)
        return last

    async def _try(self, address: str, deadline: float) -> tuple[Contact, tuple[InterfaceContact, ...] | None]:
        """Connect to one address. Return the result, and those by the other interfaces if no host answers."""
        self._wait_reporter.trying = address, time.monotonic()
        before, seconds = self._slow_result_before(address), CONNECT_SECONDS
        if before is not None:
            seconds = max(LAST_SECONDS, min(seconds, deadline - time.monotonic()))
        longest = min(PATIENT_SECONDS, max(seconds, deadline - time.monotonic()))
        opening = open_alone if self.limited else open_socket
        attempt = asyncio.ensure_future(opening(address, self._context.plan.master_port, longest, MAX_SEGMENT))
        done, _ = await asyncio.wait([attempt], timeout=SILENT_AFTER)
        control = asyncio.ensure_future(self._control(address)) if not done else None
        others = asyncio.ensure_future(self._by_other_interfaces(address)) if not done else None
        contact, self._opened = await self._in_time(attempt, control, address, seconds - SILENT_AFTER)
        if before is not None and contact.outcome == "no-answer" and seconds < CONNECT_SECONDS:
            contact = before
        self._wait_reporter.trying = None
        self._note_silence(contact, control is not None and control.done() and control.result().answered)
        host_up = await _result(control, lambda: self._control(address), contact.outcome in ("no-answer", "rejected"))
        if host_up is not None:
            self._context.update_network(control=host_up)
        silent = contact.outcome in ("no-answer", "unreachable")
        return contact, await _result(others, lambda: self._by_other_interfaces(address), silent)

    def _note_silence(self, contact: Contact, host_answers: bool) -> None:
        """Note since when the address is silent, and whether a packet filter may limit connections to it."""
        if contact.outcome != "no-answer":
            self._silent_since = None
        elif self._silent_since is None:
            self._silent_since = time.monotonic() - contact.seconds
        self.limited |= host_answers and contact.outcome in ("no-answer", "open")

    async def _in_time(
        self, attempt: asyncio.Future[Opened], control: asyncio.Future[Contact] | None, address: str, seconds: float
    ) -> Opened:
        """Return the result of the attempt; without one after ``seconds``, it goes on only if the host is up: then a
        packet filter drops all its packets, or some."""
        done, _ = await asyncio.wait([attempt], timeout=seconds)
        if not done and control is not None and not (await control).answered:
            attempt.cancel()
            port, took = self._context.plan.master_port, round(seconds + SILENT_AFTER, 4)
            return Contact(address, port, "no-answer", seconds=took), None
        return await attempt

    def _slow_result_before(self, address: str) -> Contact | None:
        """Return the result of the attempt before this one at this address, if it takes all its time."""
        before = self._context.facts.network.contact if self._context.facts.network else None
        slow = before is not None and before.address == address and before.outcome in ("no-answer", "unreachable")
        return before if slow else None

    def _note_neighbour(self, contact: Contact) -> None:
        """Note, if nothing answered, whether a host has the address at all; and if not, who says so."""
        network, plan = self._context.facts.network, self._context.plan
        if contact.outcome not in ("no-answer", "unreachable"):
            self._context.update_network(neighbour=None)
            return
        before = network.neighbour if network else None
        seen = neighbour(contact.address, network.routes if network else None)
        if seen is not None and before is not None and not seen.state and before.address == seen.address:
            seen = before  # it is being asked again: its last answer counts until it has answered
        self._context.update_network(neighbour=seen)
        if seen is not None and seen.state == "silent" and not (network and network.master_lines):
            self._context.update_network(master_lines=hosts_lines(lambda fields: plan.master_addr in fields[1:]))

    async def _by_other_interfaces(self, address: str) -> tuple[InterfaceContact, ...]:
        """Return the result by each other interface whose network contains the address, too."""
        facts = self._context.facts
        network, interfaces = facts.network, facts.host.interfaces if facts.host is not None else ()
        route = network.route.interface if network is not None and network.route is not None else None
        others = [
            card.name
            for card in interfaces
            if card.up
            and not card.loopback
            and card.name != route
            and any(map(in_network, card.addresses, card.prefix_lengths, (address,) * len(card.addresses)))
        ]
        if route is None or not others:
            return ()
        port = facts.plan.master_port
        attempts = (connect(address, port, CONTROL_CONNECT_SECONDS, name) for name in others[:MOST_INTERFACES])
        return tuple(map(InterfaceContact, others, await asyncio.gather(*attempts)))

    async def _control(self, address: str) -> Contact:
        """Connect to other ports of the same host: any answer of its own shows that it is up."""
        known = self._context.facts.network.control if self._context.facts.network else None
        if known is not None and known.answered and known.address == address:
            return known
        ports = control_ports(self._context.plan.master_port)
        others = await asyncio.gather(*(connect(address, port, CONTROL_CONNECT_SECONDS) for port in ports))
        alive = [c for c in others if c.answered]
        return (alive or list(others))[0]
