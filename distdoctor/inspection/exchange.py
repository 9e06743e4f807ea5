"""A few lines of text to a server and what it answers, bounded in time and size."""

from __future__ import annotations

import asyncio
import time

from distdoctor.probes.connect import open_socket


class NoAnswer(Exception):
    """Nothing, or not what was to come; the text says what."""


async def exchange(address: str, port: int, message: bytes, end: float, most: int) -> tuple[bytes, bool]:
    """What is answered to ``message`` until the other side closes, and whether it did so before ``end`` and ``most``.

    ``end``: by time.monotonic(). ``most``: bytes. Raises NoAnswer.
    """
    contact, opened = await open_socket(address, port, max(0.05, end - time.monotonic()))
    if opened is None:
        raise NoAnswer(f"connect to {address} port {port}: {contact.outcome}")
    loop = asyncio.get_running_loop()
    received = bytearray()
    with opened:
        try:
            await asyncio.wait_for(loop.sock_sendall(opened, message), max(0.05, end - time.monotonic()))
            while len(received) < most and (left := end - time.monotonic()) > 0:
                part = await asyncio.wait_for(loop.sock_recv(opened, 1 << 16), left)
                if not part:
                    return bytes(received), True
                received += part
        except asyncio.TimeoutError:
            pass
        except OSError as err:
            raise NoAnswer(f"the connection to {address} port {port} ended: {err}") from None
    return bytes(received), False
