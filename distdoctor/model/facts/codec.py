"""JSON of the facts, and the file that ``--save`` writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from distdoctor.model.facts.node import SCHEMA_VERSION, NodeFacts
from distdoctor.model.text import encodable

T = TypeVar("T")
MOST_VALUES = 8_000_000
"""Limit of the values in a file. A thousand nodes' reports have some millions; an empty list of two bytes takes sixty
once it is read."""
_END = 150
"""Characters kept of either end of an error."""


class BadFacts(Exception):
    """Facts file or message that is invalid; the text names the place."""


def encode(value: object) -> bytes:
    """Return facts (any dataclass of this package) as one line of JSON."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(value))


def decode(data: bytes, kind: type[T]) -> T:
    """Return the dataclass ``kind`` from JSON, with every type checked. Raises BadFacts."""
    if len(data) > MOST_VALUES and sum(map(data.count, (b",", b"[", b"{"))) > MOST_VALUES:
        raise BadFacts(f"more than {MOST_VALUES} values")
    try:
        return msgspec.json.decode(data, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as err:
        raise BadFacts(_short(str(err))) from None


def _short(text: str) -> str:
    """Return the two ends of an error: the problem, and its place; it quotes a value whole, however long."""
    return text if len(text) <= 2 * _END else f"{text[:_END]}...{text[-_END:]}"


@dataclass(frozen=True)
class FactsFile:
    """File that ``--save`` writes and ``diagnose`` reads: the facts of one or more processes."""

    facts: tuple[NodeFacts, ...]
    distdoctor: str
    schema_version: int = SCHEMA_VERSION
