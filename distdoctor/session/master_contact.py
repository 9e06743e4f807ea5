"""Connecting to MASTER_PORT: which of the master's addresses answers, and where none does, whether the host is up."""

from __future__ import annotations

import asyncio
import time

from distdoctor.model.addresses import in_network
from distdoctor.model.facts import Contact, OtherWay
from distdoctor.probes import ipsec
from distdoctor.probes.connect import CONNECT_SECONDS, connect
from distdoctor.probes.names import hosts_lines
from distdoctor.probes.neighbours import answered, neighbour, unanswered
from distdoctor.session.master_lookup import reached_at
from distdoctor.session.recorder import Recorder
from distdoctor.session.so_far import Teller

CONTROL_CONNECT_SECONDS = 2.0
LAST_SECONDS = 1.5
"""What an attempt is given at least, however little is left of ``--wait``: a SYN and its first repetition."""
MOST_WAYS = 4
SILENT_AFTER = 0.5
"""Seconds without an answer after which the host's other ports are tried, too, while the first goes on."""


def control_ports(port: int) -> tuple[int, int]:
    """The ports of a silent host that are tried beside ``port``: that of ssh, and one where nobody should listen."""
    return 22, port + 1 if port < 65535 else port - 1


class MasterContact:
    """Makes contact, and notes what came of it."""

    def __init__(self, recorder: Recorder, teller: Teller) -> None:
        self._recorder, self._teller = recorder, teller

    async def make(self, addresses: tuple[str, ...], deadline: float) -> Contact:
        """The first address that can be connected to, in the order in which a TCPStore tries them (IPv6 first).

        ``deadline`` (of the monotonic clock): an attempt that is made anew is cut short by it. What the one before it
        came to then counts still, where that had all its time.
        """
        tried: list[Contact] = []
        other_ways: tuple[OtherWay, ...] = ()
        for address in sorted(addresses, key=lambda a: ":" not in a):
            self._teller.trying = address, time.monotonic()
            before, seconds = self._slow_before(address), CONNECT_SECONDS
            if before is not None:
                seconds = max(LAST_SECONDS, min(seconds, deadline - time.monotonic()))
            attempt = asyncio.ensure_future(connect(address, self._recorder.facts.plan.master_port, seconds))
            done, _ = await asyncio.wait([attempt], timeout=SILENT_AFTER)
            control = asyncio.ensure_future(self._control(address)) if not done else None
            ways = asyncio.ensure_future(self._other_ways(address)) if not done else None
            contact = await attempt
            if before is not None and contact.outcome == "no-answer" and seconds < CONNECT_SECONDS:
                contact = before
            self._teller.trying = None
            tried.append(contact)
            if contact.outcome in ("no-answer", "rejected"):
                self._recorder.update_network(control=await (control or self._control(address)))
            elif control is not None:
                control.cancel()
            if contact.outcome in ("no-answer", "unreachable"):
                other_ways = await (ways or self._other_ways(address))
            elif ways is not None:
                ways.cancel()
            if contact.outcome == "open":
                break
        self._recorder.update_network(contact=tried[-1], passed_over=tuple(tried[:-1]))
        network = self._recorder.facts.network
        if tried[-1].outcome == "open" and tried[1:] and network is not None and network.master_is_own is False:
            # Not the first address, by which the way there was looked up: the one that works leads elsewhere.
            way, primary = reached_at(self._recorder.facts, tried[-1].address, own=False)
            self._recorder.update_network(route=way, primary=primary)
        if tried[-1].outcome != "open":
            self._recorder.update_network(
                hardware_addresses=answered(), unanswered=unanswered(), ipsec=ipsec.policies()
            )
        if tried[-1].outcome in ("no-answer", "unreachable") and other_ways:
            self._recorder.update_network(other_ways=other_ways)
        self._look_next_door(tried[-1])
        return tried[-1]

    def _slow_before(self, address: str) -> Contact | None:
        """What the attempt before this one came to at this address, if that takes its time."""
        before = self._recorder.facts.network.contact if self._recorder.facts.network else None
        slow = before is not None and before.address == address and before.outcome in ("no-answer", "unreachable")
        return before if slow else None

    def _look_next_door(self, contact: Contact) -> None:
        """Note, where nothing answered, whether a host has the address at all; and if not, who says so."""
        network, plan = self._recorder.facts.network, self._recorder.facts.plan
        if contact.outcome not in ("no-answer", "unreachable"):
            self._recorder.update_network(neighbour=None)
            return
        before = network.neighbour if network else None
        found = neighbour(contact.address, network.routes if network else None)
        if found is not None and before is not None and not found.state and before.address == found.address:
            found = before  # it is being asked again: what it said last counts until it is known
        self._recorder.update_network(neighbour=found)
        if found is not None and found.state == "silent" and not (network and network.master_lines):
            self._recorder.update_network(master_lines=hosts_lines(lambda fields: plan.master_addr in fields[1:]))

    async def _other_ways(self, address: str) -> tuple[OtherWay, ...]:
        """What becomes of it by each other interface that has the address in its own network, too."""
        facts = self._recorder.facts
        network, interfaces = facts.network, facts.host.interfaces if facts.host is not None else ()
        route = network.route.interface if network is not None and network.route is not None else None
        others = [
            one.name
            for one in interfaces
            if one.up
            and not one.loopback
            and one.name != route
            and any(map(in_network, one.addresses, one.prefix_lengths, (address,) * len(one.addresses)))
        ]
        if route is None or not others:
            return ()
        port = facts.plan.master_port
        ways = (connect(address, port, CONTROL_CONNECT_SECONDS, name) for name in others[:MOST_WAYS])
        return tuple(map(OtherWay, others, await asyncio.gather(*ways)))

    async def _control(self, address: str) -> Contact:
        """The same host on other ports: any answer of its own there says that the host is up."""
        ports = control_ports(self._recorder.facts.plan.master_port)
        others = await asyncio.gather(*(connect(address, port, CONTROL_CONNECT_SECONDS) for port in ports))
        alive = [c for c in others if c.answered]
        return (alive or list(others))[0]
