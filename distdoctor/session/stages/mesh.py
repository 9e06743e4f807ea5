"""Mesh stage: one process of each node listens for the others, and measures its links to them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from distdoctor.knowledge.network import start_seconds
from distdoctor.mesh.link import LIMITED_SECONDS
from distdoctor.mesh.listener import LinkTarget, Listener, addresses_of
from distdoctor.mesh.measurement import Measurement
from distdoctor.model.addresses import is_loopback, parse_address, reaches_no_other
from distdoctor.model.stages import MESH
from distdoctor.probes.network import names, ports, routing
from distdoctor.probes.network.neighbours import answered, filled_since, refused, unanswered
from distdoctor.probes.network.tcp import SYN_AGAIN, connect
from distdoctor.render.words import count
from distdoctor.session.context import RunContext
from distdoctor.session.leader.inbox import Participant
from distdoctor.session.protocol.messages import Command
from distdoctor.session.stages.local import ANOTHER_PROCESS, Ended

REPEATED = 2
"""SYNs retransmitted to one address, by all ranks: a single one may be lost by chance."""
CALLED = 2
"""Addresses that are tried of one name."""


SHUT = ("no-answer", "rejected", "refused")
"""Results of a connection within this host, to a port that it listens on, that only a packet filter causes."""


class MeshStage:
    """This process's part of the mesh. ``number`` is this participant's, ``token`` what listeners ask for."""

    def __init__(self, context: RunContext, token: str, number: int) -> None:
        self._context, self._token, self._number = context, token, number
        self._listener: Listener | None = None
        self._not_listening = ""

    async def listen(self, transcript: Callable[[], bytes] | None) -> int | None:
        """Return the port this process listens on; None if it cannot. ``transcript``: on node 0, what it confirms."""
        listener = Listener(self._token, self._number, transcript)
        try:
            port, self._listener = await listener.start(), listener
        except OSError as err:  # no port or descriptor left: the facts have the limits
            self._not_listening = f"cannot listen: {err.strerror or err}"
            return None
        return port

    async def measure(self, command: Command) -> Ended:
        """Measure the links to all of the command's targets."""
        if self._not_listening:
            return "error", self._not_listening
        if self._listener is None:
            return "skipped", ANOTHER_PROCESS
        room = refused()
        called, own = (
            asyncio.ensure_future(self._call(command)),
            asyncio.ensure_future(self._call_itself(command.limited)),
        )
        seconds = max(LIMITED_SECONDS, command.seconds - (MESH.seconds or 0.0))
        facts = await Measurement(
            self._token, self._number, command.targets, command.lead, frozenset(command.limited), seconds
        ).run()
        await called
        shut = await own
        self._context.update(mesh=facts)
        if facts.bad:
            self._context.update_network(
                hardware_addresses=answered(),
                unanswered=unanswered(),
                neighbour_table=filled_since(room),
                ipsec=routing.ipsec_policies(),
            )
            return "failed", f"{count(len(facts.bad), 'link')} {'does' if len(facts.bad) == 1 else 'do'} not work"
        return ("failed", "this host does not reach its own ports") if shut else ("ok", count(facts.good, "link"))

    async def _call_itself(self, limited: Collection[str]) -> bool:
        """Return whether this host keeps its own ranks, if it has several, from each other's ports."""
        if (self._context.plan.nproc_per_node or 1) == 1:
            return False
        gloo = self._context.facts.host.gloo if self._context.facts.host is not None else None
        address = gloo.address if gloo is not None else None
        contact = await ports.own_port_reached(address, LIMITED_SECONDS if address in limited else None)
        self._context.update_network(own_port=contact)
        return contact is not None and contact.outcome in SHUT

    async def _call(self, command: Command) -> None:
        """Connect to the host of the ranks' store as they will: by its name, and to any port of it."""
        if not command.announced:
            return
        lookup = await names.resolve(command.announced)
        self._context.update_network(rendezvous_name=lookup)
        port = next((target.port for target in command.targets if target.member == command.announcer), None)
        if port is None or command.announcer == self._number:
            return
        for address in [text for text in lookup.addresses if parse_address(text) and not reaches_no_other(text)][
            :CALLED
        ]:
            contact = await connect(address, port)
            self._context.update_network(rendezvous_contact=contact)
            if contact.outcome == "open":
                return

    def close(self) -> None:
        """Stop listening."""
        if self._listener is not None:
            self._listener.close()


def limited_addresses(participants: Iterable[Participant]) -> tuple[str, ...]:
    """Return the addresses at which a node limits new connections per time.

    Its own rules say so; or the ranks had to retransmit SYNs to it for the store, as where its rules cannot be read.
    """
    everyone = list(participants)
    ranks = sum(member.facts.plan.nproc_per_node or 1 for member in everyone)
    repeated = Counter[str]()
    for late in (late for member in everyone if member.facts.network for late in member.facts.network.late_connections):
        repeated[late.address] += late.repeated
    limited: dict[str, None] = {}
    for member in everyone:
        addresses = {address for _, address in addresses_of(member.facts, nccl=True)}
        if any(repeated[address] >= REPEATED for address in addresses) or seconds_to_pass(member, ranks) != 0:
            limited |= dict.fromkeys(sorted(addresses))
    return tuple(limited)


def seconds_to_pass(member: Participant, ranks: int) -> float | None:
    """Return the most seconds for which a rule of this node delays the connections of a job with so many ranks; 0
    without such a rule, None if none of them shows its rate."""
    network, local = member.facts.network, member.facts.plan.nproc_per_node or 1
    chains = network.firewall.chains if network is not None and network.firewall is not None else ()
    rules = [rule for chain in chains if chain.hook == "input" for rule in chain.by_rate]
    seconds = [start_seconds(rule, ranks, local) for rule in rules]
    return max((each for each in seconds if each is not None), default=None if rules else 0.0)


def joined_late(participants: Iterable[Participant]) -> bool:
    """Return whether a node repeated the SYN of the connection by which it joined."""
    contacts = (one.facts.network.contact for one in participants if one.facts.network)
    return any(contact is not None and contact.seconds >= SYN_AGAIN for contact in contacts)


def targets(participants: Iterable[Participant], *, nccl: bool) -> Iterator[LinkTarget]:
    """Yield every node's addresses that its peers would use, each once; with ``nccl`` also those that NCCL would."""
    everyone = list(participants)
    one_host = len({member.facts.identity.host for member in everyone}) == 1
    for member in everyone:
        if member.mesh_port is None:
            continue
        uses: dict[str, list[str]] = {}
        for use, address in addresses_of(member.facts, nccl=nccl):
            if not reaches_no_other(address) or (one_host and is_loopback(address)):
                uses.setdefault(address, []).append(use)
        for address, use_of in uses.items():
            yield LinkTarget(member.number, member.facts.key, address, member.mesh_port, tuple(use_of))
