"""MASTER_ADDR and MASTER_PORT: look-up, route, connection, other ports, and the reason for a failed join."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time

from distdoctor.knowledge.network import contact_text, is_bridge
from distdoctor.model.addresses import in_network, parse_address, reaches_no_other
from distdoctor.model.facts import (
    AddressChoice,
    BadFacts,
    Contact,
    InterfaceContact,
    NodeFacts,
    Resolution,
    Route,
    StoreOnOtherPort,
    encode,
)
from distdoctor.model.launch_settings import MASTER_PORT, RDZV_ENDPOINT
from distdoctor.model.launch_variables import PBS_JOB, SLURM_JOB
from distdoctor.plan.notice import Notice, notice_of
from distdoctor.probes.network import interfaces, names, routing
from distdoctor.probes.network.names import hosts_lines
from distdoctor.probes.network.neighbours import answered, neighbour, unanswered
from distdoctor.probes.network.tcp import CONNECT_SECONDS, PATIENT_SECONDS, Opened, connect, open_alone, open_socket
from distdoctor.probes.resolver import ASKER
from distdoctor.session.context import RunContext
from distdoctor.session.leader.notice import read_notice
from distdoctor.session.protocol.messages import Marker, RunKeys, read_marker
from distdoctor.session.protocol.trust import NotAuthentic, NotSealed, Seal
from distdoctor.session.rendezvous.progress import WaitReporter
from distdoctor.store.client import MAX_SEGMENT, Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

SLOW_SECONDS = 1.0
"""Slow look-up: one that is answered takes milliseconds."""


class MasterLookup:
    """Look-ups of one process. They may start before they are needed."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._early: dict[str, asyncio.Future[Resolution]] = {}
        """Look-ups that started before their stage, by what they look up: the master, or the name of its address."""

    def begin(self) -> None:
        """Start the look-ups that are needed later: a name server that does not answer costs seconds each time."""
        name = self._context.plan.master_addr
        if name is None:
            return
        master = asyncio.ensure_future(names.resolve_store(name))

        async def backwards() -> Resolution:
            lookup = await asyncio.shield(master)
            return await names.reverse(lookup.addresses[0]) if lookup.addresses else lookup

        self._early = {"master": master, "reverse": asyncio.ensure_future(backwards())}

    async def resolve(self) -> None:
        """Resolve MASTER_ADDR; note the route to it and the address at which it reaches this node."""
        facts, note = self._context.facts, self._context.update_network
        plan, ours = facts.plan, facts.host.interfaces if facts.host else ()
        if plan.master_addr is None:
            note(primary=interfaces.reachable_address(ours))
            return
        master = await (self._early.pop("master", None) or names.resolve_store(plan.master_addr))
        if not master.addresses:
            note(
                master=master,
                master_is_own=None,
                primary=interfaces.reachable_address(ours),
                master_lines=names.hosts_lines(lambda fields: plan.master_addr in fields[1:]),
            )
            return
        own = any(interfaces.owned(address, ours) for address in master.addresses)
        target = master.addresses[0]
        way, primary = reached_at(facts, target, own)
        note(
            master=master,
            master_is_own=own,
            route=way,
            primary=primary,
            master_name=None if own else (names.name_in_hosts(target) or _unless_numeric(plan.master_addr)),
        )

    async def resolve_backwards(self) -> None:
        """Note the reverse look-up of the master's address, which each store client makes."""
        network = self._context.facts.network
        master = network.master if network else None
        if master is not None and master.addresses:
            early = self._early.pop("reverse", None)
            backwards = await early if early is not None else None
            address = master.addresses[0]
            self._context.update_network(
                reverse=backwards if backwards and backwards.name == address else await names.reverse(address)
            )


def reached_at(facts: NodeFacts, target: str, own: bool) -> tuple[Route, AddressChoice | None]:
    """Return the route to this address of the master, and the address at which this node is reached from there."""
    ours = facts.host.interfaces if facts.host else ()
    way = interfaces.route(target, facts.plan.master_port, ours)
    interface = next((i.name for i in ours if target in i.addresses), None) if own else None
    # A bridge for containers leads to no other host, whatever /etc/hosts says of this host's own name; and the zone of
    # a link-local address has another name there.
    if reaches_no_other(target) or is_bridge(interface) or _is_link_local(target) or (not own and way.source is None):
        return way, interfaces.reachable_address(ours)
    if own:
        return way, AddressChoice(target, interface, "MASTER_ADDR")
    return way, AddressChoice(way.source, way.interface, "route")


def _is_link_local(address: str) -> bool:
    parsed = parse_address(address)
    return parsed is not None and parsed.version == 6 and parsed.is_link_local


def names_cost_seconds(facts: NodeFacts) -> bool:
    """Return whether look-ups are known to wait in vain for a name server, and no name depends on a slow one.

    Each rank would wait as long again: its store client for the name of the store's address, which is for its log lines
    only, and gloo for the address of the own name.
    """
    host, network = facts.host, facts.network
    forward = (host.own_name if host else None, network.master if network else None)
    looks = [look for look in (*forward, network.reverse if network else None) if look is not None]
    late = [look for look in forward if look and look.addresses and look.seconds > SLOW_SECONDS]
    # Answered by a second query, which gave each name server one second.
    return any(look.seconds > SLOW_SECONDS for look in looks) and all(look.timed_out for look in late)


def _unless_numeric(name: str) -> str | None:
    return None if parse_address(name) else name


# Connection to MASTER_PORT: the address that answers, or whether the host is up at all.


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
        other_ways: tuple[InterfaceContact, ...] = ()
        for address in sorted(addresses, key=lambda a: ":" not in a):
            self._wait_reporter.trying = address, time.monotonic()
            before, seconds = self._slow_result_before(address), CONNECT_SECONDS
            if before is not None:
                seconds = max(LAST_SECONDS, min(seconds, deadline - time.monotonic()))
            longest = min(PATIENT_SECONDS, max(seconds, deadline - time.monotonic()))
            opening = open_alone if self.limited else open_socket
            attempt = asyncio.ensure_future(opening(address, self._context.plan.master_port, longest, MAX_SEGMENT))
            done, _ = await asyncio.wait([attempt], timeout=SILENT_AFTER)
            control = asyncio.ensure_future(self._control(address)) if not done else None
            attempts = asyncio.ensure_future(self._by_other_interfaces(address)) if not done else None
            contact, self._opened = await self._in_time(attempt, control, address, seconds - SILENT_AFTER)
            if before is not None and contact.outcome == "no-answer" and seconds < CONNECT_SECONDS:
                contact = before
            self._wait_reporter.trying = None
            tried.append(contact)
            if contact.outcome != "no-answer":
                self._silent_since = None
            elif self._silent_since is None:
                self._silent_since = time.monotonic() - contact.seconds
            answered_elsewhere = control is not None and control.done() and control.result().answered
            self.limited |= answered_elsewhere and contact.outcome in ("no-answer", "open")
            if contact.outcome in ("no-answer", "rejected"):
                self._context.update_network(control=await (control or self._control(address)))
            elif control is not None:
                control.cancel()
            if contact.outcome in ("no-answer", "unreachable"):
                other_ways = await (attempts or self._by_other_interfaces(address))
            elif attempts is not None:
                attempts.cancel()
            if contact.outcome == "open":
                break
        self._context.update_network(contact=tried[-1], passed_over=tuple(tried[:-1]))
        network = self._context.facts.network
        if tried[-1].outcome == "open" and tried[1:] and network is not None and network.master_is_own is False:
            # Not the first address, for which the route was looked up: the one that answers has another route.
            way, primary = reached_at(self._context.facts, tried[-1].address, own=False)
            self._context.update_network(route=way, primary=primary)
        if tried[-1].outcome != "open":
            self._context.update_network(
                hardware_addresses=answered(), unanswered=unanswered(), ipsec=routing.ipsec_policies()
            )
        if tried[-1].outcome in ("no-answer", "unreachable") and other_ways:
            self._context.update_network(other_ways=other_ways)
        self._note_neighbour(tried[-1])
        return tried[-1]

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


# Search for the store of this run on other ports of the master's host, if nothing listens on MASTER_PORT.
#
# A few ports are asked: the usual ones, MASTER_PORT's neighbours, those of this node's other variables and of a
# scheduler's rule, and the one that node 0 of the same launch gives out in its notice. This run's store on another port
# is reported, and node 0 learns whom it waits for in vain; it is not joined.


USUAL = (29500, 29400, 12355, 23456)
"""Ports of torch, torchrun, --rdzv-endpoint, and PyTorch's tutorials."""
REFUSED_SECONDS = 2.0
"""Seconds for which MASTER_PORT must have refused before other ports are asked: node 0 may be about to start."""
AGAIN_SECONDS = 2.0
SCAN_SECONDS = 1.0
MOST = 10


def port_candidates(port: int, environ: dict[str, str]) -> tuple[int, ...]:
    """Return the ports to ask, without ``port`` itself."""
    candidates = [environ.get(name, "") for name in MASTER_PORT.all_variables]
    endpoint = environ.get(RDZV_ENDPOINT.pet or "", "")
    candidates.append(endpoint.rpartition(":")[2])
    numbers = [int(text) for text in candidates if text.isdigit() and len(text) < 6]
    job = re.match(r"\d+", environ.get(SLURM_JOB, "") or environ.get(PBS_JOB, ""))
    if job is not None:
        # 10000 or 15000 (Lightning) and the last four digits of the job's number.
        numbers += [10000 + int(job[0][-4:]), 15000 + int(job[0][-4:])]
    return tuple(dict.fromkeys(n for n in (*numbers, *USUAL, port + 1, port - 1) if 0 < n < 65536 and n != port))[:MOST]


class PortScanner:
    """Asks the ports, at most every few seconds, until it has found a store."""

    def __init__(self, context: RunContext, seal: Seal) -> None:
        self._context, self._seal = context, seal
        self._refused: float | None = None
        self._asked = 0.0
        self._notice: Notice | None = notice_of(os.environ)
        self._informed: tuple[Contact, str] | None = None
        """Store that was informed, and the key of this process's facts in it."""

    async def look(self, contact: Contact | None) -> None:
        """Ask the ports after an attempt on MASTER_PORT that ended as ``contact`` says."""
        now = time.monotonic()
        if contact is None or contact.outcome != "refused":
            self._refused = None
            self._context.update_network(elsewhere=None)
            return
        self._refused = self._refused or now
        if self._informed or now - self._refused < REFUSED_SECONDS or now - self._asked < AGAIN_SECONDS:
            return
        self._asked = now
        ports = port_candidates(self._context.plan.master_port, dict(os.environ))
        places = [*await self._noticed(contact.address), *((contact.address, port) for port in ports)]
        attempts = await asyncio.gather(*(connect(*place, SCAN_SECONDS) for place in places))
        for attempt in attempts:
            if attempt.outcome == "open" and await self._ask(attempt):
                return

    async def _noticed(self, address: str) -> list[tuple[str, int]]:
        """Return the (host, port) pairs that node 0 of this launch gives out at ``address`` and the launcher's first
        host."""
        notice = self._notice
        if notice is None:
            return []
        others = (await ASKER.ask("addresses", notice.first, SCAN_SECONDS)).found if notice.first else ()
        hosts = list(dict.fromkeys((address, *others)))[:MOST]
        ports = await asyncio.gather(*(read_notice(host, notice) for host in hosts))
        return [(host, port) for host, port in zip(hosts, ports, strict=True) if port is not None]

    async def _ask(self, contact: Contact) -> bool:
        """Return whether a store of this run is there. It is noted, and node 0 is informed."""
        client = None
        try:
            answer = await identify(contact.address, contact.port)
            if answer is None or answer.kind != "tcpstore" or answer.generation == "<=2.1":
                return False
            client = await StoreClient.connect(contact.address, contact.port)
            key = "distdoctor/marker"
            value = await client.get(key)
            marker = read_marker(self._seal.open(key, value)) if value is not None else None
            if marker is None or marker.plan is None or not await self._lacks_one(client, marker):
                return False
            store = StoreOnOtherPort(contact.address, contact.port, marker.host, marker.plan)
            self._context.update_network(elsewhere=store)
            self._informed = contact, await self._write_facts(client, marker)
            return True
        except (StoreError, Oversize, BadFacts, NotSealed, NotAuthentic):
            return False
        finally:
            if client is not None:
                client.close()

    async def _lacks_one(self, client: StoreClient, marker: Marker) -> bool:
        """Return whether the store is for a job of as many nodes (ranks), not all of which have joined."""
        ours, theirs = self._context.plan, marker.plan
        assert theirs is not None
        ranks = theirs.started == "rank"
        expected = theirs.world_size if ranks else theirs.nnodes
        if theirs.started != ours.started or expected != (ours.world_size if ranks else ours.nnodes):
            return False
        count = await client.get(RunKeys(marker.run).members)
        others = int(count) if count is not None and count.isdigit() and len(count) < 8 else 0
        return expected is not None and 1 + others < expected

    async def withdraw(self) -> None:
        """Remove what was written into the other store, because this run's own store appeared."""
        self._context.update_network(elsewhere=None)
        if self._informed is None:
            return
        (contact, key), self._informed = self._informed, None
        client = None
        try:
            client = await StoreClient.connect(contact.address, contact.port)
            await client.set(key, b"")
            await client.has(key)
        except StoreError:
            pass
        finally:
            if client is not None:
                client.close()

    async def _write_facts(self, client: StoreClient, marker: Marker) -> str:
        keys = RunKeys(marker.run)
        number = await client.add(keys.astray, 1)
        key = keys.stray(number)
        await client.set(key, self._seal.close(key, encode(self._context.facts)))
        await client.has(key)  # an answer shows that the set before it has arrived
        return key


# Reason of a failed network stage, in a few words. Pure.


PROBLEM_SECONDS = 6.0
"""Seconds for which a process whose own variables are wrong still tries to join the others, who know better values."""
UNANSWERED = ("temporary failure", "try again")
"""Texts of glibc and musl for EAI_AGAIN, which does not say whether the name exists."""


def no_such_master(facts: NodeFacts, seconds: float, in_pod: bool) -> bool:
    """Return whether a job of one node waits in vain for MASTER_ADDR to have an address, after ``seconds``.

    No other node will join that could give it one. A name server that gives no answer is asked again; in a Kubernetes
    pod the record may appear after the pod.
    """
    master = facts.network.master if facts.network else None
    if in_pod or not facts.plan.one_node or master is None or master.addresses:
        return False
    unanswered = master.timed_out or any(words in (master.error or "").lower() for words in UNANSWERED)
    return not unanswered or seconds > PROBLEM_SECONDS


def join_failure_text(facts: NodeFacts) -> str:
    """Return the reason of a failed join in a few words; the findings have the details."""
    seen, plan = facts.network, facts.plan
    if seen is not None and seen.bind is not None and not seen.bind.ok:
        number = seen.bind.errno
        return f"cannot listen on port {seen.bind.port}: {os.strerror(number) if number else seen.bind.error}"
    if seen is not None and seen.contact is not None:
        return contact_words(seen.contact)
    if plan.master_addr is None:
        return "MASTER_ADDR is not set"
    if seen is None or seen.master is None or not seen.master.addresses:
        return "MASTER_ADDR has no address"
    if lacks_torch(facts):
        return "node 0 opens the store with torch, which cannot be imported"
    return "node 0 was not reached"


def lacks_torch(facts: NodeFacts) -> bool:
    """Return whether only its own torch kept this node from opening the store, and nothing of the network: the name was
    looked up, nothing was tried, and torch cannot be imported."""
    seen = facts.network
    looked_up = seen is not None and seen.master is not None and bool(seen.master.addresses)
    tried = seen is not None and (seen.contact is not None or (seen.bind is not None and not seen.bind.ok))
    return bool(facts.identity.torch_error) and facts.plan.master_addr is not None and looked_up and not tried


def contact_words(contact: Contact) -> str:
    """Return the result of the last attempt to connect, in words."""
    if contact.outcome == "open":
        return f"{contact.address}:{contact.port} answers, but not as the store of this job"
    return contact_text(contact)
