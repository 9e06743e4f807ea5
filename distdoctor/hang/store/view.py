"""View of a job's store, read without changing it.

A connection to a TCPStore counts for nothing: only a client that asks to wait for the others adds to ``init/``
(TCPStore.cpp ``waitForWorkers``). Requested here are checks, values and names of keys, in the protocol of whatever
generation answers (``distdoctor.store.identify``).
"""

from __future__ import annotations

import asyncio
import os
import platform
import time
from collections.abc import Collection, Mapping
from dataclasses import replace
from functools import partial
from typing import Literal, TypedDict

from distdoctor.hang import namespaces, proc
from distdoctor.hang.jobs import LocalJob
from distdoctor.hang.store.reader import StoreReading
from distdoctor.model.addresses import is_loopback, parse_address
from distdoctor.model.facts import StoreState, StoreView
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, WORLD_SIZE
from distdoctor.model.launch_variables import AGENT_STORE
from distdoctor.model.plan import DEFAULT_PORT
from distdoctor.model.text import fit
from distdoctor.plan.syntax import number_of, split_endpoint
from distdoctor.probes.resolver import ASKER
from distdoctor.store.client import StoreError
from distdoctor.store.identify import identify
from distdoctor.store.read_only import OLD, ReadOnlyStore

HostedBy = Literal["", "rank 0", "agent"]


def read_view(
    host: str,
    port: int,
    *,
    timeout: float,
    expected_world: int | None = None,
    run_id: str = "none",
    hosted_by: HostedBy = "",
) -> StoreView:
    """Return the content of the store at host:port, read for at most ``timeout`` seconds.

    Never raises for a peer's behaviour.

    ``expected_world``, ``run_id``, ``hosted_by``: facts about the job from elsewhere. ``hosted_by``: ``agent`` if
    TORCHELASTIC_USE_AGENT_STORE is true in its ranks, ``rank 0`` if they were started without torchrun.
    """
    return asyncio.run(_view(host, port, timeout, expected_world, run_id, hosted_by))


def read_views(
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
    """Return the same, and with the c10d rendezvous the store of the ranks that it names, in ``timeout`` seconds
    together.

    That store is read only if its host is one of the job's: that of the rendezvous itself, one of its agents', or one
    of ``hosts`` (names or addresses). ``followed_by``: the process that serves it, if known; else it follows from
    torch's generation (an agent since 2.5, rank 0 before).
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
    reading = StoreReading(blank, run_id)
    try:
        # The reading ends a little before that by itself: "nobody answered at all" is then known.
        await asyncio.wait_for(_read(reading, host, port, started + 0.9 * timeout), timeout)
    except asyncio.TimeoutError:
        reading.problem(f"not all was read within {timeout:g} s")
    seconds = round(time.monotonic() - started, 3)
    return replace(reading.view(), seconds=seconds)


async def _read(reading: StoreReading, host: str, port: int, end: float) -> None:
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
    """Return the store of the ranks in the newest rendezvous of ``first``; with several jobs, of this one."""
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
    # A name may mean this machine here, and another one to the job.
    usable = [one for one in addresses if is_loopback(endpoint) or not is_loopback(one)]
    target = usable[0] if usable else endpoint
    hosted = hosted or ("agent" if first.generation in ("2.10+", "2.5-2.9") else "rank 0")
    found = await _view(target, int(port), seconds * 0.9, world, rendezvous.run_id, hosted, blank.via)
    problems = found.problems if addresses else (f"{host} is not known here: {target} was asked", *found.problems)
    return replace(found, host=host, agents=first.agents, problems=problems)


# Stores of a job that runs here: addresses, known facts, and answers.


_ARP_COMPLETE = 0x02
"""ATF_COM in include/uapi/linux/if_arp.h."""
STORE_SECONDS = 1.4
"""Most seconds for the stores, between the looks."""
CROWDED_SECONDS = 4.0
"""The same on a host with more runnable processes than processors: an answer, or its reading, may have to wait."""


MAX_WORLD = 1_000_000
"""Largest plausible number of ranks: their keys are requested one by one."""


class _Known(TypedDict):
    expected_world: int | None
    run_id: str
    hosted_by: HostedBy


def ask_stores(found: LocalJob, given: str | None) -> tuple[tuple[StoreView, ...], list[str]]:
    """Return the content of the stores, and the reasons if nothing is known of them.

    ``given``: ``HOST:PORT`` of the wanted one.
    """
    place = store_address(found, given)
    if place is None:
        return (), []
    if found.netns and not given and found.netns != proc.read_link("self", "ns/net"):
        return _in_other_namespace(found, place)
    hosts = [found.variable(MASTER_ADDR.variables[0]), platform.node()]
    # With c10d the ranks use another store than their agents (rendezvous.py, ``_create_c10d_store``).
    setting = found.variable(AGENT_STORE)
    followed: HostedBy = "agent" if setting == "True" else "rank 0" if setting == "False" else ""
    ask_one = partial(read_views, timeout=patience(), hosts=hosts, followed_by=followed, **_known(found))
    views = ask_one(*place)
    by_sockets = None if given or any(view.known for view in views) else found.store_of_sockets()
    if by_sockets is not None and by_sockets[1] != place[1] and found.serves():  # the job's own code made another
        views = (*views, *ask_one(*by_sockets))
    return tuple(map(_unreachable, views)), []


MOST_FURTHER, FURTHER_SECONDS = 8, 0.5
"""Most further stores that are read, and seconds for each: all are on this host."""


def served_ports(found: LocalJob) -> dict[int, int]:
    """Return the ports of the stores that processes of the job serve -> those processes.

    The store's thread waits at the port, so none is connected to find it.
    """
    tables, ports = proc.SocketTables(), dict[int, int]()
    for pid, (_, role) in found.members.items():
        for tid, name in proc.thread_names(pid).items() if role != "child" else ():
            call = proc.blocked_call(pid, tid) if name.startswith(proc.STORE) else ()
            if call and (port := proc.port_served(pid, call, tables)):
                ports.setdefault(port, pid)
    return ports


def further_stores(found: LocalJob, views: Collection[StoreView], ports: Mapping[int, int]) -> tuple[StoreView, ...]:
    """Return the content of the stores at these ports of this host that are not among ``views``."""
    asked = {view.port for view in views}
    wanted = [port for port in sorted(ports) if port not in asked][:MOST_FURTHER]
    try:
        with namespaces.of(found.members, found.netns):
            read = [read_view("localhost", port, timeout=FURTHER_SECONDS) for port in wanted]
    except OSError:
        return ()
    return tuple(replace(view, served_by=ports[view.port]) for view in read)


def patience() -> float:
    """Return the most seconds for the stores."""
    crowded = os.getloadavg()[0] > (os.cpu_count() or 1)
    return CROWDED_SECONDS if crowded else STORE_SECONDS


def _known(found: LocalJob) -> _Known:
    """Return the facts about the job from its processes."""
    sizes = (number_of(one.variables.get(WORLD_SIZE.variables[0])) for one in found.ranks)
    worlds = [number for number in sizes if number is not None and number <= MAX_WORLD]
    by_agent = found.variable(AGENT_STORE) == "True" or found.options is not None
    return {
        "expected_world": max(worlds, key=worlds.count) if worlds else None,
        "run_id": found.run_id or "none",
        "hosted_by": "agent" if by_agent else "rank 0" if found.ranks else "",
    }


def _in_other_namespace(found: LocalJob, place: tuple[str, int]) -> tuple[tuple[StoreView, ...], list[str]]:
    """Return the same for a job in another network namespace: read from inside it, by its names and addresses."""
    pid, by_sockets = min(found.members), found.store_of_sockets()
    own = _by_variables(found)
    places = dict.fromkeys([place, *([own] if own else [])])
    views, notes = [], []
    for host, number in places:
        there = by_sockets[0] if by_sockets and by_sockets[1] == number else ""
        address = host if parse_address(host) else namespaces.address_in_namespace(pid, host) or there
        if not address:
            notes.append(f"the store at {host} port {number} was not asked: the name is one of its network namespace")
            continue
        try:
            with namespaces.inside(pid):
                found_there = read_view(address, number, timeout=patience() / len(places), **_known(found))
        except OSError as err:
            why = f"which cannot be entered ({err.strerror}): run this inside it, or as root"
            return (), [f"its store was not asked: its processes are in another network namespace, {why}"]
        views.append(replace(found_there, host=host))
    return tuple(views), notes


def _unreachable(view: StoreView) -> StoreView:
    """Return the view, corrected if nobody answered ARP for the address: the kernel asks longer than we wait."""
    contact = view.contact
    if contact is None or contact.outcome != "no-answer":
        return view
    rows = (row.split() for row in (proc.read_text("self", "net/arp") or "").splitlines()[1:])
    silent = {row[0] for row in rows if len(row) > 3 and int(row[2], 16) & _ARP_COMPLETE == 0}
    return replace(view, contact=replace(contact, outcome="unreachable")) if contact.address in silent else view


def store_address(found: LocalJob, given: str | None = None) -> tuple[str, int] | None:
    """Return the address where the job's ranks, or its agents, join; None if unset, or with an invalid port."""
    place = _place_of(found, given)
    return place if place is not None and 0 < place[1] <= 65535 else None


def _by_variables(found: LocalJob) -> tuple[str, int] | None:
    address, port = found.variable(MASTER_ADDR.variables[0]), number_of(found.variable(MASTER_PORT.variables[0]))
    return (address, port) if address and port is not None and 0 < port <= 65535 else None


def _place_of(found: LocalJob, given: str | None) -> tuple[str, int] | None:
    if given:
        host, port = split_endpoint(given)
        return host, port if port is not None else DEFAULT_PORT
    if found.options is not None and found.options.rdzv_backend == "c10d" and found.options.endpoint:
        return found.options.endpoint
    if own := _by_variables(found):
        return own
    if found.options is not None and found.options.endpoint:
        return found.options.endpoint
    return found.store_of_sockets()
