"""TCP connections: connect() with its exact result, retransmission, readiness, and the kernel's counters."""

from __future__ import annotations

import asyncio
import errno
import fcntl
import select
import socket
import struct
import termios
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from distdoctor.model.facts import ConnectOutcome, Contact, LateConnections
from distdoctor.probes.host.proc import inodes
from distdoctor.probes.network import netlink

CONNECT_SECONDS = 3.3
"""Enough for the SYN and two retransmissions (Linux repeats after 1 and 3 s): one lost packet is no fault."""
PATIENT_SECONDS = 7.5
"""Enough for the third retransmission, which a packet filter that limits new connections may let through."""
SYN_AGAIN = 0.9
"""Seconds: a SYN without an answer is sent again after 1 s (RFC 6298, 2.1), and no sooner."""
SECOND_TRY_SECONDS = 0.25
"""Seconds after which a second connection is tried: TCP retransmits a lost first packet only after 1 s (RFC 6298,
2.1)."""
Opened = tuple[Contact, socket.socket | None]
_IP_RECVERR, _IPV6_RECVERR = 11, 25
_RECVERR = {socket.AF_INET: (socket.IPPROTO_IP, _IP_RECVERR), socket.AF_INET6: (socket.IPPROTO_IPV6, _IPV6_RECVERR)}
_ORIGIN_ICMP, _ORIGIN_ICMP6 = 2, 3
_ICMP_FROM_FIREWALL = {(3, 3), (3, 9), (3, 10), (3, 13)}
_ICMP6_FROM_FIREWALL = {(1, 1), (1, 4), (1, 5), (1, 6)}


def parse_extended_error(data: bytes) -> tuple[int, int, int, str | None]:
    """Return (origin, type, code, offender's address) of a struct sock_extended_err (linux/errqueue.h) and what follows
    it."""
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
    """Connect to address:port within ``seconds``. Return the contact, and the connected non-blocking socket on success.

    ``max_segment``: bytes; neither side then sends larger TCP segments on this connection. ``interface``: outgoing
    interface, whatever the routes say (SO_BINDTODEVICE, which needs no privilege from Linux 5.7 on).

    Without an answer after SECOND_TRY_SECONDS a second attempt starts beside it, and the first answer counts.
    """
    result, first = await open_either(address, port, seconds, max_segment, interface)
    if first is not None:
        give_up(first)
    return result


async def open_alone(address: str, port: int, seconds: float, max_segment: int | None = None) -> Opened:
    """Connect with one attempt, whose SYN only the kernel retransmits."""
    return await _attempt(address, port, seconds, max_segment, "")


async def open_either(
    address: str, port: int, seconds: float, max_segment: int | None = None, interface: str = ""
) -> tuple[Opened, asyncio.Future[Opened] | None]:
    """Connect as :func:`open_socket`, and return the first attempt, too, if it still runs: it goes on until it is given
    up.

    On a path that loses packets by chance it succeeds, too; if one of several paths is dead it may not.
    """
    began = time.monotonic()
    attempts = [asyncio.ensure_future(_attempt(address, port, seconds, max_segment, interface))]
    try:
        await asyncio.wait(attempts, timeout=SECOND_TRY_SECONDS)
        if not attempts[0].done():
            left = max(0.0, seconds - SECOND_TRY_SECONDS)
            attempts.append(asyncio.ensure_future(_attempt(address, port, left, max_segment, interface)))
            await asyncio.wait(attempts, return_when=asyncio.FIRST_COMPLETED)
        chosen = next((task for task in attempts if task.done() and task.result()[0].answered), attempts[0])
        contact, opened = await chosen
    except BaseException:
        for attempt in attempts:
            give_up(attempt)
        raise
    if chosen is attempts[0]:
        for attempt in attempts[1:]:
            give_up(attempt)
    result = replace(contact, seconds=round(time.monotonic() - began, 4)), opened
    return result, attempts[0] if chosen is not attempts[0] else None


def give_up(attempt: asyncio.Future[Opened]) -> None:
    """End the attempt, and close its socket."""
    if not attempt.cancel():  # it is over, and nobody has its connection
        _, opened = attempt.result()
        if opened is not None:
            opened.close()


async def _attempt(address: str, port: int, seconds: float, max_segment: int | None, interface: str) -> Opened:
    """Run one connect().

    With IP_RECVERR the kernel keeps the ICMP message behind an error, which distinguishes a firewall's answer (reject)
    from the host's own (no listener) if both are ECONNREFUSED.
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
        # TCP's simultaneous open: an ephemeral port can connect to itself if nothing listens.
        opened.close()
        return contact("refused", errno.ECONNREFUSED), None
    return contact("open"), opened


async def connect(address: str, port: int, seconds: float = CONNECT_SECONDS, interface: str = "") -> Contact:
    """Connect, close again, and return the result. ``interface``: as in :func:`open_socket`."""
    contact, opened = await open_socket(address, port, seconds, interface=interface)
    if opened is not None:
        opened.close()
    return contact


def _outcome(failed: socket.socket, number: int, address: str) -> tuple[ConnectOutcome, str | None]:
    """Return the outcome, and the sender of its ICMP error, if there was one (empty: unknown)."""
    origin, kind, code, offender = _queued_error(failed)
    sender = (offender or "") if origin in (_ORIGIN_ICMP, _ORIGIN_ICMP6) else None
    firewall = (origin == _ORIGIN_ICMP and (kind, code) in _ICMP_FROM_FIREWALL) or (
        origin == _ORIGIN_ICMP6 and (kind, code) in _ICMP6_FROM_FIREWALL
    )
    if sender is not None and (firewall or offender == address):
        # A host that itself says "unreachable" of its own address is up, and its firewall rejects.
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


# Early retransmission of lost messages.
#
# TCP retransmits a small single message only after 0.2 s, and after 0.6 s once more (RFC 6298; Linux's TCP_RTO_MIN, and
# the same for a tail loss probe of one segment). A later message on the same connection shows the other end that
# something is missing, which it reports (SACK, RFC 2018) and the sender repairs within a round trip (RFC 8985).


PATIENCE_SECONDS = 0.05
"""Linux delays acknowledgements by 40 ms (TCP_DELACK_MIN)."""
MOST = 3
SMALL = 4096
"""Bytes: with more in flight enough follows, and the buffer may have no room for another message."""


async def hasten(opened: socket.socket, again: Callable[[], None], patience: float = PATIENCE_SECONDS) -> None:
    """Wait for an answer, for some hundred milliseconds at most; if it or its request may be lost, call ``again``,
    which sends another small message.

    ``patience``: seconds beyond two round trips. With the usual patience a process that answers late is left alone: its
    kernel has acknowledged the request by then. Raises OSError.
    """
    for number in range(MOST):
        if await ready(opened, patience + 2e-6 * tcp_info(opened).round_trip):
            return
        waiting = unacknowledged(opened)
        if waiting > SMALL or (number == 0 and not waiting):
            return
        again()


def unacknowledged(opened: socket.socket) -> int:
    """Return the sent bytes that the other's kernel has not acknowledged (SIOCOUTQ, tcp(7))."""
    try:
        return int(struct.unpack("=i", fcntl.ioctl(opened, termios.TIOCOUTQ, bytes(4)))[0])
    except OSError:
        return 0


# Readiness of a socket by the kernel, and not only by this process's own clock.


async def ready(opened: socket.socket, seconds: float, *, to_write: bool = False) -> bool:
    """Return whether the socket can be read (``to_write``: written) within ``seconds``; after them the kernel is asked
    once more.

    A process without a processor meanwhile finds its time over and the answer there, both at once. wait_for() around
    sock_recv() or sock_connect() then reports a timeout, and loses the data.
    """
    loop = asyncio.get_running_loop()
    seen: asyncio.Future[None] = loop.create_future()

    def note() -> None:
        if not seen.done():
            seen.set_result(None)

    (loop.add_writer if to_write else loop.add_reader)(opened, note)
    try:
        await asyncio.wait({seen}, timeout=max(0.0, seconds))
    finally:
        if opened.fileno() >= 0:  # else it was closed meanwhile, and its number may be another's
            (loop.remove_writer if to_write else loop.remove_reader)(opened)
    return seen.done() or _now(opened, select.POLLOUT if to_write else select.POLLIN)


async def connected(opened: socket.socket, address: str, port: int, seconds: float) -> bool:
    """Connect a non-blocking socket to a numeric address; False without an answer in time.

    Raises OSError.
    """
    flags = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
    where = socket.getaddrinfo(address, port, opened.family, opened.type, flags=flags)[0][4]
    try:
        opened.connect(where)
    except BlockingIOError:
        if not await ready(opened, seconds, to_write=True):
            return False
        if error := opened.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
            raise OSError(error, "connect") from None
    return True


async def received(opened: socket.socket, most: int, seconds: float) -> bytes:
    """Return the available data, up to ``most`` bytes; nothing if the other side ended.

    Raises asyncio.TimeoutError, and OSError.
    """
    if not await ready(opened, seconds):
        raise asyncio.TimeoutError
    try:
        return opened.recv(most)
    except BlockingIOError:  # the data was damaged, and is gone (select(2))
        return await received(opened, most, seconds)


def _now(opened: socket.socket, event: int) -> bool:
    poll = select.poll()
    poll.register(opened, event)
    return bool(poll.poll(0))


# Kernel's counters of one TCP connection: struct tcp_info (linux/tcp.h).


_TCP_INFO_BYTES = 232


@dataclass(frozen=True)
class TcpInfo:
    """Segments and bytes since the connection was opened, microseconds, bytes per second."""

    retransmitted: int = 0
    segments: int = 0
    acknowledged: int = 0
    delivery_rate: int = 0
    busy: int = 0
    receiver_limited: int = 0
    in_flight: int = 0
    """Segments that were sent and not acknowledged: none if the other's window is closed."""
    again: int = 0
    """Number of retransmissions of the first of these since the last acknowledgement."""
    unsent: int = 0
    """Bytes that were written and not sent: with none in flight, the own packet filter dropped them."""
    out_of_order: int = 0
    """Segments that arrived before earlier ones, which were lost; 0 before Linux 5.4."""
    round_trip: int = 0
    """Smoothed round trip in microseconds, from which TCP derives its own timeout."""


def tcp_info(opened: socket.socket) -> TcpInfo:
    """Return the counters of struct tcp_info (linux/tcp.h); zeros from a kernel before 4.9, which has fewer of them."""
    try:
        data = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return TcpInfo()
    if len(data) < 184:
        return TcpInfo()
    return TcpInfo(
        retransmitted=struct.unpack_from("=I", data, 100)[0],
        segments=struct.unpack_from("=I", data, 156)[0],
        acknowledged=struct.unpack_from("=Q", data, 120)[0],
        delivery_rate=struct.unpack_from("=Q", data, 160)[0],
        busy=struct.unpack_from("=Q", data, 168)[0],
        receiver_limited=struct.unpack_from("=Q", data, 176)[0],
        in_flight=struct.unpack_from("=I", data, 24)[0],
        again=data[2],
        unsent=struct.unpack_from("=I", data, 144)[0],
        out_of_order=struct.unpack_from("=I", data, 224)[0] if len(data) >= 228 else 0,
        round_trip=struct.unpack_from("=I", data, 68)[0],
    )


# TCP connections of some processes whose first packet (SYN) was retransmitted, from sock_diag(7).


_BY_FAMILY, _SOCK_DIAG, _INFO = 20, 4, 2
_ESTABLISHED, _SYN_SENT, _LISTEN = 1, 2, 10
_STATES = 1 << _ESTABLISHED | 1 << _SYN_SENT | 1 << _LISTEN
_BODY, _TOTAL_RETRANS, _BYTES_RETRANS = 72, 100, 208
"""Bytes of struct inet_diag_msg; offsets in struct tcp_info, the latter since Linux 4.19."""
MAX_LATE = 64


@dataclass(frozen=True)
class _Socket:
    state: int
    port: int
    remote: str
    inode: str
    repeated: int
    """Number of retransmissions of its SYN."""


def late_connections(pids: Iterable[int]) -> tuple[LateConnections, ...]:
    """Return the connections of these processes to other addresses, by address, if a SYN was retransmitted; empty if
    the kernel does not say."""
    mine = {inode for pid in pids for inode in inodes(pid)}
    sockets = [s for family in (socket.AF_INET, socket.AF_INET6) for s in _sockets(family) if s.inode in mine]
    accepting = {s.port for s in sockets if s.state == _LISTEN}
    opened: dict[str, list[_Socket]] = {}
    for s in sockets:
        if s.state != _LISTEN and s.port not in accepting:
            opened.setdefault(s.remote, []).append(s)
    late = (
        LateConnections(
            address,
            len(group),
            sum(s.repeated > 0 for s in group),
            sum(s.repeated for s in group),
            sum(s.state == _ESTABLISHED for s in group),
        )
        for address, group in opened.items()
    )
    return tuple(peer for peer in late if peer.late)[:MAX_LATE]


def _sockets(family: int) -> Iterator[_Socket]:
    asked = struct.pack("=BBBxI48x", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES)
    for body in netlink.dump(_BY_FAMILY, _BY_FAMILY, _SOCK_DIAG, asked):
        if len(body) < _BODY:
            continue
        state, timer, retransmits = struct.unpack_from("=xBBB", body)
        (port,) = struct.unpack_from("!H", body, 4)
        length = 4 if family == socket.AF_INET else 16
        remote = socket.inet_ntop(family, body[24 : 24 + length]).removeprefix("::ffff:")
        (inode,) = struct.unpack_from("=I", body, 68)
        if state == _SYN_SENT:
            repeated = retransmits if timer == 1 else 0
        else:
            repeated = _of_first_packet(netlink.attributes(body[_BODY:]).get(_INFO, b""))
        yield _Socket(state, port, remote, str(inode), repeated)


def _of_first_packet(info: bytes) -> int:
    """Return the number of retransmitted segments if these had no data: SYNs. 0 for data, or if unknown."""
    if len(info) < _BYTES_RETRANS + 8 or struct.unpack_from("=Q", info, _BYTES_RETRANS)[0]:
        return 0
    return int(struct.unpack_from("=I", info, _TOTAL_RETRANS)[0])
