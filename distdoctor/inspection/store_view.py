"""A job's store, looked into without changing anything in it.

A connection to a TCPStore counts for nothing: only a client that asks to wait for the others adds to ``init/``
(TCPStore.cpp ``waitForWorkers``). What is asked here are checks, values and names of keys, in the protocol of whatever
generation answers (``distdoctor.store.identify``).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection
from dataclasses import replace
from typing import Literal

from distdoctor.inspection.store_reading import Reading
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.facts import StoreState, StoreView
from distdoctor.model.sanitize import fit
from distdoctor.probes.look_up import ASKER
from distdoctor.store.client import StoreError
from distdoctor.store.identify import identify
from distdoctor.store.read_only import OLD, ReadOnlyStore

HostedBy = Literal["", "rank 0", "agent"]


def view(
    host: str,
    port: int,
    *,
    timeout: float,
    expected_world: int | None = None,
    run_id: str = "none",
    hosted_by: HostedBy = "",
) -> StoreView:
    """What the store at host:port holds, looked at for at most ``timeout`` seconds. Never raises for what a peer does.

    ``expected_world``, ``run_id``, ``hosted_by``: what is known of the job otherwise. ``hosted_by``: ``agent`` where
    TORCHELASTIC_USE_AGENT_STORE is true in its ranks, ``rank 0`` where they were started without torchrun.
    """
    return asyncio.run(_view(host, port, timeout, expected_world, run_id, hosted_by))


def views(
    host: str,
    port: int,
    *,
    timeout: float,
    expected_world: int | None = None,
    run_id: str = "none",
    hosted_by: HostedBy = "",
    hosts: Collection[str] = (),
    followed_by: HostedBy = "",
) -> tuple[StoreView, ...]:
    """The same, and with the c10d rendezvous the store of the ranks that it names, in ``timeout`` seconds together.

    That one is asked only where its host is one of the job's: that of the rendezvous itself, one of its agents', or one
    of ``hosts`` (names or addresses). ``followed_by``: who serves it, where that is known; else it is told by torch's
    generation (an agent since 2.5, rank 0 before).
    """

    async def both() -> tuple[StoreView, ...]:
        end = time.monotonic() + timeout
        first = await _view(host, port, timeout, expected_world, run_id, hosted_by)
        left = max(0.1, end - time.monotonic())
        further = await _follow(first, run_id, hosts, left, expected_world, followed_by)
        return (first, further) if further else (first,)

    return asyncio.run(both())


async def _view(
    host: str, port: int, timeout: float, world: int | None, run_id: str, hosted_by: HostedBy, via: str = ""
) -> StoreView:
    started = time.monotonic()
    blank = StoreView(fit(host), port, expected_world=world, hosted_by=hosted_by, via=via)
    reading = Reading(blank, run_id)
    try:
        # It ends by itself a little before: that nobody answered at all is then known as that.
        await asyncio.wait_for(_read(reading, host, port, started + 0.9 * timeout), timeout)
    except asyncio.TimeoutError:
        reading.problem(f"not all was read within {timeout:g} s")
    seconds = round(time.monotonic() - started, 3)
    return replace(reading.view(), seconds=seconds)


async def _read(reading: Reading, host: str, port: int, end: float) -> None:
    addresses = await _addresses(host, end - time.monotonic())
    if not addresses:
        reading.problem(f"no address of {fit(host)!r} is known here")
    loop = asyncio.get_running_loop()
    loop_end = loop.time() + end - time.monotonic()
    for address in addresses:
        store = ReadOnlyStore(address, port, "", loop_end)
        try:
            contact, answer = await store.greet(patience=(end - time.monotonic()) / 2)
            reading.found = replace(reading.found, contact=contact)
            if answer is None:
                continue
            if answer.kind == "closed" and (answer := await identify(address, port)) is None:
                continue
            if answer.kind != "tcpstore":
                state: StoreState = answer.kind if answer.kind != "distdoctor" else "foreign"
                reading.found = replace(reading.found, state=state, sample=answer.sample)
                continue
            reading.found = replace(reading.found, state="partly", generation=answer.generation or "")
            if reading.found.generation == OLD:
                store = ReadOnlyStore(address, port, OLD, loop_end)
            await reading.read(store)
            return
        except StoreError as err:
            reading.problem(str(err))
        finally:
            store.close()


async def _addresses(host: str, seconds: float) -> tuple[str, ...]:
    if parse_address(host):
        return (host,)
    return (await ASKER.ask("addresses", host, max(0.1, seconds), hurry=True)).found[:4]


async def _follow(
    first: StoreView, run_id: str, hosts: Collection[str], seconds: float, world: int | None, hosted: HostedBy
) -> StoreView | None:
    """The store of the ranks that the newest rendezvous in ``first`` names; of several jobs, that of this one."""
    named = [one for one in first.rendezvous_of(run_id) if one.master]
    if not named:
        return None
    rendezvous = max(named, key=lambda one: len(one.agents))
    host, _, port = rendezvous.master.rpartition(":")
    allowed = {first.host, *hosts, *(agent.host for agent in rendezvous.agents)}
    endpoint = first.contact.address if first.contact else first.host
    blank = StoreView(host, int(port), via=f"{first.host}:{first.port}", agents=first.agents, expected_world=world)
    if host not in allowed:
        return replace(blank, problems=("not asked: its host is none of the job's",))
    addresses = await _addresses(host, seconds / 2)
    # A name may mean this very machine here, and another one to the job.
    usable = [one for one in addresses if is_loopback(endpoint) or not is_loopback(one)]
    target = usable[0] if usable else endpoint
    hosted = hosted or ("agent" if first.generation in ("2.10+", "2.5-2.9") else "rank 0")
    found = await _view(target, int(port), seconds * 0.9, world, rendezvous.run_id, hosted, blank.via)
    problems = found.problems if addresses else (f"{host} is not known here: {target} was asked", *found.problems)
    return replace(found, host=host, agents=first.agents, problems=problems)
