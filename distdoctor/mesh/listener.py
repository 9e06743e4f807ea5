"""Listener of the mesh: every node has one on an ephemeral port, and every other node connects to it.

A connection begins with the run's token; the answer has the number of the listener, that host's clock, and the address
at which it sees the client. A client without the token gets nothing. After that each request is one byte and a length:

    P  n   a small message, answered at once (``n`` is 0): round trips, and loss seen in TCP's retransmissions
    U  n   ``n`` bytes follow and are answered when all have arrived: payloads around the path's MTU
    S  0   zeros up to a byte END; answered with their number: throughput, also where a firewall eats FIN
    R  0   of node 0: answered with the hash of all its commands so far (``distdoctor.session.protocol.confirm``)
"""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from distdoctor.model.facts import NodeFacts

# Targets of links: the addresses of a node that its peers would use.


TOKEN_BYTES = 32
"""Length of the token that distdoctor's own listeners require."""
_LINK_LOCAL = "fe80:"
"""Prefix of addresses that are incomplete without an interface (ipv6(7))."""


@dataclass(frozen=True)
class LinkTarget:
    """Address of a node that the others try to reach, and its users."""

    member: int
    """Number of the process that listens there."""
    key: str
    address: str
    port: int
    use: tuple[str, ...]


def addresses_of(facts: NodeFacts, *, nccl: bool) -> Iterator[tuple[str, str]]:
    """Yield (user, address) for every address of a node that its peers connect to."""
    host, network = facts.host, facts.network
    choices = [("gloo", host.gloo if host else None), ("primary", network.primary if network else None)]
    choices += [("gloo", choice) for choice in (host.gloo_more if host else ())]
    if nccl:
        taken = host.nccl if host else None
        if taken is not None and not (taken.address or "").startswith(_LINK_LOCAL):
            # NCCL finds such an address by its interface, which it sends to its peers, too.
            choices.append(("nccl", taken))
    for use, choice in choices:
        if choice is not None and choice.address is not None:
            yield use, choice.address


MAGIC = b"distdoctor mesh 4\n"
REQUEST = len(MAGIC) + TOKEN_BYTES
HELLO = struct.Struct("=Id16s")
"""Answer of the listener: its number, its clock in seconds since the epoch, and the address at which it sees the client
(as IPv6; IPv4 mapped into it)."""
ASK = struct.Struct("=cI")
TOTAL = struct.Struct("=Q")
END = b"\1"
MAX_PAYLOAD = 64 * 1024
MAX_OPEN = 512
"""Connections held at once; beyond it the oldest that has not shown the token is closed first."""
ACCEPTED_AT_ONCE = 128
"""Connections accepted before their data is read: a node in a flood shows its token before its turn to be closed."""
BACKLOG = 1024
HANDSHAKE_SECONDS = 3.0
IDLE_SECONDS = 10.0


class Listener:
    """Server on an ephemeral port of all addresses, for as long as the run lasts."""

    def __init__(self, token: str, number: int, transcript: Callable[[], bytes] | None = None) -> None:
        """Prepare the server. ``transcript``: on node 0, the hash of all commands so far."""
        self._expected = MAGIC + bytes.fromhex(token)
        self._number = number
        self._transcript = transcript
        self._server: asyncio.Server | None = None
        self._strangers: dict[asyncio.Task[None], None] = {}
        self._friends: set[asyncio.Task[None]] = set()

    async def start(self) -> int:
        """Listen, and return the port."""
        listener = _bound()
        self._server = await asyncio.start_server(
            self._serve, sock=listener, limit=MAX_PAYLOAD, backlog=ACCEPTED_AT_ONCE
        )
        listener.listen(BACKLOG)  # again: asyncio uses its limit for both
        return int(listener.getsockname()[1])

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._strangers[task] = None
        if len(self._strangers) > MAX_OPEN:
            oldest = next(iter(self._strangers))
            del self._strangers[oldest]  # now: it ends later, and meanwhile others arrive
            oldest.cancel()
        try:
            shown = await asyncio.wait_for(reader.readexactly(REQUEST), HANDSHAKE_SECONDS)
            if hmac.compare_digest(shown, self._expected):
                self._strangers.pop(task, None)
                self._friends.add(task)
                seen = packed(writer.get_extra_info("peername")[0])
                writer.write(HELLO.pack(self._number, time.time(), seen))
                await self._answer(reader, writer)
        except (asyncio.TimeoutError, asyncio.IncompleteReadError, asyncio.CancelledError, OSError):
            pass
        finally:
            self._strangers.pop(task, None)
            self._friends.discard(task)
            writer.transport.abort()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer requests of a client with the token, until it ends. Nothing is kept of its data."""
        while True:
            kind, length = ASK.unpack(await asyncio.wait_for(reader.readexactly(ASK.size), IDLE_SECONDS))
            if kind == b"P":
                writer.write(kind)
            elif kind == b"U" and length <= MAX_PAYLOAD:
                await asyncio.wait_for(reader.readexactly(length), IDLE_SECONDS)
                writer.write(kind)
            elif kind == b"S":
                total = 0
                while data := await asyncio.wait_for(reader.read(1 << 20), IDLE_SECONDS):
                    total += len(data)
                    if data.endswith(END):
                        break
                writer.write(TOTAL.pack(total))
                await writer.drain()
                writer.write_eof()
                await asyncio.wait_for(reader.read(1), HANDSHAKE_SECONDS)
                return
            elif kind == b"R" and self._transcript is not None:
                writer.write(self._transcript())
            else:
                return

    def close(self) -> None:
        """Stop listening and drop open connections."""
        if self._server is not None:
            self._server.close()
        for task in [*self._strangers, *self._friends]:
            task.cancel()


def packed(address: str) -> bytes:
    """Return an address as 16 bytes, IPv4 mapped into IPv6."""
    found = ipaddress.ip_address(address.partition("%")[0])
    return found.packed if found.version == 6 else bytes(10) + b"\xff\xff" + found.packed


def unpacked(data: bytes) -> str:
    """Return the address of 16 bytes from ``packed``."""
    found = ipaddress.IPv6Address(data)
    return str(found.ipv4_mapped or found)


def _bound() -> socket.socket:
    """Return a listening socket on an ephemeral port of every address, IPv6 and IPv4 if the host has both."""
    try:
        listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM)
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        listener.bind(("::", 0))
    except OSError:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.bind(("0.0.0.0", 0))
    # For accepted ones: asyncio does that for none whose protocol number is the default's 0.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.listen(BACKLOG)
    listener.setblocking(False)
    return listener
