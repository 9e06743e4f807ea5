"""Pieces of text and of blame that several checks share."""

from __future__ import annotations

import re
from collections.abc import Iterable

from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Node
from distdoctor.model.error_text import shortened
from distdoctor.model.facts import PortHolder

# -- names and addresses --------------------------------------------------------------------------------------------


def together(names: Iterable[str]) -> str:
    """Names for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    parts = list(names)
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def names_of(nodes: Iterable[Node]) -> str:
    """The names of nodes for a sentence: ``host0``, ``host0 and host1``, ``host0, host1 and host2``."""
    return together(node.name for node in nodes)


def some_of(names: Iterable[str], limit: int = 8) -> str:
    """Names for a sentence, but for those beyond ``limit``, which are counted."""
    parts = list(names)
    if len(parts) <= limit:
        return together(parts)
    return f"{', '.join(parts[: limit - 2])} and {len(parts) - limit + 2} more"


def port_holder_seen(holder: PortHolder, port: int) -> str:
    """Who has the port, for the evidence."""
    held = f"{endpoint(holder.address, port)} is "
    held += f"the own end of a connection to {holder.peer}, " if holder.peer else ""
    if holder.pid is None:
        return f"{held}held by another user's process: not visible without root"
    return f"{held}held by {holder.name or 'a process'}, pid {holder.pid}, user {holder.user or '?'}"


SHOWN = 300
"""Characters of an error's text that are shown."""


def shorten_error(text: str) -> str:
    """An error on one line of at most SHOWN characters, its gloo ports put right."""
    return shortened(ports_right(text), SHOWN)


def ports_right(text: str) -> str:
    """gloo prints the ports of remote addresses with their two bytes swapped (``remote=[10.0.0.5]:41904`` is 45219)."""

    def right(match: re.Match[str]) -> str:
        port = int(match[2])
        return f"{match[1]}{(port & 0xFF) << 8 | port >> 8}" if port <= 0xFFFF else match[0]

    return re.sub(r"(remote=\[[0-9a-fA-F.:%\w]+\]:)(\d+)(?:\$\d+)?", right, text)
