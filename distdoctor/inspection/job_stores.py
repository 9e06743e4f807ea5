"""The stores of a job that was found here: where they are, what is known of them already, and what they tell."""

from __future__ import annotations

import os
import platform
from dataclasses import replace
from functools import partial
from typing import TypedDict

from distdoctor.inspection import namespaces, proc_files, store_view
from distdoctor.inspection.jobs import Found
from distdoctor.launch.address_syntax import split_endpoint
from distdoctor.launch.nodes import number_of
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import StoreView
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, WORLD_SIZE
from distdoctor.model.launch_variables import AGENT_STORE
from distdoctor.model.plan import DEFAULT_PORT

_ARP_COMPLETE = 0x02
"""ATF_COM in include/uapi/linux/if_arp.h."""
STORE_SECONDS = 1.4
"""How long the stores are asked at most, meanwhile."""
CROWDED_SECONDS = 4.0
"""The same on a host that has more to run than it has processors: there an answer, or its reading, may have to wait."""


MAX_WORLD = 1_000_000
"""As many ranks as a job may be said to have before it is taken for a mistake: their keys are asked for one by one."""


class _Known(TypedDict):
    expected_world: int | None
    run_id: str
    hosted_by: store_view.HostedBy


def ask(found: Found, given: str | None) -> tuple[tuple[StoreView, ...], list[str]]:
    """What the stores hold, and why nothing is known of them. ``given``: ``HOST:PORT`` of the one that is meant."""
    place = place_of(found, given)
    if place is None:
        return (), []
    if found.netns and not given and found.netns != proc_files.link("self", "ns/net"):
        return _elsewhere(found, place)
    hosts = [found.variable(MASTER_ADDR.variables[0]), platform.node()]
    # With c10d the ranks meet at another store than their agents (rendezvous.py, ``_create_c10d_store``).
    told = found.variable(AGENT_STORE)
    followed: store_view.HostedBy = "agent" if told == "True" else "rank 0" if told == "False" else ""
    ask_one = partial(store_view.views, timeout=patience(), hosts=hosts, followed_by=followed, **_known(found))
    views = ask_one(*place)
    seen = None if given or any(view.known for view in views) else found.seen_store()
    if seen is not None and seen[1] != place[1] and found.serves():  # the job's own code made another
        views = (*views, *ask_one(*seen))
    return tuple(map(_unreachable, views)), []


def patience() -> float:
    """Seconds that the stores may take."""
    crowded = os.getloadavg()[0] > (os.cpu_count() or 1)
    return CROWDED_SECONDS if crowded else STORE_SECONDS


def _known(found: Found) -> _Known:
    """What is known of the job, whatever its store holds."""
    said = (number_of(one.variables.get(WORLD_SIZE.variables[0])) for one in found.ranks)
    worlds = [number for number in said if number is not None and number <= MAX_WORLD]
    by_agent = found.variable(AGENT_STORE) == "True" or found.options is not None
    return {
        "expected_world": max(worlds, key=worlds.count) if worlds else None,
        "run_id": found.run_id or "none",
        "hosted_by": "agent" if by_agent else "rank 0" if found.ranks else "",
    }


def _elsewhere(found: Found, place: tuple[str, int]) -> tuple[tuple[StoreView, ...], list[str]]:
    """The same for a job in another network namespace: asked from in there, by addresses that are known in there."""
    pid, seen = min(found.members), found.seen_store()
    own = _by_variables(found)
    places = dict.fromkeys([place, *([own] if own else [])])
    views, notes = [], []
    for host, number in places:
        there = seen[0] if seen and seen[1] == number else ""
        address = host if parse_address(host) else namespaces.address_there(pid, host) or there
        if not address:
            notes.append(f"the store at {host} port {number} was not asked: the name is one of its network namespace")
            continue
        try:
            with namespaces.inside(pid):
                found_there = store_view.view(address, number, timeout=patience() / len(places), **_known(found))
        except OSError as err:
            why = f"which cannot be entered ({err.strerror}): run this inside it, or as root"
            return (), [f"its store was not asked: its processes are in another network namespace, {why}"]
        views.append(replace(found_there, host=host))
    return tuple(views), notes


def _unreachable(view: StoreView) -> StoreView:
    """The view, where nobody answered the kernel's question who has the address: it asks longer than we wait."""
    contact = view.contact
    if contact is None or contact.outcome != "no-answer":
        return view
    rows = (row.split() for row in (proc_files.text("self", "net/arp") or "").splitlines()[1:])
    silent = {row[0] for row in rows if len(row) > 3 and int(row[2], 16) & _ARP_COMPLETE == 0}
    return replace(view, contact=replace(contact, outcome="unreachable")) if contact.address in silent else view


def place_of(found: Found, given: str | None = None) -> tuple[str, int] | None:
    """Where the job's ranks, or its agents, meet; None where that is not said, or with a port that is none."""
    place = _place_of(found, given)
    return place if place is not None and 0 < place[1] <= 65535 else None


def _by_variables(found: Found) -> tuple[str, int] | None:
    address, port = found.variable(MASTER_ADDR.variables[0]), number_of(found.variable(MASTER_PORT.variables[0]))
    return (address, port) if address and port is not None and 0 < port <= 65535 else None


def _place_of(found: Found, given: str | None) -> tuple[str, int] | None:
    if given:
        host, port = split_endpoint(given)
        return host, port if port is not None else DEFAULT_PORT
    if found.options is not None and found.options.rdzv_backend == "c10d" and found.options.endpoint:
        return found.options.endpoint
    if own := _by_variables(found):
        return own
    if found.options is not None and found.options.endpoint:
        return found.options.endpoint
    return found.seen_store()
