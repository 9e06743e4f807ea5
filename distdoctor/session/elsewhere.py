"""Looking for the store of this run on another port of the master's host, where nothing listens on MASTER_PORT.

A handful of ports is asked: the usual ones, MASTER_PORT's neighbours, those of this node's other variables and of a
scheduler's rule, and the one that node 0 of the same launch names in its notice. One that is another port's store and
this run's is told of, and tells node 0 whom it waits for in vain; it is not joined.
"""

from __future__ import annotations

import asyncio
import os
import re
import time

from distdoctor.launch.notice import Notice, notice_of
from distdoctor.model.facts import BadFacts, Contact, Elsewhere, encode
from distdoctor.model.launch_settings import MASTER_PORT, RDZV_ENDPOINT
from distdoctor.model.launch_variables import PBS_JOB, SLURM_JOB
from distdoctor.probes.connect import connect
from distdoctor.probes.look_up import ASKER
from distdoctor.session.notice import read_notice
from distdoctor.session.protocol import Keys, Marker, read_marker
from distdoctor.session.recorder import Recorder
from distdoctor.session.seal import NotAuthentic, NotSealed, Seal
from distdoctor.store.client import Oversize, StoreClient, StoreError
from distdoctor.store.identify import identify

USUAL = (29500, 29400, 12355, 23456)
"""torch's and torchrun's, that of --rdzv-endpoint, and those of PyTorch's tutorials."""
REFUSED_SECONDS = 2.0
"""How long MASTER_PORT has refused before others are asked: node 0 may be about to start."""
AGAIN_SECONDS = 2.0
CONNECT_SECONDS = 1.0
MOST = 10


def candidates(port: int, environ: dict[str, str]) -> tuple[int, ...]:
    """The ports to ask, without ``port`` itself."""
    found = [environ.get(name, "") for name in MASTER_PORT.all_variables]
    endpoint = environ.get(RDZV_ENDPOINT.pet or "", "")
    found.append(endpoint.rpartition(":")[2])
    numbers = [int(text) for text in found if text.isdigit() and len(text) < 6]
    job = re.match(r"\d+", environ.get(SLURM_JOB, "") or environ.get(PBS_JOB, ""))
    if job is not None:
        # 10000 or 15000 (Lightning) and the last four digits of the job's number.
        numbers += [10000 + int(job[0][-4:]), 15000 + int(job[0][-4:])]
    return tuple(dict.fromkeys(n for n in (*numbers, *USUAL, port + 1, port - 1) if 0 < n < 65536 and n != port))[:MOST]


class StoreElsewhere:
    """Asks, at most every few seconds, until it has found one."""

    def __init__(self, recorder: Recorder, seal: Seal) -> None:
        self._recorder, self._seal = recorder, seal
        self._refused: float | None = None
        self._asked = 0.0
        self._notice: Notice | None = notice_of(os.environ)
        self._told: tuple[Contact, str] | None = None
        """The store that was told, and under which key."""

    async def look(self, contact: Contact | None) -> None:
        """After an attempt on MASTER_PORT that ended as ``contact`` says."""
        now = time.monotonic()
        if contact is None or contact.outcome != "refused":
            self._refused = None
            self._recorder.update_network(elsewhere=None)
            return
        self._refused = self._refused or now
        if self._told or now - self._refused < REFUSED_SECONDS or now - self._asked < AGAIN_SECONDS:
            return
        self._asked = now
        ports = candidates(self._recorder.options.plan.master_port, dict(os.environ))
        places = [*await self._noticed(contact.address), *((contact.address, port) for port in ports)]
        attempts = await asyncio.gather(*(connect(*place, CONNECT_SECONDS) for place in places))
        for attempt in attempts:
            if attempt.outcome == "open" and await self._ask(attempt):
                return

    async def _noticed(self, address: str) -> list[tuple[str, int]]:
        """Return the places that node 0 of this launch names: asked at ``address`` and at the launcher's first host."""
        notice = self._notice
        if notice is None:
            return []
        others = (await ASKER.ask("addresses", notice.first, CONNECT_SECONDS)).found if notice.first else ()
        hosts = list(dict.fromkeys((address, *others)))[:MOST]
        ports = await asyncio.gather(*(read_notice(host, notice) for host in hosts))
        return [(host, port) for host, port in zip(hosts, ports, strict=True) if port is not None]

    async def _ask(self, contact: Contact) -> bool:
        """Whether a store of this run is there; it is noted, and node 0 is told."""
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
            found = Elsewhere(contact.address, contact.port, marker.host, marker.plan)
            self._recorder.update_network(elsewhere=found)
            self._told = contact, await self._tell(client, marker)
            return True
        except (StoreError, Oversize, BadFacts, NotSealed, NotAuthentic):
            return False
        finally:
            if client is not None:
                client.close()

    async def _lacks_one(self, client: StoreClient, marker: Marker) -> bool:
        """Whether it is for a job of as many nodes (ranks), not all of which have come."""
        ours, theirs = self._recorder.options.plan, marker.plan
        assert theirs is not None
        ranks = theirs.started == "rank"
        expected = theirs.world_size if ranks else theirs.nnodes
        if theirs.started != ours.started or expected != (ours.world_size if ranks else ours.nnodes):
            return False
        came = await client.get(Keys(marker.run).members)
        others = int(came) if came is not None and came.isdigit() and len(came) < 8 else 0
        return expected is not None and 1 + others < expected

    async def withdraw(self) -> None:
        """Its own store came after all: what was told to the other one is taken back."""
        self._recorder.update_network(elsewhere=None)
        if self._told is None:
            return
        (contact, key), self._told = self._told, None
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

    async def _tell(self, client: StoreClient, marker: Marker) -> str:
        keys = Keys(marker.run)
        number = await client.add(keys.astray, 1)
        key = keys.stray(number)
        await client.set(key, self._seal.close(key, encode(self._recorder.facts)))
        await client.has(key)  # an answer: the set before it has arrived
        return key
