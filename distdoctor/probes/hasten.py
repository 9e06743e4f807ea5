"""Having what got lost on the way sent again at once.

TCP sends a small message that stands alone again only after 0.2 s, and after 0.6 s once more (RFC 6298; Linux's
TCP_RTO_MIN, and the same for a tail loss probe of one segment). Whatever follows on the same connection shows at the
other end that something is missing, and that is told (SACK, RFC 2018) and repaired within a round trip (RFC 8985).
"""

from __future__ import annotations

import fcntl
import socket
import struct
import termios
from collections.abc import Callable

from distdoctor.probes.readiness import ready
from distdoctor.probes.tcp_info import tcp_info

PATIENCE_SECONDS = 0.05
"""Linux delays the acknowledgement of what it has by 40 ms (TCP_DELACK_MIN)."""
MOST = 3
SMALL = 4096
"""Bytes: with more under way there is enough that follows, and no room may be left for another message."""


async def hasten(opened: socket.socket, again: Callable[[], None], patience: float = PATIENCE_SECONDS) -> None:
    """Wait for an answer, for some hundred milliseconds at most; where it may be lost, or what it answers, call
    ``again``, which sends another small message. ``patience``: seconds beyond two round trips.

    With the usual patience a process that is late with its answer is left alone: its kernel has acknowledged the
    question by then. Raises OSError.
    """
    for number in range(MOST):
        if await ready(opened, patience + 2e-6 * tcp_info(opened).round_trip):
            return
        waiting = unacknowledged(opened)
        if waiting > SMALL or (number == 0 and not waiting):
            return
        again()


def unacknowledged(opened: socket.socket) -> int:
    """Bytes that were sent and that the other's kernel has not acknowledged (SIOCOUTQ, tcp(7))."""
    try:
        return int(struct.unpack("=i", fcntl.ioctl(opened, termios.TIOCOUTQ, bytes(4)))[0])
    except OSError:
        return 0
