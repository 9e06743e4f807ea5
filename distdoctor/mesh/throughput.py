"""Throughput of one link: what the other takes in a moment, and what the kernel knows of it."""

from __future__ import annotations

import asyncio
import socket
import struct
import time
from dataclasses import replace

from distdoctor.mesh.listener import ASK, HELLO, MAGIC, TOTAL
from distdoctor.mesh.replies import read
from distdoctor.mesh.target import Target
from distdoctor.model.facts import LinkRate
from distdoctor.probes.connect import CONNECT_SECONDS, open_socket
from distdoctor.probes.hasten import unacknowledged
from distdoctor.probes.tcp_info import TcpInfo, tcp_info

CHUNK = 256 * 1024
TAKING_SECONDS = 2.2
"""How long the other may be about one chunk, and about the answer."""


DEAD_TIMES = 4
"""How often TCP sends a segment again, and nothing of it is acknowledged, until the connection is dead: 3 s and more
(RFC 6298, 5.5). A slow link, and a receiver that is slow or stopped, acknowledge what they get."""
DEAD_SECONDS = 3.0


class CutOff(Exception):
    """The connection was reset in the middle, or carried nothing more. ``args``: how many bytes had come through; how
    it ended."""


async def measure_rate(target: Target, token: str, so_far: LinkRate, seconds: float) -> LinkRate:
    """Send for so many seconds. ``so_far``, what is known of the link, with what came of it. Raises CutOff."""
    loop = asyncio.get_running_loop()
    _, opened = await open_socket(target.address, target.port, CONNECT_SECONDS)
    if opened is None:
        return so_far
    chunk, started = bytes(CHUNK), time.monotonic()
    try:
        await loop.sock_sendall(opened, MAGIC + bytes.fromhex(token))
        if len(await read(opened, HELLO.size, CONNECT_SECONDS)) < HELLO.size:
            return so_far
        await loop.sock_sendall(opened, ASK.pack(b"S", 0))
        started = time.monotonic()
        while time.monotonic() - started < seconds:
            await asyncio.wait_for(loop.sock_sendall(opened, chunk), TAKING_SECONDS)
        info = tcp_info(opened)
        opened.shutdown(socket.SHUT_WR)
        total = TOTAL.unpack(await read(opened, TOTAL.size, TAKING_SECONDS))[0]
        spent = time.monotonic() - started
    except (ConnectionResetError, BrokenPipeError):
        raise CutOff(tcp_info(opened).acknowledged, "reset") from None
    except (asyncio.TimeoutError, OSError, struct.error):
        # Too slow even to take a chunk: what the kernel knows was delivered is the measure.
        info, spent = tcp_info(opened), time.monotonic() - started
        total = info.acknowledged
        if await _dead(opened, info):
            raise CutOff(total, "stalled") from None
        if info.retransmitted >= DEAD_TIMES:
            info = replace(info, delivery_rate=0)  # that of the few that got through
    finally:
        opened.close()
    limited = info.receiver_limited / info.busy if info.busy else 0.0
    return replace(
        so_far,
        bytes_per_second=round(total / spent, 0),
        delivery_rate=float(info.delivery_rate) if info.delivery_rate else None,
        receiver_limited=round(limited, 3),
    )


async def _dead(opened: socket.socket, before: TcpInfo) -> bool:
    """Whether nothing is acknowledged any more, though TCP sends it over and over, or would: what a packet filter of
    the own host drops is none that was sent."""
    end = time.monotonic() + DEAD_SECONDS
    while True:
        info = tcp_info(opened)
        if info.acknowledged != before.acknowledged or not unacknowledged(opened):
            return False
        if info.again >= DEAD_TIMES:
            return True
        if time.monotonic() > end:
            waited = info.receiver_limited - before.receiver_limited  # for a window that is shut
            return not info.in_flight and waited < DEAD_SECONDS * 1e6 / 2
        await asyncio.sleep(0.1)
