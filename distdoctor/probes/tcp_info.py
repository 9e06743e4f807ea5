"""What the kernel counts for one TCP connection: struct tcp_info (linux/tcp.h)."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass

_TCP_INFO_BYTES = 232


@dataclass(frozen=True)
class TcpInfo:
    """Segments and bytes since the connection was made, microseconds, bytes per second."""

    retransmitted: int = 0
    segments: int = 0
    acknowledged: int = 0
    delivery_rate: int = 0
    busy: int = 0
    receiver_limited: int = 0
    in_flight: int = 0
    """Segments that were sent and are not acknowledged: none where the other's window is shut."""
    again: int = 0
    """How often the first of these was sent again since something was acknowledged last."""
    unsent: int = 0
    """Bytes that were written and not sent: with none under way, the own packet filter dropped what was to go."""
    out_of_order: int = 0
    """Segments that came before others that had been sent earlier, which were lost on the way; 0 before Linux 5.4."""
    round_trip: int = 0
    """Microseconds: smoothed, as TCP's own patience is reckoned from it."""


def tcp_info(opened: socket.socket) -> TcpInfo:
    """The counters of struct tcp_info (linux/tcp.h); zeros from a kernel before 4.9, which has fewer of them."""
    try:
        data = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO_BYTES)
    except OSError:
        return TcpInfo()
    if len(data) < 184:
        return TcpInfo()
    return TcpInfo(
        retransmitted=struct.unpack_from("=I", data, 100)[0],
        segments=struct.unpack_from("=I", data, 156)[0],
        acknowledged=struct.unpack_from("=Q", data, 120)[0],
        delivery_rate=struct.unpack_from("=Q", data, 160)[0],
        busy=struct.unpack_from("=Q", data, 168)[0],
        receiver_limited=struct.unpack_from("=Q", data, 176)[0],
        in_flight=struct.unpack_from("=I", data, 24)[0],
        again=data[2],
        unsent=struct.unpack_from("=I", data, 144)[0],
        out_of_order=struct.unpack_from("=I", data, 224)[0] if len(data) >= 228 else 0,
        round_trip=struct.unpack_from("=I", data, 68)[0],
    )
