"""Notice of a launch's node 0: a listener that gives out the port of its store, and the client that asks for it."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from distdoctor.plan.notice import Notice

READ_SECONDS = 1.0
MAX_BYTES = 128


async def post_notice(notice: Notice, store_port: int) -> asyncio.Server | None:
    """Listen on the notice's port and send ``store_port`` to every client; None if the port is taken."""

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            writer.write(notice.text(store_port))
            await writer.drain()
        writer.close()

    try:
        return await asyncio.start_server(answer, None, notice.port)
    except OSError:
        return None


async def read_notice(host: str, notice: Notice) -> int | None:
    """Return the port that node 0 of this launch gives out at ``host``; None without a listener of this launch."""

    async def read() -> bytes:
        reader, writer = await asyncio.open_connection(host, notice.port, limit=MAX_BYTES)
        try:
            return await reader.readline()
        finally:
            writer.close()

    try:
        return notice.read(await asyncio.wait_for(read(), READ_SECONDS))
    except (OSError, ValueError, asyncio.TimeoutError):
        return None
