"""Gloo's own rules: which address it advertises and which side of a pair connects.

Sources: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp (``createDefaultDevice``, ``createDeviceForInterface``),
gloo/transport/tcp/device.cc (``lookupAddrForIface``, ``lookupAddrForHostname``, ``isInitiator``); each was seen in
runs of torch 2.13.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from distdoctor.cluster import parse
from distdoctor.facts import AddressChoice, Interface, Resolution


def predict(
    variables: Mapping[str, str],
    own_name: Resolution,
    interfaces: Sequence[Interface],
    can_bind: Callable[[str], bool],
) -> AddressChoice:
    """The address gloo will advertise on this node.

    GLOO_SOCKET_IFNAME, if not empty: the first address of the interface of that exact name (of a list, the first
    one). Else the first address of the own host name that can be bound (loopback counts). Else 127.0.0.1.
    """
    variable = variables.get("GLOO_SOCKET_IFNAME", "")
    if variable:
        name = variable.split(",")[0]
        for interface in interfaces:
            if interface.name == name and interface.addresses:
                return AddressChoice(interface.addresses[0], name, "variable", variable)
        return AddressChoice(None, None, "not-found", variable)
    for address in own_name.addresses:
        if can_bind(address):
            owner = next((i.name for i in interfaces if address in i.addresses), None)
            if owner is None and (parsed := parse(address)) and parsed.is_loopback:
                owner = next((i.name for i in interfaces if i.loopback), None)
            return AddressChoice(address, owner, "hostname")
    return AddressChoice("127.0.0.1", next((i.name for i in interfaces if i.loopback), "lo"), "fallback")


def initiates(mine: str, theirs: str) -> bool:
    """Whether the rank at address ``mine`` is the one that connects: the numerically larger address does.

    Compares the bytes in network order, IPv6 (family 10) above IPv4 (family 2) as ``isInitiator`` does. Equal
    addresses are told apart by port, which is not known before; then neither is said to initiate.
    """
    return _order(mine) > _order(theirs)


def _order(address: str) -> tuple[int, bytes]:
    parsed = parse(address)
    if parsed is None:
        return 0, b""
    return socket.AF_INET if parsed.version == 4 else socket.AF_INET6, parsed.packed
