"""What a job tells of itself where it has something to ask: its worker servers and NCCL's RAS. Nothing is turned on."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distdoctor.inspection import debug_endpoints, namespaces, ras
from distdoctor.inspection.jobs import Found
from distdoctor.launch.address_syntax import split_endpoint
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import JobProcess, RasView, StoreView, WorkerServer

VARIABLE = "NCCL_RAS_ADDR"


def ask(
    found: Found, views: Iterable[StoreView], processes: Iterable[JobProcess], *, timeout: float, host: str
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


def by_ras(processes: Iterable[JobProcess], *, timeout: float) -> RasView | None:
    """What RAS tells; None where no process of the job listens for those who ask it."""
    for one in processes:
        _, port = split_endpoint(one.variables.get(VARIABLE, ""))
        listening = (s for s in one.sockets or () if s.state == "LISTEN" and s.local_port == (port or ras.PORT))
        for found in listening:
            parsed = parse_address(found.local)
            anywhere = parsed is not None and parsed.is_unspecified
            return ras.ask("127.0.0.1" if anywhere else found.local, found.local_port, timeout=timeout)
    return None
