"""NCCL's own rules: which interface its bootstrap and socket transport pick.

Source: NCCL src/misc/socket.cc, later also src/os/linux.cc (``ncclFindInterfaces``, ``findInterfaces``), and utils.cc
(``parseStringList``, ``matchIfList``): NCCL_SOCKET_IFNAME is a list of prefixes; ``^`` in front excludes them, ``=`` in
front asks for exact names; a value of one character is ignored, and one that names no interface is an error.
NCCL_SOCKET_FAMILY narrows to IPv4 or IPv6. Without the variable: interfaces whose names begin with ``ib``; else all but
``docker*``, ``lo*`` and, from 2.28 on, ``virbr*``; else ``docker*``; else ``lo*``; else ``virbr*``. NCCL_COMM_ID, which
adds a rule about subnets after the first, is not looked at: PyTorch does not set it. From 2.28 on an interface has to
be running; before, one that is down or has no carrier is taken, too. Of what is left it is the first of getifaddrs(),
which has the IPv4 addresses of all interfaces before any of IPv6. What real NCCLs of eight versions picked is kept in
tests/recorded/nccl.json.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Interface

Version = tuple[int, int]
NEWEST: Version = (9999, 0)
"""Whose rules are taken where the version is not known: the newest."""
RUNNING_ALONE: Version = (2, 28)


def version(text: str | None) -> Version:
    """``(2, 27)`` of ``2.27.5``; NEWEST where there is none."""
    found = re.match(r"(\d{1,4})\.(\d{1,4})", text or "")
    return (int(found[1]), int(found[2])) if found else NEWEST


def predict(variables: Mapping[str, str], interfaces: Sequence[Interface], nccl: Version = NEWEST) -> AddressChoice:
    """The interface and address that the bootstrap of an NCCL of this version will use on this node."""
    variable = variables.get("NCCL_SOCKET_IFNAME", "")
    family = {"AF_INET": 4, "AF_INET6": 6}.get(variables.get("NCCL_SOCKET_FAMILY", ""))
    seen = [(i.name, a) for i in interfaces if i.up or nccl < RUNNING_ALONE for a in i.addresses]
    usable = [one for one in seen if ":" not in one[1] and _counts(one[1], family)]
    usable += [one for one in seen if ":" in one[1] and _counts(one[1], family)]
    if len(variable) > 1:
        for name, address in usable:
            if matches(variable, name):
                return AddressChoice(address, name, "variable", variable)
        return AddressChoice(None, None, "not-found", variable)
    others = "^docker,lo" if nccl < RUNNING_ALONE else "^docker,lo,virbr"
    for pattern in ("ib", others, "docker", "lo", "virbr"):
        for name, address in usable:
            if matches(pattern, name):
                return AddressChoice(address, name, "order")
    return AddressChoice(None, None, "not-found")


def matches(pattern: str, name: str) -> bool:
    """Whether NCCL_SOCKET_IFNAME=``pattern`` takes the interface ``name``."""
    excluded = pattern.startswith("^")
    text = pattern[1:] if excluded else pattern
    exact = text.startswith("=")
    parts = [part.partition(":")[0] for part in (text[1:] if exact else text).split(",") if part]
    found = any(name == part if exact else name.startswith(part) for part in parts)
    return found != excluded


def _counts(address: str, family: int | None) -> bool:
    parsed = parse_address(address)
    if parsed is None or (family is not None and parsed.version != family):
        return False
    return not (parsed.version == 6 and parsed.is_loopback)
