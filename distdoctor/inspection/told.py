"""What a job tells of itself where it has something to ask: its worker servers and NCCL's RAS. Nothing is turned on."""

from __future__ import annotations

import re
import time
from collections.abc import Collection, Iterable, Sequence

from distdoctor.inspection import debug_endpoints, namespaces, ras
from distdoctor.inspection.jobs import Found
from distdoctor.launch.address_syntax import split_endpoint
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import JobProcess, RasView, StoreView, WorkerServer

VARIABLE = "NCCL_RAS_ADDR"
_TRIES = 8
"""How often it is asked again where another job answers."""
_NAMED = re.compile(r"[Pp]rocess (\d{1,10}) on node ")


def ask(
    found: Found, views: Iterable[StoreView], processes: Sequence[JobProcess], *, timeout: float, host: str
) -> tuple[tuple[WorkerServer, ...], RasView | None]:
    """What both tell, asked where the job is: on loopback of another network namespace somebody else may listen."""
    try:
        with namespaces.of(found.members, found.netns):
            return by_servers(views, timeout=timeout, hosts=[host]), by_ras(processes, timeout=timeout)
    except OSError:
        return (), None  # it cannot be entered, which is said of the store


def by_servers(views: Iterable[StoreView], *, timeout: float, hosts: Sequence[str] = ()) -> tuple[WorkerServer, ...]:
    """What the worker servers that a store names tell; none are asked where it names none."""
    named = next((view for view in views if view.debug_servers), None)
    return debug_endpoints.servers(named, timeout=timeout, hosts=hosts) if named else ()


def by_ras(processes: Sequence[JobProcess], *, timeout: float) -> RasView | None:
    """What RAS tells; None where no process of the job listens for those who ask it.

    Ranks of all jobs of a host share its port (SO_REUSEPORT), and the kernel chooses who answers: it is asked again
    where another job did, as far as that is seen.
    """
    pids, until = {one.pid for one in processes}, time.monotonic() + timeout
    view = _by_ras(processes, timeout=timeout)
    for _ in range(_TRIES):
        left = until - time.monotonic()
        if view is None or left <= 0 or not _of_others(view, pids):
            break
        view = _by_ras(processes, timeout=left) or view
    return view


def _of_others(view: RasView, pids: Collection[int]) -> bool:
    """Whether all processes that it names are none of these."""
    named = {int(pid) for said in (*view.errors, *view.warnings) for pid in _NAMED.findall(said)}
    return bool(named) and named.isdisjoint(pids)


def _by_ras(processes: Iterable[JobProcess], *, timeout: float) -> RasView | None:
    for one in processes:
        _, port = split_endpoint(one.variables.get(VARIABLE, ""))
        listening = (s for s in one.sockets or () if s.state == "LISTEN" and s.local_port == (port or ras.PORT))
        for found in listening:
            parsed = parse_address(found.local)
            anywhere = parsed is not None and parsed.is_unspecified
            address = "127.0.0.1" if anywhere else found.local
            return ras.ask(address, found.local_port, timeout=timeout, world=one.world_size)
    return None
