"""One connect(), and exactly how it ended."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import time
from dataclasses import replace

from distdoctor.model.facts import ConnectOutcome, Contact
from distdoctor.probes.readiness import connected

CONNECT_SECONDS = 3.3
"""Long enough for the SYN and two repetitions of it (Linux repeats after 1 and 3 s): one lost packet is no fault."""
BESIDE_SECONDS = 0.25
"""TCP sends a first packet that was lost again only after 1 s (RFC 6298, 2.1); a second connection, after this."""
Opened = tuple[Contact, socket.socket | None]
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_RECVERR = {
    socket.AF_INET: (socket.IPPROTO_IP, _IP_RECVERR),
    socket.AF_INET6: (socket.IPPROTO_IPV6, _IPV6_RECVERR),
}
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3
_ICMP_FROM_FIREWALL = {(3, 3), (3, 9), (3, 10), (3, 13)}
_ICMP6_FROM_FIREWALL = {(1, 1), (1, 4), (1, 5), (1, 6)}


def parse_extended_error(data: bytes) -> tuple[int, int, int, str | None]:
    """(origin, type, code, offender's address) of a struct sock_extended_err (linux/errqueue.h) and what follows it."""
    _, origin, kind, code = struct.unpack_from("=IBBB", data)
    offender = None
    if len(data) >= 24:
        family = struct.unpack_from("=H", data, 16)[0]
        if family == socket.AF_INET:
            offender = socket.inet_ntop(socket.AF_INET, data[20:24])
        elif family == socket.AF_INET6 and len(data) >= 40:
            offender = socket.inet_ntop(socket.AF_INET6, data[24:40])
    return origin, kind, code, offender


async def open_socket(
    address: str, port: int, seconds: float, max_segment: int | None = None, interface: str = ""
) -> Opened:
    """Connect to address:port within ``seconds``; the connected socket (non-blocking) where that worked.

    ``max_segment``: bytes; neither side then sends larger TCP segments on this connection. ``interface``: by which it
    goes, whatever the routes say (SO_BINDTODEVICE, which needs no privilege from Linux 5.7 on).

    What has no answer after BESIDE_SECONDS is tried once more beside it, and the first answer is the one that counts.
    """
    told, first = await open_either(address, port, seconds, max_segment, interface)
    if first is not None:
        give_up(first)
    return told


async def open_alone(address: str, port: int, seconds: float) -> Opened:
    """The same with one attempt, whose SYN only the kernel repeats."""
    return await _attempt(address, port, seconds, None, "")


async def open_either(
    address: str, port: int, seconds: float, max_segment: int | None = None, interface: str = ""
) -> tuple[Opened, asyncio.Future[Opened] | None]:
    """The same, with the first attempt where it is still under way: it goes on until it is given up.

    Where a path loses packets by chance it comes through, too; where one of several paths is dead it may not.
    """
    began = time.monotonic()
    attempts = [asyncio.ensure_future(_attempt(address, port, seconds, max_segment, interface))]
    try:
        await asyncio.wait(attempts, timeout=BESIDE_SECONDS)
        if not attempts[0].done():
            left = max(0.0, seconds - BESIDE_SECONDS)
            attempts.append(asyncio.ensure_future(_attempt(address, port, left, max_segment, interface)))
            await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        chosen = next((one for one in attempts if one.done() and one.result()[0].answered), attempts[0])
        contact, opened = await chosen
    except BaseException:
        for attempt in attempts:
            give_up(attempt)
        raise
    if chosen is attempts[0]:
        for attempt in attempts[1:]:
            give_up(attempt)
    told = replace(contact, seconds=round(time.monotonic() - began, 4)), opened
    return told, attempts[0] if chosen is not attempts[0] else None


def give_up(attempt: asyncio.Future[Opened]) -> None:
    """End it, and close what it has opened."""
    if not attempt.cancel():  # it is over, and nobody has its connection
        _, opened = attempt.result()
        if opened is not None:
            opened.close()


async def _attempt(address: str, port: int, seconds: float, max_segment: int | None, interface: str) -> Opened:
    """One connect().

    With IP_RECVERR the kernel keeps the ICMP message behind an error, which tells a firewall's answer (reject) from
    the host's own (nothing listens) where both are ECONNREFUSED.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    started = time.monotonic()

    def contact(outcome: ConnectOutcome, number: int | None = None, icmp_from: str | None = None) -> Contact:
        took = round(time.monotonic() - started, 4)
        return Contact(address, port, outcome, number, took, icmp_from is not None, icmp_from or "")

    try:
        opened = socket.socket(family, socket.SOCK_STREAM)
    except OSError as err:
        return contact("error", err.errno), None
    opened.setblocking(False)
    level, option = _RECVERR[family]
    try:
        opened.setsockopt(level, option, 1)
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if interface:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
        if max_segment is not None:
            opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, max_segment)
        in_time = await connected(opened, address, port, seconds)
    except OSError as err:
        outcome, icmp_from = _outcome(opened, err.errno or 0, address)
        opened.close()
        return contact(outcome, err.errno, icmp_from), None
    except BaseException:
        opened.close()
        raise
    if not in_time:
        opened.close()
        return contact("no-answer"), None
    try:
        to_itself = opened.getsockname() == opened.getpeername()
    except OSError:  # ENOTCONN: it was reset as soon as it was open
        opened.close()
        return contact("reset", errno.ECONNRESET), None
    if to_itself:
        # TCP's simultaneous open: an ephemeral port can connect to itself where nothing listens.
        opened.close()
        return contact("refused", errno.ECONNREFUSED), None
    return contact("open"), opened


async def connect(address: str, port: int, seconds: float = CONNECT_SECONDS, interface: str = "") -> Contact:
    """Connect, close again, and say how it ended. ``interface``: as in :func:`open_socket`."""
    contact, opened = await open_socket(address, port, seconds, interface=interface)
    if opened is not None:
        opened.close()
    return contact


def _outcome(failed: socket.socket, number: int, address: str) -> tuple[ConnectOutcome, str | None]:
    """How it ended, and who sent the ICMP error that said so, where one did (empty: not known)."""
    origin, kind, code, offender = _queued_error(failed)
    sender = (offender or "") if origin in (_ORIGIN_ICMP, _ORIGIN_ICMP6) else None
    firewall = (origin == _ORIGIN_ICMP and (kind, code) in _ICMP_FROM_FIREWALL) or (
        origin == _ORIGIN_ICMP6 and (kind, code) in _ICMP6_FROM_FIREWALL
    )
    if sender is not None and (firewall or offender == address):
        # A host that itself says "unreachable" of its own address is up and has a firewall that says so.
        return "rejected", sender
    if number == errno.ECONNREFUSED:
        return "refused", sender
    if number == errno.ECONNRESET:
        return "reset", sender
    if number in (errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EADDRNOTAVAIL, errno.ENETDOWN, errno.EHOSTDOWN):
        return "unreachable", sender
    if number == errno.ETIMEDOUT:
        return "no-answer", sender
    return "error", sender


def _queued_error(failed: socket.socket) -> tuple[int, int, int, str | None]:
    try:
        _, ancillary, _, _ = failed.recvmsg(1, 512, socket.MSG_ERRQUEUE)
    except OSError:
        return 0, 0, 0, None
    for level, kind, data in ancillary:
        if (level, kind) in ((socket.IPPROTO_IP, _IP_RECVERR), (socket.IPPROTO_IPV6, _IPV6_RECVERR)):
            return parse_extended_error(data)
    return 0, 0, 0, None
