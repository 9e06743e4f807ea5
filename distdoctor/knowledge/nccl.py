"""NCCL's own rules: which interface its bootstrap and socket transport pick.

Source: NCCL src/misc/socket.cc (``ncclFindInterfaces``, ``findInterfaces``) and utils.cc (``parseStringList``,
``matchIfList``): NCCL_SOCKET_IFNAME is a list of prefixes; ``^`` in front excludes them, ``=`` in front asks for exact
names; a value of one character is ignored, and one that names no interface is an error. NCCL_SOCKET_FAMILY narrows to
IPv4 or IPv6. Without the variable: interfaces whose names begin with ``ib``; else all but ``docker*``, ``lo*`` and
(newer versions) ``virbr*``; else ``docker*``; else ``lo*``; else ``virbr*``. NCCL_COMM_ID, which adds a rule about
subnets after the first, is not looked at: PyTorch does not set it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Interface


def predict(variables: Mapping[str, str], interfaces: Sequence[Interface]) -> AddressChoice:
    """The interface and address that NCCL's bootstrap will use on this node."""
    variable = variables.get("NCCL_SOCKET_IFNAME", "")
    family = {"AF_INET": 4, "AF_INET6": 6}.get(variables.get("NCCL_SOCKET_FAMILY", ""))
    usable = [(i.name, a) for i in interfaces if i.up for a in i.addresses if _counts(a, family)]
    if len(variable) > 1:
        for name, address in usable:
            if matches(variable, name):
                return AddressChoice(address, name, "variable", variable)
        return AddressChoice(None, None, "not-found", variable)
    for pattern in ("ib", "^docker,lo,virbr", "docker", "lo", "virbr"):
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
