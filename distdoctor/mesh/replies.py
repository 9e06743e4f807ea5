"""Replies on a link that do not come: lost on the way, or owed by a process that is stopped or starved."""

from __future__ import annotations

import asyncio
import socket
import time

from distdoctor.probes.hasten import unacknowledged
from distdoctor.probes.readiness import received

PATIENCE_SECONDS = 7.0
"""How long a process may owe a reply although its kernel has the question: stopped for 5 s it still answers in it."""
LOOK_SECONDS = 0.2
PAUSED_SECONDS = 1.0


class Silent(Exception):
    """The other's kernel made the connection and took all that was sent, and its process said nothing."""


class Pauses:
    """Notes when this process itself did not run, so that its own clock told it that others were late."""

    def __init__(self) -> None:
        self._last = 0.0
        self._task = asyncio.ensure_future(self._look())

    async def _look(self) -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(LOOK_SECONDS)
            if time.monotonic() - began > LOOK_SECONDS + PAUSED_SECONDS:
                self._last = time.monotonic()

    async def since(self, started: float) -> bool:
        """Whether there was one after ``started``."""
        await asyncio.sleep(1.5 * LOOK_SECONDS)  # one that just ended is noted only now
        return self._last > started

    def close(self) -> None:
        """End the looking."""
        self._task.cancel()


async def read(opened: socket.socket, length: int, seconds: float) -> bytes:
    """``length`` bytes, fewer where the other side ends. Raises asyncio.TimeoutError."""
    reply = b""
    while len(reply) < length:
        part = await received(opened, length - len(reply), seconds)
        if not part:
            break
        reply += part
    return reply


async def owed(opened: socket.socket, length: int, seconds: float) -> bytes:
    """The same, but where the other's kernel has taken all that was sent its process gets PATIENCE_SECONDS.

    A packet filter that drops lets no acknowledgement through either. Raises asyncio.TimeoutError, and Silent.
    """
    try:
        return await read(opened, length, seconds)
    except asyncio.TimeoutError:
        if unacknowledged(opened):
            raise
    try:
        return await read(opened, length, max(PATIENCE_SECONDS - seconds, LOOK_SECONDS))
    except asyncio.TimeoutError:
        raise Silent from None
