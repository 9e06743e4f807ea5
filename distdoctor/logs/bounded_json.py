"""JSON from outside, in bounded memory: the values in it are counted before they are made."""

from __future__ import annotations

import json
from typing import Any

import msgspec

MOST_VALUES = 1_000_000
"""Of one document; an empty list of three characters takes some seventy bytes."""
SHORT = 1 << 20
"""Bytes of a document that Python's own decoder reads: it copies the whole of it, up to four times as large."""


def loads(text: bytes | str, most: int = MOST_VALUES) -> Any:
    """What ``text`` holds. Raises ValueError where it is no JSON, has more than ``most`` values or is too deep."""
    if len(text) > most and values(text) > most:
        raise ValueError(f"more than {most} values")
    try:
        return json.loads(text) if len(text) <= SHORT else msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as err:
        raise ValueError(str(err)[:200]) from None


def values(text: bytes | str) -> int:
    """How many values there may be in it, at most."""
    if isinstance(text, bytes):
        return 1 + text.count(b",") + text.count(b"[") + text.count(b"{")
    return 1 + text.count(",") + text.count("[") + text.count("{")
