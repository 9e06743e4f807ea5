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
    return _more_than_an_address(stripped) or _space_problem(text) or _no_name(stripped) or (None, None)


def _more_than_an_address(text: str) -> tuple[str, str | None] | None:
    """Return the problem of an address with quotes, a scheme, brackets or a port, and the address in it."""
    if (inside := unquoted(text)) != text:
        return "has quotes in it", intended_address(inside)
    if scheme := re.match(r"^[a-z][a-z0-9+.-]*://(.*)$", text):
        return "is a URL, not a host name or address", intended_address(scheme[1].split("/")[0])
    if bracketed := re.fullmatch(r"\[([0-9a-fA-F:.]+)\](?::\d+)?", text):
        return "has brackets, which belong into URLs only", bracketed[1]
    if re.fullmatch(r"[^:]+:\d+", text):
        return "has a port in it; the port goes into MASTER_PORT", text.partition(":")[0]
    return None


def _space_problem(text: str) -> tuple[str, str | None] | None:
    stripped = text.strip()
    if re.search(r"\s", stripped):
        return "has a space in it", None
    if text == f"{stripped}\r":
        return "has Windows' end of a line in it, as has the script or file that sets it", stripped
    return ("has a space in it", stripped) if stripped != text else None


def _no_name(text: str) -> tuple[str, str | None] | None:
    """Return the problem of a text that no host can be called by."""
    octets = re.fullmatch(r"(\d+)\.(\d+)\.(\d+)\.(\d+)", text)
    if octets and any(int(part) > 255 for part in octets.groups()):
        return "looks like an IPv4 address, but its parts go to 255 at most", None
    if ":" in text and not is_ipv6(text):
        return "has a colon in it and is no IPv6 address", None
    if len(names := expand(text)) > 1 and all(name[:1].isalpha() for name in names):
        return f"is a list of {len(names)} nodes, not one of them", names[0]
    if ".." in text:
        return "has two dots in a row, as no name has", None
    if re.search(r"[/\\,;@\[\]\"'()]", text):
        return "has a character that no host name or address has", None
    return None


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
