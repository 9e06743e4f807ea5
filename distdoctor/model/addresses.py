"""Addresses as numbers."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=65536)
def parse_address(address: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The address as a number, v4-mapped IPv6 as IPv4; None where it is not a numeric address."""
    try:
        parsed = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return None
    if isinstance(parsed, ipaddress.IPv6Address) and parsed.ipv4_mapped:
        return parsed.ipv4_mapped
    return parsed


@lru_cache(maxsize=65536)
def is_loopback(address: str | None) -> bool:
    """Return whether ``address`` is in 127.0.0.0/8 or ::1. A name or None is not."""
    parsed = parse_address(address)
    return parsed is not None and parsed.is_loopback


def reaches_no_other(address: str | None) -> bool:
    """Return whether no other host is reached at ``address``, whoever asks: one of loopback's; 0.0.0.0 and ::, for
    which Linux takes these; of multicast."""
    parsed = parse_address(address)
    return parsed is not None and (parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast)


def in_network(own: str, length: int, address: str) -> bool:
    """Return whether ``address`` is in the network of ``own``, whose prefix is so many bits long."""
    one, other = parse_address(own), parse_address(address)
    if one is None or other is None or one.version != other.version or not 0 < length <= one.max_prefixlen:
        return False
    return int(one) >> (one.max_prefixlen - length) == int(other) >> (one.max_prefixlen - length)


def is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def endpoint(address: str, port: int) -> str:
    """The rendezvous endpoint that :func:`split_endpoint` takes apart."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
