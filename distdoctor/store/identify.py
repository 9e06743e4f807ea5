"""Identification of the service on an open port: a TCPStore and its generation, or something else.

Only handshakes that were seen to leave every generation of a live TCPStore unharmed are sent (a store that reads half a
message blocks for all its clients, and the numbers of its operations changed in torch 2.2): each is sent whole in one
segment, and every connection is closed. See c10d/TCPStoreBackend.hpp for the operations.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct

from distdoctor.model.facts import Answer
from distdoctor.probes.network.tcp import open_socket, received

VALIDATE = struct.pack("=BI", 0, 0x3C85F7CE)
PING = b"\x0d"
HTTP = b"GET / HTTP/1.0\r\n\r\n"
SILENCE = 1.0
"""Seconds without an answer that count as silence."""


async def identify(address: str, port: int, seconds: float = 3.0, opened: socket.socket | None = None) -> Answer | None:
    """Return the service; None if no connection is possible any more.

    ``opened``: a connection for the first request. It stays open only if a TCPStore of torch 2.5 or later answers.

    1. PING (torch 2.5 and later) is echoed. The nonce's third byte is 0xFF: torch 2.1 would read the message as a
    length so large that it drops the connection before it allocates anything; and no byte of it ends a line, to which a
    web server would answer already, in four bytes that say nothing. 2. Four CANCEL_WAIT (2.2 to 2.4) are answered with
    four bytes 1. 3. GETNUMKEYS as torch up to 2.1 numbers it gives a small count.
    """
    nonce = bytearray(os.urandom(4).replace(b"\n", b"N"))
    nonce[2] = 0xFF
    hello = VALIDATE + PING + nonce
    reply, closed = await (_ask(opened, hello, 4) if opened else _exchange(address, port, hello, 4, seconds))
    if reply is None:
        return None
    if reply == bytes(nonce):
        return Answer("tcpstore", "2.5+")
    if opened is not None:
        opened.close()
    if reply:
        return Answer("foreign", sample=printable(reply))
    if not closed:
        return await _ask_as_http(address, port, seconds)
    if (await _exchange(address, port, VALIDATE + b"\x0c" * 4, 4, seconds))[0] == b"\x01" * 4:
        return Answer("tcpstore", "2.2-2.4")
    count, _ = await _exchange(address, port, b"\x06", 8, seconds)
    if count is not None and len(count) == 8 and 0 <= struct.unpack("=q", count)[0] < 1 << 40:
        return Answer("tcpstore", "<=2.1")
    if count:
        return Answer("foreign", sample=printable(count))
    return Answer("closed")


async def _ask_as_http(address: str, port: int, seconds: float) -> Answer:
    """Send an HTTP request: line-based servers stay silent until a line ends. A libuv TCPStore ignores it, a legacy one
    closes."""
    reply, _ = await _exchange(address, port, HTTP, 80, seconds)
    return Answer("foreign", sample=printable(reply)) if reply else Answer("silent")


async def _exchange(address: str, port: int, message: bytes, length: int, seconds: float) -> tuple[bytes | None, bool]:
    """Return up to ``length`` bytes of the answer to ``message`` (None: no connection), and whether the other side
    closed."""
    contact, opened = await open_socket(address, port, seconds)
    if opened is None:
        return (b"", True) if contact.outcome == "reset" else (None, True)
    try:
        return await _ask(opened, message, length)
    finally:
        opened.close()


async def _ask(opened: socket.socket, message: bytes, length: int) -> tuple[bytes, bool]:
    """Return the same of a connection."""
    loop = asyncio.get_running_loop()
    reply, closed = b"", False
    end = loop.time() + SILENCE
    try:
        await loop.sock_sendall(opened, message)
        while len(reply) < length and not closed:
            # All of it, however it trickles.
            part = await received(opened, length - len(reply), end - loop.time())
            reply, closed = reply + part, not part
    except asyncio.TimeoutError:
        pass
    except OSError:
        closed = True
    return reply, closed


def printable(data: bytes) -> str:
    """Return the printable start of a service's answer; its bytes if nothing of it is printable."""
    return "".join(chr(byte) if 32 <= byte < 127 else " " for byte in data[:80]).strip() or data[:8].hex(" ")
