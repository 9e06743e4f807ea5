"""Look-ups of names with a time limit, and the content of /etc/hosts."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable

from distdoctor.model.addresses import is_loopback
from distdoctor.model.facts import HostsLine, Resolution
from distdoctor.probes.network.interfaces import loopback_down
from distdoctor.probes.resolver import ASKER, Question, Reply

RESOLVE_SECONDS = 4.0
"""Limit of one look-up. A DNS server that drops packets costs 5 to 10 s by resolv.conf's defaults."""
DEAF_SECONDS = 2.0
"""Limit if no name server can answer: all of them are this host itself, and its loopback interface is down."""
SLOW_SECONDS = 0.5
"""Seconds after which a look-up is repeated, with one second for each name server: if the first of them never answers
and the next one does, the name has an address, however long it takes."""


async def resolve(name: str, seconds: float | None = None) -> Resolution:
    """Return getaddrinfo(name) as gloo calls it: any family, stream sockets, addresses in order."""
    return await _look_up("addresses", name, seconds)


async def resolve_store(name: str) -> Resolution:
    """Return the addresses of a store's host, as a TCPStore's client asks for them."""
    return await _look_up("of_store", name, None)


async def reverse(address: str, seconds: float | None = None) -> Resolution:
    """Return the name of ``address``, as a TCPStore client asks for it; ``addresses`` holds the name."""
    return await _look_up("name", address, seconds)


async def announced(hostname: str, seconds: float | None = None) -> Resolution:
    """Return torchrun's name of this host (getfqdn()), with its addresses here; an error for none."""
    lookup = await _look_up("announced", hostname, seconds)
    if not lookup.addresses:
        return lookup
    called, *addresses = lookup.addresses
    error = None if addresses else "no address"
    return Resolution(called, tuple(addresses), error, lookup.seconds, lookup.timed_out)


async def _look_up(what: Question, of: str, seconds: float | None) -> Resolution:
    """Return one look-up within ``seconds`` or its limit; without an answer, the one of name servers that answer within
    a second."""
    seconds = patience() if seconds is None else seconds
    started = time.monotonic()
    first = asyncio.ensure_future(ASKER.ask(what, of, seconds))
    again: asyncio.Future[Reply] | None = None
    try:
        await asyncio.wait([first], timeout=min(SLOW_SECONDS, seconds))
        if not first.done():
            again = asyncio.ensure_future(ASKER.ask(what, of, seconds, hurry=True))
        reply = await first
    finally:
        for question in (first, again):
            if question is not None and not question.done():
                question.cancel()
    spent = time.monotonic() - started
    if not reply.timed_out:
        return Resolution(of, reply.found, reply.error, spent if reply.seconds is None else reply.seconds)
    addresses = again.result().found if again is not None and again.done() else ()
    return Resolution(of, addresses, None if addresses else f"no answer within {seconds:g} s", spent, timed_out=True)


def patience(path: str = "/etc/resolv.conf") -> float:
    """Return the limit of one look-up, in seconds.

    Packets to this host itself are dropped without an error while its loopback interface is down (Linux 6.18), and
    without a line for a name server it asks itself (resolv.conf(5)).
    """
    rows = [line.split() for _, line in _lines(path)]
    servers = [row[1] for row in rows if len(row) > 1 and row[0] == "nameserver"]
    return DEAF_SECONDS if all(map(is_loopback, servers)) and loopback_down() else RESOLVE_SECONDS


def hosts_lines(wanted: Callable[[list[str]], bool], path: str = "/etc/hosts") -> tuple[HostsLine, ...]:
    """Return the lines of /etc/hosts whose fields (address, names...) are ``wanted``; at most 20."""
    lines = []
    for number, text in _lines(path):
        entry = text.partition("#")[0].strip()
        fields = entry.split()
        if len(fields) > 1 and wanted(fields):
            lines.append(HostsLine(number, entry[:200]))
    return tuple(lines[:20])


def closed(path: str = "/etc/hosts") -> bool:
    """Return whether the file exists, and this user may not read it."""
    try:
        with open(path):
            return False
    except PermissionError:
        return True
    except OSError:
        return False


def name_in_hosts(address: str, path: str = "/etc/hosts") -> str | None:
    """Return the name of ``address`` in /etc/hosts: the first name of its first line, or None."""
    lines = hosts_lines(lambda fields: fields[0] == address, path)
    return lines[0].text.split()[1] if lines else None


def _lines(path: str) -> list[tuple[int, str]]:
    try:
        with open(path, errors="replace") as file:
            return list(enumerate(file.read(4 << 20).splitlines(), 1))
    except OSError:
        return []


def sources(path: str = "/etc/nsswitch.conf") -> tuple[str, ...] | None:
    """Return the C library's sources of host look-ups, in order (nsswitch.conf(5)), without its actions on results;
    None if unreadable."""
    for _, line in _lines(path):
        database, colon, rest = line.partition("#")[0].partition(":")
        if colon and database.strip() == "hosts":
            return tuple(re.sub(r"\[[^]]*\]", " ", rest).split())
    return None
