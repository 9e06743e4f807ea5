"""The policies of IPsec that this host has, and whether they have what they ask for (linux/xfrm.h)."""

from __future__ import annotations

import ipaddress
import socket
import struct
from collections.abc import Collection, Iterator
from operator import itemgetter
from typing import Literal

from distdoctor.model.facts import IpsecPolicy
from distdoctor.probes.netlink import XFRM, attributes, dump

MOST = 64
"""Policies beyond which they are left alone: a gateway's, and no node's."""
_GETPOLICY, _NEWPOLICY, _GETSA, _NEWSA = 0x15, 0x13, 0x12, 0x10
_TEMPLATES, _MARK, _IF_ID = 5, 21, 31
"""XFRMA_TMPL: an array of struct xfrm_user_tmpl. XFRMA_MARK and XFRMA_IF_ID: the policy is for packets with a mark (of
a CNI, or by a tunnel of type vti), or for what is sent by an interface of type xfrm."""
_SELECTOR = "=16s16sHHHHHBBBxxxiI"
"""struct xfrm_selector: to, from, the ports with a mask each, the family, the lengths of the prefixes, the protocol."""
_TEMPLATE = 64
_LIFETIMES = 96
_WAYS: dict[int, Literal["in", "out"]] = {0: "in", 1: "out"}
_BLOCK = 1
_TRANSPORT = 0

Keyed = Collection[tuple[bytes, int]]
"""(to whom, the protocol) of associations."""


def policies() -> tuple[IpsecPolicy, ...]:
    """Those for TCP in and out of this host, in the kernel's order; nothing where the kernel does not tell this user,
    or has more than any node's. Of equal priorities the oldest comes first, which is told last."""
    keyed, found = set(_associations()), list[tuple[int, IpsecPolicy]]()
    for body in dump(_GETPOLICY, _NEWPOLICY, XFRM):
        told = _policy(body, keyed)
        if told is not None:
            found.insert(0, told)
        if len(found) > MOST:
            return ()
    return tuple(one for _, one in sorted(found, key=itemgetter(0)))


def _policy(body: bytes, keyed: Keyed) -> tuple[int, IpsecPolicy] | None:
    """(priority, policy); None for one of forwarded packets, of an interface, a mark or a user, or of another
    protocol."""
    to, source, dport, dmask, sport, smask, family, dlength, slength, protocol, card, user = struct.unpack_from(
        _SELECTOR, body
    )
    at = struct.calcsize(_SELECTOR) + _LIFETIMES
    priority, _, way, action = struct.unpack_from("=IIBB", body, at)
    if way not in _WAYS or family not in (socket.AF_INET, socket.AF_INET6) or protocol not in (0, socket.IPPROTO_TCP):
        return None
    if card or user or dmask not in (0, 0xFFFF) or smask not in (0, 0xFFFF):
        return None
    fields = attributes(body[at + 16 :])
    if _MARK in fields or _IF_ID in fields:
        return None
    wanted = list(_templates(fields.get(_TEMPLATES, b"")))
    return priority, IpsecPolicy(
        _WAYS[way],
        4 if family == socket.AF_INET else 6,
        _network(source, slength, family),
        _network(to, dlength, family),
        source_port=socket.ntohs(sport) if smask else None,
        target_port=socket.ntohs(dport) if dmask else None,
        tcp=protocol == socket.IPPROTO_TCP,
        block=action == _BLOCK,
        lacks=not all(_there(keyed, proto, end or to, 128 if end else dlength) for end, proto in wanted),
    )


def _templates(several: bytes) -> Iterator[tuple[bytes, int]]:
    """(to whom, the protocol) of each association that a policy asks for and that may not be missing; to nobody where
    it is to whom the packet is for: in transport mode, and where the policy names none."""
    for at in range(0, len(several) - _TEMPLATE + 1, _TEMPLATE):
        end, _, protocol = struct.unpack_from("=16sIB", several, at)
        mode, _, optional = several[at + 48 : at + 51]
        if not optional:
            yield (end if mode != _TRANSPORT and any(end) else b""), protocol


def _there(keyed: Keyed, protocol: int, to: bytes, length: int) -> bool:
    """Whether there is an association of the protocol to anybody in this network; an address of IPv4 is the first four
    bytes of its sixteen."""
    wanted = int.from_bytes(to, "big") >> (128 - length)
    return any(its == protocol and int.from_bytes(end, "big") >> (128 - length) == wanted for end, its in keyed)


def _associations() -> Iterator[tuple[bytes, int]]:
    """(to whom, the protocol) of those that are there; one that is only asked for has no number (SPI) yet."""
    for body in dump(_GETSA, _NEWSA, XFRM):
        to, number, protocol = struct.unpack_from("=16sIB", body, struct.calcsize(_SELECTOR))
        if number:
            yield to, protocol


def _network(number: bytes, length: int, family: int) -> str:
    size = 4 if family == socket.AF_INET else 16
    return f"{ipaddress.ip_address(number[:size])}/{length}"
