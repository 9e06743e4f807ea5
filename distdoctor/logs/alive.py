"""Who made steps between two known lines of a log: what had been said before was survived."""

from __future__ import annotations

from collections import deque

from distdoctor.logs.attribution import readable, split, within
from distdoctor.logs.ending import PROGRESS
from distdoctor.model.facts.logs import Who

STEPS = 3
"""Different lines with steps that somebody who works has written at least."""
MANY = 10
"""So many are more than others make until they notice that a rank has ended."""
LOOKED_AT = 8 << 10
"""Bytes before a known line in which they are looked for."""
KEPT = 16
"""Such pieces of one log that are kept, the last ones."""


class Alive:
    """The pieces of one log before its known lines."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque(maxlen=KEPT)

    def before(self, line: int, piece: bytes) -> None:
        """``piece`` stands before the known line ``line``."""
        if piece.count(b"\n") + piece.count(b"\r") > STEPS and (PROGRESS.search(piece[-LOOKED_AT:].decode("latin-1"))):
            self._pieces.append((line, piece[-LOOKED_AT:]))

    def told(self, file: Who, least: int = STEPS) -> tuple[tuple[tuple[object, ...], int], ...]:
        """See :class:`distdoctor.model.facts.logs.LogSource`; ``file`` is whom all of the log is from, ``least`` how
        many steps count."""
        found: dict[tuple[object, ...], int] = {}
        for line, piece in self._pieces:
            steps: dict[tuple[object, ...], set[str]] = {}
            for raw in piece.replace(b"\r", b"\n").splitlines():
                who, text = split(readable(raw[:400]))
                if PROGRESS.search(text):
                    steps.setdefault(speaker(within(who, file)), set()).add(text)
            found.update({who: line for who, texts in steps.items() if len(texts) >= least})
        return tuple(found.items())


def speaker(who: Who) -> tuple[object, ...]:
    """Whom ``who`` tells, but for what changes."""
    return who.rank, who.local_rank, who.host, who.task
