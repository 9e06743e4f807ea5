"""Whether this host gets to a port of its own: its ranks meet each other so, by the loopback interface."""

from __future__ import annotations

import socket
from contextlib import suppress

from distdoctor.model.facts import Contact
from distdoctor.probes.connect import connect

SECONDS = 1.0
"""Nothing is lost on this way: what is not there at once was dropped."""


async def reached(address: str | None) -> Contact | None:
    """How a connection to a port of this host at ``address`` ends, which is one of its own, else 127.0.0.1; None where
    nothing can listen there."""
    at = address or "127.0.0.1"
    if "%" in at:  # a link-local one, which gloo does not take
        return None
    with suppress(OSError), socket.socket(socket.AF_INET6 if ":" in at else socket.AF_INET) as listening:
        listening.bind((at, 0))
        listening.listen(1)
        return await connect(at, listening.getsockname()[1], SECONDS)
    return None
