"""Ports of this host: holders, bindable ones, own reachability, and interception on the way to other hosts."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import psutil

from distdoctor.model.addresses import endpoint, parse_address
from distdoctor.model.facts import Bind, Contact, PortHolder, ServerContact
from distdoctor.probes.host.processes import in_time
from distdoctor.probes.network.names import resolve
from distdoctor.probes.network.tcp import connect, open_socket

_OF_A_PROCESS = (psutil.CONN_ESTABLISHED, psutil.CONN_SYN_SENT, psutil.CONN_CLOSE_WAIT)
"""States of a connection that a process has open; one that is only being closed has no process any more."""
HOLDERS = 20
"""Limit of the named processes."""
HOLDERS_SECONDS, MOST_ADDRESSES = 3.0, 2


def holders(port: int) -> tuple[PortHolder, ...]:
    """Return the processes that listen on TCP ``port`` here; without any, those that have it as their own end of a
    connection, which keeps a listener away, too.

    Without root, another user's process has pid None. Empty without a free descriptor to look with.
    """
    listeners, connections = [], []
    try:
        seen = psutil.net_connections(kind="tcp")
    except OSError:
        return ()
    for connection in seen:
        if not connection.laddr or connection.laddr.port != port:
            continue
        if connection.status == psutil.CONN_LISTEN:
            listeners.append(
                replace(_holder(connection.laddr.ip, connection.pid), hosts_store=_hosts_store(connection.pid))
            )
        elif connection.raddr and connection.status in _OF_A_PROCESS:
            peer = endpoint(connection.raddr.ip, connection.raddr.port)
            connections.append(replace(_holder(connection.laddr.ip, connection.pid), peer=peer))
    return tuple(dict.fromkeys(listeners or connections))[:HOLDERS]


def _holder(address: str, pid: int | None) -> PortHolder:
    if pid is None:
        return PortHolder(address)
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            return PortHolder(address, process.pid, process.name(), process.username())
    except psutil.Error:
        return PortHolder(address, pid)


def refused_bind(port: int) -> int:
    """Return the errno with which the kernel keeps a TCPStore from ``port`` of every address; 0 if it is free.

    Bound as torch does (dual-stack, else IPv4; with SO_REUSEADDR, so that connections that are closing do not count),
    and not listened on: no client sees it.
    """
    number = 0
    for family in (socket.AF_INET6, socket.AF_INET):
        try:
            with socket.socket(family) as probe_socket:
                if family == socket.AF_INET6:
                    probe_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe_socket.bind(("", port))
            return 0
        except OSError as err:
            number = err.errno or 0
    return number


def taken(ports: Sequence[int]) -> tuple[Bind, ...]:
    """Return the attempts to bind those of the ports that are refused, with their holders and the next free port."""
    refused = [(port, refused_bind(port)) for port in dict.fromkeys(ports) if port]
    return tuple(
        Bind(False, port, number, os.strerror(number), holders(port), free_port=free_port(port))
        for port, number in refused
        if number
    )


async def reached(host: str, port: int) -> ServerContact:
    """Return the result of a connection to a server, at the first of its addresses that accepts one. Nothing is sent
    there."""
    lookup = None if parse_address(host) else await resolve(host)
    contact = None
    for address in (host,) if lookup is None else lookup.addresses[:MOST_ADDRESSES]:
        contact = await connect(address, port)
        if contact.outcome == "open":
            return ServerContact(host, port, lookup, contact)
    return ServerContact(host, port, lookup, contact, await in_time(lambda: holders(port), HOLDERS_SECONDS) or ())


def _hosts_store(pid: int | None) -> bool:
    """Return whether a thread of the process serves a TCPStore: since 2.6 torch names it (TCPStoreBackend.cpp)."""
    names = [] if pid is None else Path(f"/proc/{pid}/task").glob("*/comm")
    with contextlib.suppress(OSError):
        return any(name.read_bytes().startswith(b"pt_tcpstore") for name in names)
    return False


def free_port(above: int) -> int | None:
    """Return the first port above ``above`` on which a listener can be bound on every address, or None within 100."""
    for port in range(above + 1, min(above + 101, 65536)):
        try:
            with socket.socket(socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET) as probe_socket:
                if probe_socket.family == socket.AF_INET6:
                    probe_socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
                probe_socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe_socket.bind(("", port))
                probe_socket.listen(1)
            return port
        except OSError:
            continue
    return None


# Reachability of own ports: the ranks of one host connect by the loopback interface.


SECONDS = 1.0
"""Limit; no packet gets lost on loopback: what does not arrive at once was dropped."""


async def own_port_reached(address: str | None, seconds: float | None = None) -> Contact | None:
    """Return the result of a connection within ``seconds`` to a port of this host at ``address``, if it is its own,
    else 127.0.0.1; None if nothing can listen there."""
    at = address or "127.0.0.1"
    if "%" in at:  # a link-local one, which gloo does not take
        return None
    with suppress(OSError), socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET) as listening:
        listening.bind((at, 0))
        listening.listen(1)
        return await connect(at, listening.getsockname()[1], seconds or SECONDS)
    return None


# Interception: something accepts connections in place of another host, on every port, also without a listener.


UNSERVED = (1, 9, 11)
"""tcpmux, discard, systat: nobody has served them for decades."""


async def intercepted(address: str, proc: str = "/proc/net") -> tuple[tuple[int, ...], bool]:
    """Return (UNSERVED if all of them accept connections, else nothing; whether a socket of this host accepted them).

    An outgoing redirect, as that of a service mesh's sidecar, is in this host: the accepting socket has this side's
    address and port as its peer. A redirect at the other host, or between, is invisible here.
    """
    tried = await asyncio.gather(*(open_socket(address, port, SECONDS) for port in UNSERVED))
    opened = [listener for _, listener in tried if listener is not None]
    try:
        if len(opened) < len(UNSERVED):
            return (), False
        peers = _peers(proc)
        return UNSERVED, all(_end(listener) in peers for listener in opened)
    finally:
        for listener in opened:
            listener.close()


def _end(opened: socket.socket) -> tuple[str, int]:
    try:
        name = opened.getsockname()
    except OSError:
        return "", 0
    return str(name[0]), int(name[1])


def _peers(proc: str) -> set[tuple[str, int]]:
    """Return the other ends of all TCP connections of this host."""
    peers = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(proc, table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            address, _, port = row.split()[2].partition(":")
            peers.add((_text(address), int(port, 16)))
    return peers


def _text(number: str) -> str:
    """Return ``0B004D0A`` (words in the host's byte order) as ``10.77.0.11``; an IPv4 address mapped to IPv6 as
    that."""
    words = [int(number[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(number), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    text = socket.inet_ntop(socket.AF_INET6, packed)
    return text.removeprefix("::ffff:")
