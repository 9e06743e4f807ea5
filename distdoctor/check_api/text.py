"""Texts and links that several checks share: lists of names and ranks, look-ups, port holders, errors."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence

from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Node
from distdoctor.model.facts import PortHolder, Resolution
from distdoctor.model.text import duration_text as duration_text
from distdoctor.model.text import shortened

# -- names and addresses --------------------------------------------------------------------------------------------


def together(names: Iterable[str]) -> str:
    """Return names for a sentence: ``a``, ``a and b``, ``a, b and c``."""
    parts = list(names)
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def names_of(nodes: Iterable[Node]) -> str:
    """Return the names of nodes for a sentence: ``host0``, ``host0 and host1``, ``host0, host1 and host2``; of many,
    some."""
    return some_of(node.name for node in nodes)


def some_of(names: Iterable[str], limit: int = 8) -> str:
    """Return names for a sentence, with the number of those beyond ``limit``."""
    parts = list(names)
    if len(parts) <= limit:
        return together(parts)
    return f"{', '.join(parts[: limit - 2])} and {len(parts) - limit + 2} more"


def ranks_text(ranks: Sequence[int], none: str = "A rank") -> str:
    """Return ``Rank 1`` or ``Ranks 1 and 2``, to begin a sentence with; ``none`` if their numbers are unknown."""
    return f"Rank{'s' if len(ranks) > 1 else ''} {together(map(str, ranks))}" if ranks else none


def links_to(sources: Iterable[Node], name: str) -> tuple[tuple[str, str], ...]:
    """Return the links on which these nodes connect to the node called ``name``, which may be one of them."""
    return tuple((node.name, name) for node in sources if node.name != name)


def lookup_failed(look: Resolution, source: str | None = None) -> str:
    """Return how a failed look-up of a name ended, as evidence. ``source``: the origin of the name."""
    asked = f"{look.name} (from {source})" if source is not None else look.name
    if look.timed_out:
        return f"looking up {asked} timed out after {look.seconds:.1f} s"
    return f"looking up {asked} failed: {look.error or 'no address'}"


def errno_text(number: int | None) -> str:
    """Return the system's words for an error number."""
    return os.strerror(number) if number else "an unknown error"


def port_holder_evidence(holder: PortHolder, port: int) -> str:
    """Return the holder of a port as evidence; for a job's store, with the command to inspect the job."""
    held = f"{endpoint(holder.address, port)} is "
    held += f"the own end of a connection to {holder.peer}, " if holder.peer else ""
    if holder.pid is None:
        return f"{held}held by another user's process: not visible without root"
    job = f"; `distdoctor hang --pid {holder.pid}` shows what that job waits for"
    who = f"{held}held by {holder.name or 'a process'}, pid {holder.pid}, user {holder.user or '?'}"
    return f"{who}{job if holder.hosts_store else ''}"


SHOWN = 300
"""Most characters of an error's text that are shown."""


def shorten_error(text: str) -> str:
    """Return an error on one line of at most SHOWN characters, with its gloo ports corrected."""
    return shortened(ports_right(text), SHOWN)


def ports_right(text: str) -> str:
    """Correct gloo's remote ports, which it prints with swapped bytes (``remote=[10.0.0.5]:41904`` is 45219). Those of
    unanswered connections come from the kernel, and are right."""

    def right(match: re.Match[str]) -> str:
        port = int(match[2])
        return f"{match[1]}{(port & 0xFF) << 8 | port >> 8}" if port <= 0xFFFF else match[0]

    return re.sub(r"((?<!no answer from )remote=\[[0-9a-fA-F.:%\w]+\]:)(\d+)(?:\$\d+)?", right, text)
