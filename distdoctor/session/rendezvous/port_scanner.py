"""Search for the store of this run on other ports of the master's host, if nothing listens on MASTER_PORT.

A few ports are asked: the usual ones, MASTER_PORT's neighbours, those of this node's other variables and of a
scheduler's rule, and the one that node 0 of the same launch gives out in its notice. This run's store on another port
is reported, and node 0 learns whom it waits for in vain; it is not joined.
"""

from __future__ import annotations

import asyncio
import os
import re
import time

from distdoctor.model.facts import BadFacts, Contact, StoreOnOtherPort, encode
from distdoctor.model.launch_settings import MASTER_PORT, RDZV_ENDPOINT
from distdoctor.model.launch_variables import PBS_JOB, SLURM_JOB
from distdoctor.plan.notice import Notice, notice_of
from distdoctor.probes.network.tcp import connect
from distdoctor.probes.resolver import ASKER
from distdoctor.session.context import RunContext
from distdoctor.session.leader.notice import read_notice
from distdoctor.session.protocol.messages import Marker, RunKeys, read_marker
from distdoctor.session.protocol.trust import NotAuthentic, NotSealed, Seal
from distdoctor.store.client import Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

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
