"""Network stage: everything between this process and the others, up to the joined store on MASTER_PORT."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import replace

from distdoctor.model.plan import Plan
from distdoctor.probes.host import processes
from distdoctor.probes.host.processes import in_time
from distdoctor.probes.network import firewall, ports, routing
from distdoctor.probes.network.tcp import connect
from distdoctor.session.context import RunContext
from distdoctor.session.protocol.trust import Seal
from distdoctor.session.rendezvous.failure import contact_words, join_failure_text, lacks_torch
from distdoctor.session.rendezvous.join import POD, RETRY_SECONDS, JoinedStore, Rendezvous
from distdoctor.session.rendezvous.lookup import MasterLookup
from distdoctor.session.rendezvous.store_host import StoreHost
from distdoctor.session.stages.local import Ended

LOOK_SECONDS = 10.0
"""Limit of reading all processes' command lines and the packet filter's rules. What takes longer is unknown."""


class NetworkStage:
    """This process's connection to the others."""

    def __init__(self, context: RunContext, lookup: MasterLookup) -> None:
        self._context, self._lookup = context, lookup
        self.store: JoinedStore | None = None
        """Store that was joined."""

    async def join(self, rendezvous: Rendezvous) -> Ended:
        """Collect the network facts of this host, and join the store of this run."""
        await self._look()
        backwards = asyncio.ensure_future(self._lookup.resolve_backwards())
        self.store = await rendezvous.join()
        await backwards
        if self.store is not None:
            return "ok", f"{self.store.address} port {self.store.port}"
        facts = self._context.facts
        return "skipped" if lacks_torch(facts) else "failed", join_failure_text(facts)

    async def look_only(self) -> Ended:
        """Collect the network facts without hosting a store, if no later stage runs: a port without a listener is no
        fault yet."""
        await self._look()
        if POD in os.environ:
            await self._await_name()
        plan = self._context.plan
        await self._try_port(plan)
        facts = self._context.facts
        seen = facts.network
        if seen is not None and seen.bind is not None:
            return "failed", join_failure_text(facts)
        if seen is None or seen.master is None or not seen.master.addresses:
            return "failed", join_failure_text(facts)
        if not seen.master_is_own or plan.rank or plan.node_rank:
            contact = await connect(seen.master.addresses[0], plan.master_port)
            self._context.update_network(refused_before=contact.outcome == "refused")
            if not seen.master_is_own and contact.outcome not in ("open", "refused"):
                self._context.update_network(contact=contact)
                return "failed", contact_words(contact)
        return "ok", ""

    async def _await_name(self) -> None:
        """Wait up to ``--wait`` for MASTER_ADDR to resolve: the record of another pod may appear after this one has
        started."""
        context, began = self._context, time.monotonic()
        while not self._has_address() and context.plan.master_addr and time.monotonic() - began < context.clock.wait:
            context.observer.waits("waiting for an address of MASTER_ADDR", context.clock.wait)
            await asyncio.sleep(RETRY_SECONDS)
            await self._lookup.resolve()
            if self._has_address():
                self._context.update_network(resolved_after=round(time.monotonic() - began, 2))

    def _has_address(self) -> bool:
        seen = self._context.facts.network
        return seen is not None and seen.master is not None and bool(seen.master.addresses)

    async def _try_port(self, plan: Plan) -> None:
        """Note whether another process has the port of node 0, if this is to be node 0: a fault all the same."""
        seen = self._context.facts.network
        opens = plan.opens_store or plan.may_open_store(seen.master_is_own if seen is not None else None)
        if opens and plan.master_addr is not None and plan.master_port and plan.rdzv_backend in ("static", "c10d"):
            await StoreHost(self._context, None, Seal(self._context.options.token)).try_port()

    async def _look(self) -> None:
        await asyncio.gather(self._lookup.resolve(), self._look_around())

    async def _look_around(self) -> None:
        """Note this host's packet filter, and what an earlier run left behind."""
        context = self._context
        port = context.plan.master_port
        host = context.facts.host
        picked = host.limits.port_range if host is not None and host.limits is not None else None
        cards = (
            [card.name for card in host.interfaces if card.up and not card.loopback and card.addresses] if host else []
        )
        only = cards[0] if len(cards) == 1 else None
        servers = asyncio.gather(*(ports.reached(server.host, server.port) for server in context.plan.servers))
        rules, left, taken, asked = await asyncio.gather(
            in_time(lambda: firewall.firewall(port, picked, only), LOOK_SECONDS),
            in_time(lambda: processes.probe_leftovers(port), LOOK_SECONDS),
            in_time(lambda: ports.taken([entry.port for entry in context.plan.ports]), LOOK_SECONDS),
            servers,
        )
        context.update_network(
            engine_binds=taken or (),
            engine_servers=tuple(asked),
            firewall=rules,
            routes=routing.routing_table(),
            policy=routing.routing_rules(),
            strict=routing.strict(),
        )
        if context.facts.host is not None and left is not None:
            context.update(host=replace(context.facts.host, leftovers=left))
