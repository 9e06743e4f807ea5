"""IP addresses and endpoints as text."""

from __future__ import annotations

import ipaddress
from functools import lru_cache


@lru_cache(maxsize=65536)
def parse_address(address: str | None) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the parsed address, v4-mapped IPv6 as IPv4; None if it is not numeric."""
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
    """Return whether ``address`` never leads to another host: loopback; 0.0.0.0 and ::, which Linux takes for loopback;
    multicast."""
    parsed = parse_address(address)
    return parsed is not None and (parsed.is_loopback or parsed.is_unspecified or parsed.is_multicast)


def in_network(own: str, length: int, address: str) -> bool:
    """Return whether ``address`` is in the network of ``own``, whose prefix has ``length`` bits."""
    mine, other = parse_address(own), parse_address(address)
    if mine is None or other is None or mine.version != other.version or not 0 < length <= mine.max_prefixlen:
        return False
    return int(mine) >> (mine.max_prefixlen - length) == int(other) >> (mine.max_prefixlen - length)


def is_ipv6(text: str) -> bool:
    try:
        ipaddress.IPv6Address(text)
    except ValueError:
        return False
    return True


def endpoint(address: str, port: int) -> str:
    """Return the rendezvous endpoint that :func:`split_endpoint` splits."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
