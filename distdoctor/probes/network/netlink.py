"""Dumps of the kernel's network tables by netlink (linux/rtnetlink.h, linux/netlink.h)."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

ROUTE, XFRM = 0, 6
"""Families of netlink in use: routes, rules and interfaces; policies and associations of IPsec."""
_DONE, _ERROR = 3, 2
_REQUEST_DUMP = 0x001 | 0x300
_SECONDS = 1.0
_MOST = 4 * 1024 * 1024


def dump(request: int, answer: int, family: int = ROUTE, body: bytes | None = None) -> Iterator[bytes]:
    """Yield the bodies of the kernel's messages of the kind ``answer`` to the request.

    It stops if the kernel does not answer, takes too long, or has sent more than any node's table holds.
    """
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, family) as asked:
            asked.settimeout(_SECONDS)
            if body is None:
                body = struct.pack("=B11x", socket.AF_UNSPEC) if family == ROUTE else b""
            asked.send(struct.pack("=IHHII", 16 + len(body), request, _REQUEST_DUMP, 1, 0) + body)
            read = 0
            while read < _MOST:
                data = asked.recv(65536)
                read += len(data)
                for kind, body in messages(data):
                    if kind in (_DONE, _ERROR):
                        return
                    if kind == answer:
                        yield body
    except (OSError, struct.error):
        return


def attributes(rest: bytes) -> dict[int, bytes]:
    """Return the attributes behind a message's fixed part, by their numbers."""
    values: dict[int, bytes] = {}
    while len(rest) >= 4:
        length, kind = struct.unpack_from("=HH", rest)
        if length < 4:
            break
        values[kind] = rest[4:length]
        rest = rest[(length + 3) & ~3 :]
    return values


def messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= 16:
        length, kind = struct.unpack_from("=IH", data)
        if length < 16:
            return
        yield kind, data[16:length]
        data = data[(length + 3) & ~3 :]


def number(field: bytes | None, other: int) -> int:
    """Return the number in a field of 32 bits; ``other`` for a field that is missing."""
    return int(struct.unpack("=I", field)[0]) if field is not None and len(field) == 4 else other
