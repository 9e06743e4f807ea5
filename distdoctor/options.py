"""What a run of ``check`` needs to know, and what it tells while it runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from distdoctor.catalog import Check
from distdoctor.plan import Plan


@dataclass(frozen=True)
class Options:
    """One run of the doctor. Times in seconds."""

    plan: Plan
    checks: Sequence[Check]
    wait: float = 60.0
    """Bounds the meeting of the nodes."""
    timeout: float = 60.0
    """Bounds everything after the meeting."""
    until: str = "collective"
    """The last stage to climb."""
    try_fixes: bool = True
    ignore: tuple[str, ...] = ()
    save: Path | None = None
    token: str | None = field(default=None, repr=False)
    """What the processes of this run share and nobody else knows; every message is authenticated with it."""
    command: tuple[str, ...] = ("distdoctor", "check")
    """How this was started, for the line printed for the other nodes."""


class Observer(Protocol):
    """Told what happens while it happens, in the order it happens; must not block and must not raise."""

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """This process begins ``stage``, which takes at most ``most`` seconds where that is known."""

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """``stage`` ended here with ``ok``, ``failed``, ``skipped`` or ``error``."""

    def waits(self, what: str, most: float | None = None) -> None:
        """From now on this process waits for ``what``, at most ``most`` seconds, beside any stage."""

    def waited(self, what: str) -> None:
        """It no longer waits for ``what``."""

    def note(self, text: str) -> None:
        """A line the user should read now (``so far: ...``); may hold several lines."""

    def announce(self, line: str, nnodes: int) -> None:
        """Node 0 without a known master: ``line`` is to be run on each of the other ``nnodes - 1`` nodes."""

    def waiting(self, present: Sequence[str], expected: int, what: str, left: float) -> None:
        """The meeting waits: who is here (names), how many ``what`` (nodes or ranks) are expected, seconds left."""
