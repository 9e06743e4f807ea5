"""Asking node 0 itself whether the commands that were read in the store are its own.

Where the run has no token, whoever can write into the store can write commands and a report there. Node 0's listener is
asked at the address at which this process found the store, so that the answer comes from node 0's host, whatever
stands in the store.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Literal

from distdoctor.mailbox import OWN
from distdoctor.mesh import ASK, HELLO, MAGIC
from distdoctor.probes.connect import open_socket

ANSWER_SECONDS = 1.0
TRIES = 2
DIGEST_BYTES = 32

Confirmation = Literal["confirmed", "denied", "no-answer"]


async def confirm(address: str, port: int, token: str, transcript: bytes) -> Confirmation:
    """What node 0 says of the commands that ``transcript`` stands for."""
    for _ in range(TRIES):
        _, opened = await open_socket(address, port, ANSWER_SECONDS)
        if opened is None:
            continue
        try:
            told = await asyncio.wait_for(_ask(opened, token), ANSWER_SECONDS)
        except (asyncio.TimeoutError, OSError):
            continue
        finally:
            opened.close()
        if told is not None:
            return "confirmed" if told == transcript else "denied"
    return "no-answer"


async def _ask(opened: socket.socket, token: str) -> bytes | None:
    """The digest that node 0's listener gives; None where something else answers."""
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(opened, MAGIC + bytes.fromhex(token) + ASK.pack(b"R", 0))
    received = b""
    while len(received) < HELLO.size + DIGEST_BYTES:
        part = await loop.sock_recv(opened, 256)
        if not part:
            return None
        received += part
    if HELLO.unpack(received[: HELLO.size])[0] != OWN:
        return None
    return received[HELLO.size :]
