"""The lines between the place that a run is started from and ``distdoctor remote`` on each of its hosts.

A line is a mark and a JSON object. To the host: the order (its ``task``, ``check`` unless it is ``hang`` or ``files``,
and what that needs; ``way``, ``env``, ``cwd``), ``go`` with who is ``missing``, ``beat``, ``stop``. From it: ``hello``,
``beat``, ``stage``, ``note``, ``facts``; ``nothing``: why there are none; ``file``, ``data``, ``unread``, and ``sent``
once there are no more files.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping
from typing import Any

MARK = b"@distdoctor "
"""Begins what is meant for the other end; what a login shell prints is left out, also before it on the same line, as
the title of a terminal."""
BEAT_SECONDS = 1.0
SILENT_SECONDS = 10.0
"""After so much silence the other end is taken for gone: ssh may hold a dead connection for minutes. A connection that
ends, as where a process is killed, is noticed at once. Not less: what the network lost, TCP sends again 0.2, 0.6, 1.4,
3.0 and 6.2 s later (from 0.2 s on, doubled), so that after an outage of 3.1 s nothing comes until 6.2 s; and a place
that gets no processor says nothing either. Neither may end a run."""
MOST_LINE = 16 << 20
"""The longest line that is kept until its end comes, in bytes: facts of 64 MB become less."""
MOST_BYTES = 2 << 30
"""Of all files that are taken from one host."""
MOST_FACTS = 64 << 20
"""The most bytes of facts that are taken from one host."""


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as the line that carries it."""
    return MARK + json.dumps(message).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any] | None:
    """The message of a line; None where it is none."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def deflated(data: bytes) -> str:
    """Facts as they go into a message."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def inflated(text: object) -> bytes | None:
    """Facts out of a message; None where they are none, or too large."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(str(text), validate=True), MOST_FACTS)
    except (ValueError, zlib.error):
        return None
    return data if unpacker.eof else None
