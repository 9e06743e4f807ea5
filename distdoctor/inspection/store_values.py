"""What ranks and agents write into a job's store, read as data from somebody who is not trusted.

gloo/transport/tcp/context.cc ``Rank::bytes`` (torch 2.2 and later): u64 length and host name; u64 136, sockaddr_storage
of 128 bytes and an i64; then an i64 for each rank of the group. Its unused bytes are whatever was in memory: they are
never told. Before, ``rank_<r>`` is the host name, and ``<r>`` an address of 136 bytes for each other rank.
"""

from __future__ import annotations

import ipaddress
import json
import struct

from distdoctor.model.facts import Member
from distdoctor.model.sanitize import fit

MAX_WORLD = 1_000_000
_ADDRESS = 136
_AF_INET, _AF_INET6 = 2, 10


def member(rank: int, value: bytes, host: bytes = b"") -> Member:
    """What ``rank`` wrote; no more than its number where this is of another kind (another backend, another system).

    ``host``: its host's name, where that was written apart (torch 2.1).
    """
    if len(value) >= 16:
        (length,) = struct.unpack_from("=Q", value)
        rest = len(value) - 16 - length
        if 0 < length < 1024 and rest >= _ADDRESS and rest % 8 == 0:
            (size,) = struct.unpack_from("=Q", value, 8 + length)
            if size == _ADDRESS:
                ids = value[16 + length + _ADDRESS :]
                # Pairs that are made only when they are used have no ids yet (TORCH_GLOO_LAZY_INIT, torch 2.8).
                world = len(ids) // 8 or None
                return Member(rank, _text(value[8 : 8 + length]), *_address(value[16 + length :]), world)
    if host and value and len(value) % _ADDRESS == 0:
        return Member(rank, _text(host), *_address(value), len(value) // _ADDRESS + 1)
    return Member(rank, _text(host))


def counted(value: bytes) -> int | None:
    """A counter: decimal digits."""
    return int(value) if value.isdigit() and len(value) <= 18 else None


def role(value: bytes) -> int | None:
    """How many ranks an agent starts, of what it told: ``{"role": ..., "rank": ..., "local_world_size": ...}``."""
    told = _json(value)
    number = told.get("local_world_size") if isinstance(told, dict) else None
    return _rank_count(number)


def share(value: bytes) -> tuple[int | None, int | None]:
    """The first rank of an agent and the number of all ranks: ``[first, world, first of the role, its world]``."""
    told = _json(value)
    if not isinstance(told, list) or len(told) != 4:
        return None, None
    return (told[0] if _rank_count(told[0]) is not None else None), _rank_count(told[1])


def host_and_port(address: bytes, port: bytes) -> tuple[str, int] | None:
    """What MASTER_ADDR and MASTER_PORT say; None where that is no address."""
    number = counted(port)
    text = address.decode("utf-8", "replace")
    if not number or number > 65535 or not text or len(text) > 255 or not _is_host(text):
        return None
    return text, number


def url(value: bytes) -> str:
    """An address of HTTP; empty where it is none."""
    text = value.decode("utf-8", "replace")
    return fit(text) if text.startswith("http://") else ""


def _is_host(text: str) -> bool:
    return all(char.isascii() and (char.isalnum() or char in "-_.:") for char in text)


def _json(value: bytes) -> object:
    if len(value) > 4096:
        return None
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return None


def _rank_count(value: object) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_WORLD else None


def _text(value: bytes) -> str:
    return fit(value.rstrip(b"\0").decode("utf-8", "backslashreplace"))


def _address(value: bytes) -> tuple[str, int | None]:
    """Of a sockaddr_storage: the family as this machine has it, the port and the address as on the network."""
    (family,) = struct.unpack_from("=H", value)
    (port,) = struct.unpack_from("!H", value, 2)
    if family == _AF_INET:
        return str(ipaddress.IPv4Address(value[4:8])), port
    if family == _AF_INET6:
        return str(ipaddress.IPv6Address(value[8:24])), port
    return "", None
