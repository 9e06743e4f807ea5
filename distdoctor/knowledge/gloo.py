"""Gloo's own rules: which address it advertises and which side of a pair connects.

Sources: torch/csrc/distributed/c10d/ProcessGroupGloo.cpp (``createDefaultDevice``, ``createDeviceForInterface``),
gloo/transport/tcp/device.cc (``lookupAddrForIface``, ``lookupAddrForHostname``, ``isInitiator``); each was seen in
runs of torch 2.13.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence

from distdoctor.knowledge.settings import gloo_device_names
from distdoctor.model.addresses import parse_address
from distdoctor.model.facts import AddressChoice, Interface, Resolution


def predict(
    variables: Mapping[str, str], own_name: Resolution, interfaces: Sequence[Interface], can_bind: Callable[[str], bool]
) -> AddressChoice:
    """Return the address that gloo will advertise on this node.

    With GLOO_SOCKET_IFNAME: the first address of the interface of that exact name; each name of a list gets one, and an
    unknown name fails all. Else the first bindable address of the own hostname (loopback counts). Else 127.0.0.1.
    """
    variable = variables.get("GLOO_SOCKET_IFNAME", "")
    names = gloo_device_names(variable)
    if names:
        first_of = {i.name: i.addresses[0] for i in reversed(interfaces) if i.addresses}
        if not all(name in first_of for name in names):
            return AddressChoice(None, None, "not-found", variable)
        return AddressChoice(first_of[names[0]], names[0], "variable", variable)
    for address in own_name.addresses:
        if can_bind(address):
            owner = next((i.name for i in interfaces if address in i.addresses), None)
            if owner is None and (parsed := parse_address(address)) and parsed.is_loopback:
                owner = next((i.name for i in interfaces if i.loopback), None)
            return AddressChoice(address, owner, "hostname")
    return AddressChoice("127.0.0.1", next((i.name for i in interfaces if i.loopback), "lo"), "fallback")


def further_addresses(variables: Mapping[str, str], interfaces: Sequence[Interface]) -> tuple[AddressChoice, ...]:
    """Return the addresses of gloo's further devices: it makes one for each name in GLOO_SOCKET_IFNAME."""
    variable = variables.get("GLOO_SOCKET_IFNAME", "")
    first_of = {i.name: i.addresses[0] for i in reversed(interfaces) if i.addresses}
    names = gloo_device_names(variable)
    if not all(name in first_of for name in names):
        return ()
    return tuple(AddressChoice(first_of[name], name, "variable", variable) for name in names[1:])


def initiates(mine: str, theirs: str) -> bool:
    """Return whether the rank at address ``mine`` connects: the numerically larger address does.

    Compares the bytes in network order, IPv6 (family 10) above IPv4 (family 2) as ``isInitiator`` does. Equal addresses
    are compared by port, which is not known beforehand; then neither is said to initiate.
    """
    return _order(mine) > _order(theirs)


def _order(address: str) -> tuple[int, bytes]:
    parsed = parse_address(address)
    if parsed is None:
        return 0, b""
    return socket.AF_INET if parsed.version == 4 else socket.AF_INET6, parsed.packed
