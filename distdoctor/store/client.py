"""TCPStore client in plain sockets, for the supervisors: it needs no torch, has deadlines and can be given up.

The protocol is that of torch 2.2 and later (c10d/TCPStoreBackend.hpp, TCPStore.cpp): an operation's byte, then its
arguments in host byte order, strings and byte vectors with a 64-bit length before them. Keys are sent with a slash in
front, as torch's own client does for its users. Every request is one send: after half a message the server blocks until
the rest arrives.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Coroutine
from typing import Any, TypeVar

from distdoctor.probes.network.tcp import hasten, open_socket, tcp_info
from distdoctor.store.identify import VALIDATE

MAX_VALUE = 8 * 1024 * 1024 - 64
"""Bytes; the libuv server drops a connection that sends a larger value."""
MAX_SEGMENT = 500
"""Bytes; the nodes must communicate also on a path that swallows large packets, to report it. With its headers it is
below the 576 bytes that every host of IPv4 takes (RFC 791)."""
_SET, _GET, _ADD, _CHECK, _COUNT = 1, 3, 4, 5, 7

T = TypeVar("T")


class StoreError(Exception):
    """The store could not be used; the text has the reason."""


class StoreGone(StoreError):
    """The connection to the store ended."""


class StoreUnanswered(StoreError):
    """Nobody answered the connection: the store's host is down, or the path to it is cut."""


class StoreSilent(StoreGone):
    """The kernel of the store's host took the request, and no answer arrived."""


class Oversize(StoreError):
    """A value that is larger than any that distdoctor writes."""


class StoreClient:
    """One connection to a store. Requests from several tasks are served one after the other.

    A request that was begun is carried out, also if the task that made it is cancelled meanwhile.
    """

    def __init__(
        self, opened: socket.socket, address: str, port: int, seconds: float = 5.0, *, validated: bool = False
    ) -> None:
        """``validated``: the store knows this connection, by :func:`distdoctor.store.identify.identify`."""
        self._socket, self._address, self._port = opened, address, port
        self._seconds = seconds
        self._lock = asyncio.Lock()
        self._first = not validated
        self._pending_extra = 0
        """Pending answers after the awaited one: one byte each, to requests that only speed it up."""
        self._running: set[asyncio.Task[Any]] = set()

    @classmethod
    async def connect(cls, address: str, port: int, seconds: float = 5.0) -> StoreClient:
        """Return a client of the store at address:port; ``seconds`` bounds this and every request. Raises
        StoreError."""
        contact, opened = await open_socket(address, port, seconds, MAX_SEGMENT)
        if opened is None:
            error = StoreUnanswered if contact.outcome in ("no-answer", "unreachable") else StoreError
            raise error(f"connect to {address} port {port}: {contact.outcome}")
        return cls(opened, address, port, seconds)

    async def set(self, key: str, value: bytes) -> None:
        """Store ``value`` under ``key``. Raises StoreError if it is larger than MAX_VALUE."""
        if len(value) > MAX_VALUE:
            raise StoreError(f"{len(value)} bytes are more than a store takes in one value ({MAX_VALUE})")
        await self._request(struct.pack("=B", _SET) + _text(key) + struct.pack("=Q", len(value)) + value, 0)

    async def add(self, key: str, amount: int) -> int:
        """Add to the number under ``key`` (0 without one) and return the sum."""
        reply = await self._request(struct.pack("=B", _ADD) + _text(key) + struct.pack("=q", amount), 8)
        return int(struct.unpack("=q", reply)[0])

    @property
    def address(self) -> str:
        """Return the address of the store."""
        return self._address

    @property
    def is_open(self) -> bool:
        """Return whether it was not closed on this side."""
        return self._socket.fileno() >= 0

    @property
    def own_address(self) -> str:
        """Return the address of this end of the connection."""
        return str(self._socket.getsockname()[0])

    async def has(self, *keys: str) -> bool:
        """Return whether every one of ``keys`` is there."""
        names = b"".join(_text(key) for key in keys)
        return await self._request(struct.pack("=BQ", _CHECK, len(keys)) + names, 1) == b"\0"

    async def get(self, key: str) -> bytes | None:
        """Return the value under ``key``, or None (a GET of a missing key makes the legacy server drop the connection).

        Raises Oversize for more than MAX_VALUE bytes; it is not read then.
        """
        return await self._get(key) if await self.has(key) else None

    async def count(self) -> int:
        """Return the number of keys."""
        return int(struct.unpack("=q", await self._request(struct.pack("=B", _COUNT), 8))[0])

    async def closed(self, seconds: float) -> bool:
        """Return whether the store closes the connection within ``seconds``.

        No request may be made meanwhile or after.
        """
        try:
            data = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 1), seconds)
        except asyncio.TimeoutError:
            return False
        except OSError:
            return True
        return not data

    def close(self) -> None:
        """Close the connection. Running requests are dropped."""
        for task in self._running:
            task.cancel()
        if self._running and self._socket.fileno() >= 0:
            # The tasks end later: until then the loop must not watch a number that the next socket may get.
            loop = next(iter(self._running)).get_loop()
            loop.remove_reader(self._socket)
            loop.remove_writer(self._socket)
        self._socket.close()

    async def _get(self, key: str) -> bytes:
        async def ask() -> bytes:
            async with self._lock:
                await self._send(struct.pack("=B", _GET) + _text(key))
                length = struct.unpack("=Q", await self._read(8))[0]
                if length > MAX_VALUE + 64:
                    await self._reconnect()
                    raise Oversize(f"has {length} bytes")
                return await self._read(length, last=True)

        return await self._carry_out(ask())

    async def _reconnect(self) -> None:
        """Replace a connection on which more answers are pending than are to be read."""
        self._socket.close()
        contact, opened = await open_socket(self._address, self._port, self._seconds, MAX_SEGMENT)
        if opened is None:
            raise StoreGone(f"connect to {self._address} port {self._port}: {contact.outcome}")
        self._socket, self._first, self._pending_extra = opened, True, 0

    async def _request(self, message: bytes, reply_length: int) -> bytes:
        async def ask() -> bytes:
            async with self._lock:
                await self._send(message)
                return await self._read(reply_length, last=True)

        return await self._carry_out(ask())

    async def _carry_out(self, request: Coroutine[Any, Any, T]) -> T:
        """Carry the request out to its end, whatever becomes of the caller: an unread reply would be taken for the next
        request's."""
        task = asyncio.ensure_future(request)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return await asyncio.shield(task)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved, also if nobody waits for it any more

    async def _send(self, message: bytes) -> None:
        if self._first:
            message, self._first = VALIDATE + message, False
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self._socket, message), self._seconds)
        except asyncio.TimeoutError:  # before OSError: since Python 3.11 it is one
            self._socket.close()
            raise StoreGone(f"the store took nothing for {self._seconds:g} s") from None
        except (OSError, ValueError) as err:
            raise StoreGone(f"the connection to the store ended: {err}") from None

    def _ask_extra(self) -> None:
        self._socket.send(struct.pack("=BQ", _CHECK, 1) + _text("beside"))
        self._pending_extra += 1

    async def _read(self, length: int, last: bool = False) -> bytes:
        """Return ``length`` bytes; with ``last``, also read and drop what follows the answer."""
        data = await self._read_bytes(length)
        while last and self._pending_extra:
            more, self._pending_extra = self._pending_extra, 0
            await self._read_bytes(more)
        return data

    async def _read_bytes(self, length: int) -> bytes:
        parts: list[bytes] = []
        loop = asyncio.get_running_loop()
        while length:
            try:
                await hasten(self._socket, self._ask_extra)
                part = await asyncio.wait_for(loop.sock_recv(self._socket, min(length, 1 << 20)), self._seconds)
            except asyncio.TimeoutError:
                asked = tcp_info(self._socket)
                self._socket.close()
                taken = asked.in_flight == 0 and asked.acknowledged > 1  # opening a connection counts as one
                gone = StoreSilent if taken else StoreGone
                raise gone(f"the store did not answer for {self._seconds:g} s") from None
            except (OSError, ValueError) as err:
                raise StoreGone(f"the connection to the store ended: {err}") from None
            if not part:
                raise StoreGone("the store closed the connection")
            parts.append(part)
            length -= len(part)
        return b"".join(parts)


def _text(key: str) -> bytes:
    data = b"/" + key.encode()
    return struct.pack("=Q", len(data)) + data
