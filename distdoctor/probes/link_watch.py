"""The interfaces that lost their link while this process watched, as the kernel tells of it (rtnetlink(7))."""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass, field

from distdoctor.probes import netlink

_NEW_LINK, _GET_LINK, _GROUP_LINK = 16, 18, 1
_NAME, _CARRIER_DOWN_COUNT = 3, 48
_RUNNING = 0x40
_BODY = 16
_READ = 1 << 16


@dataclass
class _Seen:
    """An interface, as the last message told of it."""

    name: str
    running: bool
    carrier_downs: int | None
    """How often the kernel lost its carrier since it is there; None before Linux 4.16."""
    events: int = 0
    """How often it stopped running since this began, by the messages."""
    carrier_downs_before: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.carrier_downs_before = self.carrier_downs

    @property
    def losses(self) -> int:
        """The kernel may tell of a loss that is short only once it is over, and counts none of a card switched off."""
        counted = (self.carrier_downs or 0) - (self.carrier_downs_before or 0)
        return max(self.events, counted)


class LinkWatch:
    """Begun once, and read now and then: the kernel keeps its messages meanwhile. Nothing is known without netlink."""

    def __init__(self) -> None:
        self._links: dict[int, _Seen] = {}
        self._socket: socket.socket | None = None
        try:
            opened = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, netlink.ROUTE)
        except OSError:
            return
        try:
            opened.bind((0, _GROUP_LINK))
        except OSError:
            opened.close()
            return
        self._socket = opened
        for body in netlink.dump(_GET_LINK, _NEW_LINK):
            self._take(body)

    def losses(self) -> dict[str, int]:
        """How often each interface lost its link so far; those that did not lack."""
        while self._socket is not None:
            try:
                data = self._socket.recv(_READ)
            except BlockingIOError:
                break
            except OSError as err:
                if err.errno == 105:  # ENOBUFS: there were more than it keeps; what follows is told
                    continue
                break
            for kind, body in netlink.messages(data):
                if kind == _NEW_LINK:
                    self._take(body)
        return {seen.name: seen.losses for seen in self._links.values() if seen.losses}

    def close(self) -> None:
        """Watch no longer."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, body: bytes) -> None:
        family, index, flags = struct.unpack_from("=BxxxiI", body)
        if len(body) < _BODY or family != socket.AF_UNSPEC:
            return  # of a bridge's port
        told = netlink.attributes(body[_BODY:])
        name = told.get(_NAME, b"").rstrip(b"\0").decode(errors="replace")
        count = told.get(_CARRIER_DOWN_COUNT)
        downs = struct.unpack_from("=I", count)[0] if count is not None and len(count) >= 4 else None
        running = bool(flags & _RUNNING)
        seen = self._links.setdefault(index, _Seen(name, running, downs))
        if seen.running and not running:
            seen.events += 1
        seen.name, seen.running, seen.carrier_downs = name, running, downs
