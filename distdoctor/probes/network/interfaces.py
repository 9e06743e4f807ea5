"""Interfaces, addresses and routes of this host, and losses of a link."""

from __future__ import annotations

import errno
import fcntl
import socket
import struct
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from distdoctor.knowledge.network import is_bridge, is_virtual
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Interface, Route
from distdoctor.probes.host import proc
from distdoctor.probes.network import netlink
from distdoctor.probes.network.netlink import attributes, dump

_UNKNOWN = 0xFFFF
_SHORT_OF = (errno.EAGAIN, errno.EADDRINUSE, errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_GET_FLAGS, _GET_ADDRESS, _GET_NETMASK = 0x8913, 0x8915, 0x891B
"""SIOCGIF* of netdevice(7): of one interface by its name, without netlink."""
_UP, _LOOPBACK = 0x1, 0x8
_DAD_FAILED = 0x08
"""IFA_F_DADFAILED (linux/if_addr.h)."""
_GETLINK, _NEWLINK = 18, 16
_NAME, _MASTER, _INFO, _SLAVE_KIND = 3, 10, 18, 4
"""IFLA_IFNAME, IFLA_MASTER, IFLA_LINKINFO and in it IFLA_INFO_SLAVE_KIND (linux/if_link.h)."""
_NAMES, _OF_IPV6 = "/sys/class/net", "/proc/net/if_inet6"


def hidden() -> str:
    """Return the errno's name of a failing getifaddrs(); empty: it works.

    It asks the kernel over a netlink socket, which a sandbox may forbid (systemd's RestrictAddressFamilies=).
    """
    try:
        psutil.net_if_addrs()
    except OSError as err:
        return errno.errorcode.get(err.errno or 0, "")
    return ""


def interfaces() -> tuple[Interface, ...]:
    """Return every interface with its addresses, in the order of getifaddrs(); if that fails, those visible without
    it."""
    try:
        return _listed()
    except OSError:
        return _one_by_one()


def _listed() -> tuple[Interface, ...]:
    stats, refused, bridges = psutil.net_if_stats(), _refused(), _bridges()
    cards = []
    listed = psutil.net_if_addrs()
    for name, entries in listed.items():
        card = Interface(name).device
        addresses, lengths, mac = [], [], ""
        if card != name:  # a label of an address
            entries = [*entries, *(entry for entry in listed.get(card, ()) if entry.family == psutil.AF_LINK)]
        for entry in entries:
            if entry.family == psutil.AF_LINK and entry.address.strip("0:-"):
                mac = entry.address.lower()
            if entry.family in (socket.AF_INET, socket.AF_INET6):
                addresses.append(entry.address.partition("%")[0])
                lengths.append(_prefix_length(entry.netmask))
        stat = stats.get(card)
        flags = str(getattr(stat, "flags", "")).split(",")
        loopback = "loopback" in flags or any(
            (parsed := parse_address(a)) is not None and parsed.is_loopback for a in addresses
        )
        up, mtu, speed = (stat.isup, stat.mtu, stat.speed) if stat else (False, 0, 0)
        half = stat is not None and stat.duplex == psutil.NIC_DUPLEX_HALF
        cards.append(
            Interface(
                name,
                tuple(addresses),
                tuple(lengths),
                up,
                loopback,
                mtu,
                mac,
                _agreed(speed) if up else None,
                half,
                "noarp" in flags,
                _arp_ignore(card),
                refused.get(name, ()),
                bridges.get(card, ""),
            )
        )
    return tuple(cards)


def _one_by_one() -> tuple[Interface, ...]:
    """Return each interface by its name, with its first IPv4 address: more are invisible this way."""
    ipv6: dict[str, list[tuple[str, int]]] = {}
    for name, address, length, _ in _of_ipv6():
        ipv6.setdefault(name, []).append((address, length))
    cards = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        for name in proc.names(_NAMES):
            flags = _flags(asked, name)
            pairs = list(ipv6.get(name, ()))
            if (own := _ifreq(asked, _GET_ADDRESS, name)[20:24]) != bytes(4):
                mask = _ifreq(asked, _GET_NETMASK, name)[20:24]
                pairs.insert(0, (socket.inet_ntoa(own), int.from_bytes(mask, "big").bit_count()))
            addresses, lengths = tuple(a for a, _ in pairs), tuple(n for _, n in pairs)
            cards.append(Interface(name, addresses, lengths, bool(flags & _UP), bool(flags & _LOOPBACK)))
    return tuple(cards)


def _of_ipv6() -> list[tuple[str, str, int, int]]:
    """Return (interface, address, prefix length, flags) of each IPv6 address (linux/net/ipv6/addrconf.c)."""
    return [
        (row[5], socket.inet_ntop(socket.AF_INET6, bytes.fromhex(row[0])), int(row[2], 16), int(row[4], 16))
        for row in _rows(_OF_IPV6)
        if len(row) == 6
    ]


def _refused() -> dict[str, tuple[str, ...]]:
    """Return the addresses of each interface that another host's answer forbids to use."""
    by_card: dict[str, tuple[str, ...]] = {}
    for name, address, _, flags in _of_ipv6():
        if flags & _DAD_FAILED:
            by_card[name] = (*by_card.get(name, ()), address)
    return by_card


def _bridges() -> dict[str, str]:
    """Return the bridge of each interface that is a port of one, by their names."""
    names, masters = dict[int, str](), dict[str, int]()
    for body in dump(_GETLINK, _NEWLINK):
        (index,) = struct.unpack_from("=4xi", body)  # struct ifinfomsg
        fields = attributes(body[16:])
        name = fields.get(_NAME, b"").rstrip(b"\0").decode(errors="replace")
        names[index] = name
        if _MASTER in fields and attributes(fields.get(_INFO, b"")).get(_SLAVE_KIND, b"").rstrip(b"\0") == b"bridge":
            masters[name] = struct.unpack("=i", fields[_MASTER])[0]
    return {name: names[index] for name, index in masters.items() if index in names}


def loopback_down(name: str = "lo") -> bool:
    """Return whether this host's loopback interface is there and down."""
    with suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        flags = _flags(asked, name)
        return bool(flags & _LOOPBACK) and not flags & _UP
    return False


def _flags(asked: socket.socket, name: str) -> int:
    """Return the flags of an interface (netdevice(7)); 0 if the kernel does not say."""
    return int(struct.unpack("=H", _ifreq(asked, _GET_FLAGS, name)[16:18])[0])


def _ifreq(asked: socket.socket, request: int, name: str) -> bytes:
    """Return a filled ``ifreq``, or one with zeros behind the name if the kernel does not say."""
    question = struct.pack("=16s24x", name.encode()[:15])
    try:
        return fcntl.ioctl(asked.fileno(), request, question)
    except OSError:
        return bytes(40)


def _arp_ignore(name: str, root: str = "/proc/sys/net/ipv4/conf") -> int | None:
    try:
        return max(int(Path(root, card, "arp_ignore").read_text()) for card in ("all", name))
    except (OSError, ValueError):
        return None


def _agreed(speed: int) -> int | None:
    """Return the speed; None if the driver does not say: psutil then has 0, and some drivers -1 in 16 bits."""
    return speed if speed > 0 and speed != _UNKNOWN else None


def _prefix_length(netmask: str | None) -> int:
    parsed = parse_address(netmask)
    return bin(int(parsed)).count("1") if parsed else 0


def can_bind(address: str) -> bool:
    """Return whether a socket of this process can be bound to ``address``, hence whether the host owns it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe_socket:
            probe_socket.bind((address, 0))
    except OSError:
        return False
    return True


def owned(address: str, ours: Sequence[Interface]) -> bool:
    """Return whether ``address`` is on one of the interfaces, or any loopback address."""
    parsed = parse_address(address)
    return parsed is not None and (
        parsed.is_loopback or any(parsed == parse_address(a) for i in ours for a in i.addresses)
    )


def route(target: str, port: int, ours: Sequence[Interface]) -> Route:
    """Return the source address and interface that the kernel picks for ``target``. A UDP connect(): no packet is
    sent."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe_socket:
            probe_socket.connect((target, port or 1))
            source = str(probe_socket.getsockname()[0]).partition("%")[0]
    except OSError as err:
        # Unknown without a port or a descriptor left for the socket.
        return Route(target, error=None if err.errno in _SHORT_OF else err.strerror or str(err))
    return Route(target, source, next((i.name for i in ours if source in i.addresses), None))


def reachable_address(ours: Sequence[Interface]) -> AddressChoice | None:
    """Return the address by which other hosts most probably reach this one: that of the default route, else the first
    global address on an interface that is up, those of VPNs and container networks last.

    None if there is only loopback, or a bridge for this host's containers that is not the default route.
    """
    defaults = default_route_interfaces()
    candidates = [
        (interface.name, address)
        for interface in ours
        if interface.up and not interface.loopback and (interface.device in defaults or not is_bridge(interface.device))
        for address in interface.addresses
        if (parsed := parse_address(address)) and not parsed.is_link_local and not parsed.is_loopback
    ]
    candidates.sort(key=lambda pair: (is_virtual(pair[0]), ":" in pair[1]))
    for name, address in candidates:
        if Interface(name).device in defaults and not is_virtual(name):
            return AddressChoice(address, name, "default route")
    return AddressChoice(candidates[0][1], candidates[0][0], "first interface") if candidates else None


def default_route_interfaces() -> set[str]:
    """Return the interfaces with a default route, from /proc/net/route and /proc/net/ipv6_route."""
    ipv4 = {c[0] for c in _rows("/proc/net/route") if len(c) > 7 and c[1] == "00000000" and c[7] == "00000000"}
    ipv6 = {c[9] for c in _rows("/proc/net/ipv6_route") if len(c) > 9 and c[0] == "0" * 32 and c[1] == "00"}
    return ipv4 | ipv6 - {"lo"}


def _rows(path: str) -> list[list[str]]:
    try:
        with open(path) as lines:
            return [line.split() for line in lines]
    except OSError:
        return []


# Interfaces that lost their link while this process watched, by the kernel's messages (rtnetlink(7)).


_NEW_LINK, _GET_LINK, _GROUP_LINK = 16, 18, 1
_INTERFACE_NAME, _CARRIER_DOWN_COUNT = 3, 48
_RUNNING = 0x40
_BODY = 16
_READ = 1 << 16


@dataclass
class _LinkState:
    """Interface by the last message about it."""

    name: str
    running: bool
    carrier_downs: int | None
    """Number of carrier losses since it exists; None before Linux 4.16."""
    events: int = 0
    """Number of times it stopped running since the watch began, by the messages."""
    carrier_downs_before: int | None = field(init=False)

    def __post_init__(self) -> None:
        self.carrier_downs_before = self.carrier_downs

    @property
    def losses(self) -> int:
        """Return the losses. The kernel may report a short one only once it is over, and counts none of a card switched
        off."""
        counted = (self.carrier_downs or 0) - (self.carrier_downs_before or 0)
        return max(self.events, counted)


class LinkWatch:
    """Watch of the links: the kernel keeps its messages between reads. Without netlink nothing is known."""

    def __init__(self) -> None:
        self._links: dict[int, _LinkState] = {}
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
        """Return the number of link losses of each interface so far, without those that had none."""
        while self._socket is not None:
            try:
                data = self._socket.recv(_READ)
            except BlockingIOError:
                break
            except OSError as err:
                if err.errno == 105:  # ENOBUFS: more than the kernel keeps; later messages still arrive
                    continue
                break
            for kind, body in netlink.messages(data):
                if kind == _NEW_LINK:
                    self._take(body)
        return {seen.name: seen.losses for seen in self._links.values() if seen.losses}

    @property
    def down(self) -> tuple[str, ...]:
        """Return the interfaces that lost their link and have none, by the messages that :meth:`losses` read."""
        return tuple(seen.name for seen in self._links.values() if seen.losses and not seen.running)

    def close(self) -> None:
        """Stop watching."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _take(self, body: bytes) -> None:
        family, index, flags = struct.unpack_from("=BxxxiI", body)
        if len(body) < _BODY or family != socket.AF_UNSPEC:
            return  # of a bridge's port
        attributes = netlink.attributes(body[_BODY:])
        name = attributes.get(_INTERFACE_NAME, b"").rstrip(b"\0").decode(errors="replace")
        count = attributes.get(_CARRIER_DOWN_COUNT)
        downs = struct.unpack_from("=I", count)[0] if count is not None and len(count) >= 4 else None
        running = bool(flags & _RUNNING)
        seen = self._links.setdefault(index, _LinkState(name, running, downs))
        if seen.running and not running:
            seen.events += 1
        seen.name, seen.running, seen.carrier_downs = name, running, downs
