"""Whether something accepts connections in the place of another host: on every port, also where nobody listens."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path

from distdoctor.probes.connect import open_socket

UNSERVED = (1, 9, 11)
"""tcpmux, discard, systat: what nobody has served for decades."""
SECONDS = 1.0


async def intercepted(address: str, proc: str = "/proc/net") -> tuple[tuple[int, ...], bool]:
    """(UNSERVED where all of them accept connections, else nothing; whether a socket of this host accepted them).

    A redirect on the way out, as that of a service mesh's sidecar, is in this host: the socket that accepted has this
    side's address and port for its peer. Of one at the other host, or on the way, nothing is seen from here.
    """
    tried = await asyncio.gather(*(open_socket(address, port, SECONDS) for port in UNSERVED))
    opened = [one for _, one in tried if one is not None]
    try:
        if len(opened) < len(UNSERVED):
            return (), False
        peers = _peers(proc)
        return UNSERVED, all(_end(one) in peers for one in opened)
    finally:
        for one in opened:
            one.close()


def _end(opened: socket.socket) -> tuple[str, int]:
    try:
        name = opened.getsockname()
    except OSError:
        return "", 0
    return str(name[0]), int(name[1])


def _peers(proc: str) -> set[tuple[str, int]]:
    """The other ends of all TCP connections that have one here."""
    found = set()
    for table in ("tcp", "tcp6"):
        try:
            rows = Path(proc, table).read_text().splitlines()[1:]
        except OSError:
            continue
        for row in rows:
            address, _, port = row.split()[2].partition(":")
            found.add((_text(address), int(port, 16)))
    return found


def _text(number: str) -> str:
    """``0B004D0A`` (words in the host's byte order) as ``10.77.0.11``; an IPv4 address mapped to IPv6 as that."""
    words = [int(number[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(number), 8)]
    packed = b"".join(words)
    if len(packed) == 4:
        return socket.inet_ntop(socket.AF_INET, packed)
    text = socket.inet_ntop(socket.AF_INET6, packed)
    return text.removeprefix("::ffff:")
