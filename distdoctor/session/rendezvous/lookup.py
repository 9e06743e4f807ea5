"""Look-up of MASTER_ADDR, and the route to its address."""

from __future__ import annotations

import asyncio

from distdoctor.knowledge.network import is_bridge
from distdoctor.model.addresses import parse_address, reaches_no_other
from distdoctor.model.facts import AddressChoice, NodeFacts, Resolution, Route
from distdoctor.probes.network import interfaces, names
from distdoctor.session.context import RunContext

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
