"""Observers: told what happens while a run goes on. Here the one that says nothing; others are renderers."""

from __future__ import annotations

from collections.abc import Sequence


class Observer:
    """Told what happens while it happens, in the order it happens; must not block and must not raise.

    This one says nothing: for a rank that prints nothing, and to begin from where only some of it matters.
    """

    _known: frozenset[str] = frozenset()

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

    def so_far(self, key: str, text: str, waited: str) -> None:
        """``text`` would be found if waiting ended now. Called about every second; ``key`` changes with what is known.

        ``waited`` is the time in words (``3 s of 600 s``). It becomes a note where it is new.
        """
        if key not in self._known:
            self._known |= {key}
            self.note(f"{text} ({waited})")

    def waiting(self, present: Sequence[str], expected: int, what: str, left: float) -> None:
        """The meeting waits: who is here (names), how many ``what`` (nodes or ranks) are expected, seconds left."""

    def close(self) -> None:
        """The run is over, or its report is printed now: nothing is said after this. May be called again."""
