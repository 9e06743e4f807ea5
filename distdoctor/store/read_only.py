"""Read-only client of a job's store: it has no operation that writes, counts or waits.

A store that reads half a message may block for everybody until the rest arrives (torch's legacy server), so only whole
messages are sent in one segment, and never more than is answered at once. Either server looks up the name of each
client, and if name servers do not answer all ranks wait for that meanwhile (seen with torch 2.13: 5 s for each
connection), so one connection has to do. Data of a server is kept up to a limit, and waits end at the deadline.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress

from distdoctor.model.facts import Answer, Contact
from distdoctor.probes.network.tcp import open_socket
from distdoctor.store.client import MAX_SEGMENT, Oversize, StoreError, StoreGone
from distdoctor.store.identify import HTTP, PING, VALIDATE, printable

_GET, _CHECK, _COUNT, _LIST = 3, 5, 7, 17
OLD = "<=2.1"
"""Generation of torch without VALIDATE, which numbers each operation one lower."""
_BATCH = 900
"""Bytes sent at once: one segment, beside the headers' options."""
_REPLY = 64 * 1024
"""Bytes of answers requested at once: they fit into the buffers between, so that the server never waits for us."""
MAX_KEYS = 300_000
MAX_KEY = 8 * 1024 + 64
"""Bytes; the libuv server takes no longer key."""
MAX_LISTED = 16 * 1024 * 1024
"""Bytes of all keys together."""


class TooLate(StoreError):
    """The deadline was reached."""


class ReadOnlyStore:
    """One connection to a store of known generation (``distdoctor.store.identify``).

    Keys are given and returned as they are on the wire. Every method raises StoreError.
    """

    def __init__(self, address: str, port: int, generation: str, end: float) -> None:
        """Prepare a connection. ``end``: deadline of all requests, by the event loop's time."""
        self._address, self._port, self._end = address, port, end
        self._old = generation == OLD
        self._socket: socket.socket | None = None
        self._validated = False
        self._held = bytearray()

    async def greet(self, patience: float) -> tuple[Contact, Answer | None]:
        """Connect and ask for an echo, as ``identify`` does first, and keep the connection.

        None without a connection. ``closed`` may be a store of an older torch, which ``identify`` distinguishes.
        ``patience``: seconds until a silent server gets an HTTP request; a store that is only slow drops us then.
        """
        self.close()
        contact = await self._open()
        if self._socket is None:
            return contact, Answer("closed") if contact.outcome == "reset" else None
        nonce = bytearray(os.urandom(4))
        nonce[2] = 0xFF
        asked = closed = False
        try:
            await self._send(PING + nonce)
            try:
                await self._fill(patience)
            except TooLate:
                asked = True
                await self._send(HTTP)
            while len(self._held) < len(nonce):
                await self._fill()
        except StoreGone:
            closed = True
        except TooLate:
            pass
        answer = bytes(self._held)
        self._held.clear()
        if answer != nonce or asked:
            self.close()
        if answer == nonce:
            return contact, Answer("tcpstore", "2.5+")
        if answer:
            return contact, Answer("foreign", sample=printable(answer))
        return contact, Answer("closed" if closed else "silent")

    async def keys(self) -> list[bytes] | None:
        """Return all keys; None if this server does not list them (before torch 2.10). Raises Oversize."""
        if self._old:
            return None
        try:
            await self._send(bytes([_LIST]))
            (count,) = struct.unpack("=Q", await self._take(8))
        except StoreGone:
            self.close()
            return None
        if count > MAX_KEYS:
            raise self._oversize(f"{count} keys are more than are read")
        found: list[bytes] = []
        total = 0
        for _ in range(count):
            (length,) = struct.unpack("=Q", await self._take(8))
            total += length
            if length > MAX_KEY or total > MAX_LISTED:
                raise self._oversize(f"its keys have more than {MAX_LISTED} bytes")
            found.append(await self._take(length))
        return found

    async def count(self) -> int:
        """Return the number of keys."""
        await self._send(self._operation(_COUNT))
        return int(struct.unpack("=q", await self._take(8))[0])

    async def has(self, keys: Sequence[bytes]) -> list[bool]:
        """Return for each of ``keys`` whether it is there."""
        found: list[bool] = []
        for batch in _batches(keys, len(keys) or 1):
            await self._send(b"".join(self._operation(_CHECK) + struct.pack("=Q", 1) + _text(key) for key in batch))
            found += [byte == 0 for byte in await self._take(len(batch))]
        return found

    async def values(self, keys: Sequence[bytes], most: int) -> dict[bytes, bytes]:
        """Return the values of those of ``keys`` that are there and no larger than ``most`` bytes."""
        # The legacy server drops a client that asks for a missing key.
        here = [key for key, there in zip(keys, await self.has(keys), strict=True) if there]
        found: dict[bytes, bytes] = {}
        largest = _REPLY  # the first shows what the others may be like
        while here:
            batch = next(_batches(here, max(1, _REPLY // max(largest, 256))))
            del here[: len(batch)]
            await self._send(b"".join(self._operation(_GET) + _text(key) for key in batch))
            for place, key in enumerate(batch):
                (length,) = struct.unpack("=Q", await self._take(8))
                if length > most:
                    self.close()  # with all running requests
                    here[:0] = batch[place + 1 :]
                    break
                found[key] = await self._take(length)
            largest = max(map(len, found.values()), default=_REPLY)
        return found

    def close(self) -> None:
        """Close the connection; the next request opens another."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None
        self._held.clear()

    def _operation(self, number: int) -> bytes:
        return bytes([number - 1 if self._old else number])

    def _oversize(self, what: str) -> Oversize:
        self.close()
        return Oversize(what)

    def _left(self) -> float:
        left = self._end - asyncio.get_running_loop().time()
        if left <= 0:
            raise TooLate("it took too long to answer")
        return left

    async def _open(self) -> Contact:
        contact, self._socket = await open_socket(self._address, self._port, self._left(), MAX_SEGMENT)
        self._validated = self._old
        return contact

    async def _send(self, message: bytes) -> None:
        if self._socket is None:
            contact = await self._open()
            if self._socket is None:
                raise StoreError(f"connect to {self._address} port {self._port}: {contact.outcome}")
        if not self._validated:
            message, self._validated = VALIDATE + message, True
        left = self._left()
        try:
            await asyncio.wait_for(asyncio.get_running_loop().sock_sendall(self._socket, message), left)
        except asyncio.TimeoutError:
            raise TooLate("it took nothing any more") from None
        except OSError as err:
            raise StoreGone(f"the connection ended: {err}") from None

    async def _take(self, length: int) -> bytes:
        while len(self._held) < length:
            await self._fill()
        taken = bytes(self._held[:length])
        del self._held[:length]
        return taken

    async def _fill(self, seconds: float = math.inf) -> None:
        """Read the next bytes, within ``seconds``. Raises TooLate, StoreGone."""
        assert self._socket is not None
        left = min(seconds, self._left())
        try:
            _acknowledge_at_once(self._socket)
            part = await asyncio.wait_for(asyncio.get_running_loop().sock_recv(self._socket, 1 << 16), left)
        except asyncio.TimeoutError:
            raise TooLate("it took too long to answer") from None
        except OSError as err:
            raise StoreGone(f"the connection ended: {err}") from None
        if not part:
            raise StoreGone("it closed the connection")
        self._held += part


def _acknowledge_at_once(opened: socket.socket) -> None:
    """Acknowledge the next segment at once. The libuv store of torch 2.2 to 2.4 answers in small segments, of which its
    kernel holds each back until the one before is acknowledged; a receiver delays that by 40 ms (tcp(7))."""
    with suppress(OSError):
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


def _text(key: bytes) -> bytes:
    return struct.pack("=Q", len(key)) + key


def _batches(keys: Sequence[bytes], most: int) -> Iterator[Sequence[bytes]]:
    """Yield ``keys`` in order, in batches of at most ``most`` keys and one segment."""
    start, size = 0, len(VALIDATE)
    for place, key in enumerate(keys):
        size += 17 + len(key)
        if place > start and (size > _BATCH or place - start >= most):
            yield keys[start:place]
            start, size = place, len(VALIDATE) + 17 + len(key)
    if start < len(keys):
        yield keys[start:]
