"""A listener of another node, to which links are measured."""

from __future__ import annotations

from dataclasses import dataclass

TOKEN_BYTES = 32
"""Of the token that the doctor's own listeners ask for."""


@dataclass(frozen=True)
class Target:
    """An address of a node that the others try to reach, and who would use it."""

    member: int
    key: str
    address: str
    port: int
    use: tuple[str, ...]
