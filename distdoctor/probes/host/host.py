"""Host facts: interfaces, the resolved hostname, and the address that gloo will pick."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping, Sequence

from distdoctor.knowledge import gloo, nccl
from distdoctor.model.facts import HostFacts, Interface
from distdoctor.probes.host import limits
from distdoctor.probes.network.interfaces import can_bind, hidden, interfaces, owned
from distdoctor.probes.network.names import announced, closed, hosts_lines, resolve, sources
from distdoctor.probes.network.tcp import connect

REACHED_SECONDS = 1.5


async def probe(
    hostname: str, variables: Mapping[str, str], announced_by_name: bool = False, local_addr: str = ""
) -> HostFacts:
    """Return this host's facts.

    ``announced_by_name``: the job's ranks look up their store by this hostname; ``local_addr``: or by torchrun's name
    for it.
    """
    ours = interfaces()
    own_name, called = await asyncio.gather(
        resolve(hostname), resolve(local_addr) if local_addr else announced(hostname)
    )
    first_label = hostname.partition(".")[0]
    lines = hosts_lines(lambda fields: hostname in fields[1:] or first_label in fields[1:])
    return HostFacts(
        own_name,
        ours,
        lines,
        gloo.predict(variables, own_name, ours, can_bind),
        nccl.predict(variables, ours),
        limits.probe_limits(),
        gloo_more=gloo.further_addresses(variables, ours),
        announced=called,
        announced_reached=await _reached(called.addresses, ours) if announced_by_name else None,
        name_sources=sources(),
        hosts_file_closed=closed(),
        sysctls=limits.probe_sysctls(),
        interfaces_hidden=hidden(),
    )


async def _reached(addresses: Sequence[str], ours: Sequence[Interface]) -> bool | None:
    """Return whether a connection to this host by these addresses works; None without any, or if one is its own."""
    if not addresses or any(owned(address, ours) for address in addresses):
        return None
    try:
        listener = socket.create_server(("", 0))
    except OSError:
        return None
    with listener:
        tried = [await connect(address, listener.getsockname()[1], REACHED_SECONDS) for address in addresses[:2]]
    return any(contact.outcome == "open" for contact in tried)
