"""One node's links, for the tests of their measurement: whom it is to reach, and what stands between."""

from __future__ import annotations

import asyncio
import secrets

from distdoctor.mesh.listener import TOKEN_BYTES, LinkTarget

TOKEN = secrets.token_hex(TOKEN_BYTES)


def target(member: int, port: int, address: str = "127.0.0.1", key: str | None = None) -> LinkTarget:
    return LinkTarget(member, key or f"host{member} 1 net:[{member}]", address, port, ("gloo",))


async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int) -> None:
    """At most so many bytes."""
    while most > 0 and (data := await reader.read(1 << 16)):
        writer.write(data)
        most -= len(data)
