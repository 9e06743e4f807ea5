"""Syntax of node lists, number lists and master addresses."""

from __future__ import annotations

import re

from distdoctor.model.addresses import is_ipv6

MAX_NODES = 100_000
MAX_LENGTH = 1 << 20


def expand(text: str) -> tuple[str, ...]:
    """Return the names in ``gpu[01-16],extra7``; empty if it is no such list."""
    if not text or len(text) > MAX_LENGTH or not re.fullmatch(r"[\w.,\[\]-]+", text):
        return ()
    if "[" not in text:
        return tuple(text.split(","))
    # Here: start-up is light. No resolver: ClusterShell would look "@group" up by running site commands.
    from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

    try:
        # One after the other: in SLURM's order, where a set would be sorted.
        parts = [NodeSet(part, resolver=RESOLVER_NOGROUP) for part in re.split(r",(?![^\[]*\])", text)]
        names = [name for part in parts for name in (part if len(part) <= MAX_NODES else ())]
    except (NodeSetException, ValueError):
        return ()
    return tuple(dict.fromkeys(names)) if len(names) <= MAX_NODES else ()


def repeated(text: str) -> tuple[int, ...]:
    """Return the numbers in ``2(x3),1``; empty if it is no such list."""
    numbers: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"(\d{1,6})(?:\(x(\d{1,6})\))?", part)
        if match is None or len(numbers) > MAX_NODES:
            return ()
        numbers += [int(match[1])] * min(int(match[2] or 1), MAX_NODES)
    return tuple(numbers)


def number_of(text: str | None) -> int | None:
    """Return ``text`` as a number; None if it is none."""
    return int(text) if text is not None and re.fullmatch(r"\d{1,10}", text.strip()) else None


def whole_number(text: str) -> int | None:
    """Return the number that Python's int() makes of ``text``, as torch does with its variables: blanks around it, a
    sign and ``29_500`` are allowed. None if it is none, or one of more than 18 digits."""
    return int(text) if re.fullmatch(r"\s*[+-]?\d(?:_?\d){0,17}\s*", text) else None


# Master addresses as people write them: their errors, and the intended address.


_PLACEHOLDERS = (
    r"[<>${}]",
    r"(?:^|\.)X{2,}(?:\.|$)",
    r"^[\dx]+(?:\.[\dx]+)*\.x+$",
    r"(?i)^(your|my)?[-_ ]?(master|node0|head)[-_ ]?(ip|addr\w*)$",
)
"""Placeholders of templates: ``<IP>``, ``$MASTER``, ``10.0.0.XX``, ``192.168.1.x``, ``MASTER_IP``."""


def address_problem(text: str) -> tuple[str | None, str | None]:
    """Return the reason that ``text`` is no hostname or address, and the intended one; (None, None) if it can be
    one."""
    stripped = text.strip()
    if not stripped:
        return "is empty", None
    if any(re.search(pattern, stripped) for pattern in _PLACEHOLDERS):
        return "is a placeholder that was never filled in", None
    if (inside := unquoted(stripped)) != stripped:
        return "has quotes in it", intended_address(inside)
    scheme = re.match(r"^[a-z][a-z0-9+.-]*://(.*)$", stripped)
    if scheme:
        return "is a URL, not a host name or address", intended_address(scheme[1].split("/")[0])
    bracketed = re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::\d+)?", stripped)
    if bracketed:
        return "has brackets, which belong into URLs only", bracketed[1]
    if re.fullmatch(r"[^:]+:\d+", stripped):
        return "has a port in it; the port goes into MASTER_PORT", stripped.partition(":")[0]
    if stripped != text or re.search(r"\s", stripped):
        meant = stripped if not re.search(r"\s", stripped) else None
        if meant and text == f"{meant}\r":
            return "has Windows' end of a line in it, as has the script or file that sets it", meant
        return "has a space in it", meant
    octets = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", stripped)
    if octets and any(int(part) > 255 for part in octets.groups()):
        return "looks like an IPv4 address, but its parts go to 255 at most", None
    if ":" in stripped and not is_ipv6(stripped):
        return "has a colon in it and is no IPv6 address", None
    if len(names := expand(stripped)) > 1 and all(name[0].isalpha() for name in names):
        return f"is a list of {len(names)} nodes, not one of them", names[0]
    if ".." in stripped:
        return "has two dots in a row, as no name has", None
    if re.search(r"[/\\,;@\[\]\"'()]", stripped):
        return "has a character that no host name or address has", None
    return None, None


def unquoted(text: str) -> str:
    """Return the text in quotes, which docker's --env-file keeps and a shell removes."""
    stripped = text.strip()
    quoted = re.fullmatch(r"(['\"])(.*)\1", stripped)
    return quoted[2].strip() if quoted else stripped


def intended_address(text: str) -> str | None:
    """Return the host part of ``text`` if it is a well-formed address once cleaned, else None."""
    why, meant = address_problem(text)
    return text if why is None else meant


def split_endpoint(text: str) -> tuple[str, int | None]:
    """Split HOST[:PORT] or [IPV6][:PORT]."""
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d{1,18}))?", text) or re.fullmatch(r"([^:]*):(\d{1,18})", text)
    if match is None:
        return text, None
    return match[1], int(match[2]) if match[2] else None
