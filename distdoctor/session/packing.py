"""The report on its way: what it says of each node is much the same, and every process reads all of it."""

from __future__ import annotations

import zlib

from distdoctor.model.facts import BadFacts

MOST = 64 << 20
"""Bytes that a report may have: as many as it could have in its parts as it is."""
LEVEL = 1
"""The quickest: that of 1,024 nodes becomes a twentieth."""


def pack(data: bytes) -> bytes:
    """``data``, made small."""
    return zlib.compress(data, LEVEL)


def unpack(packed: bytes) -> bytes:
    """The bytes that were packed. Raises BadFacts where these were not, or where they are more than a report has."""
    unpacking = zlib.decompressobj()
    try:
        data = unpacking.decompress(packed, MOST)
    except zlib.error as err:
        raise BadFacts(str(err)) from None
    if not unpacking.eof:
        raise BadFacts("it is cut off, or larger than a report can be")
    return data
