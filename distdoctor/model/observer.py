"""Observer of a run: receives its events. This one ignores them; others are renderers."""

from __future__ import annotations

from collections.abc import Sequence


class Observer:
    """Receiver of a run's events, in the order in which they happen; it must not block and must not raise.

    This one ignores them: for a rank that prints nothing, and as a base for observers of some events.
    """

    _known: frozenset[str] = frozenset()

    def stage_started(self, stage: str, most: float | None = None) -> None:
        """Handle the start of ``stage`` in this process; ``most``: its limit in seconds, if known."""

    def stage_ended(self, stage: str, status: str, seconds: float, reason: str) -> None:
        """Handle the end of ``stage`` here with ``ok``, ``failed``, ``skipped`` or ``error``."""

    def waits(self, what: str, most: float | None = None) -> None:
        """Handle the start of waiting for ``what``, at most ``most`` seconds, beside any stage."""

    def waited(self, what: str) -> None:
        """Handle the end of waiting for ``what``."""

    def note(self, text: str) -> None:
        """Print a line that the user should read now (``so far: ...``); it may hold several lines."""

    def announce(self, line: str, nnodes: int) -> None:
        """Print the ``line`` that is to be run on each of the other ``nnodes - 1`` nodes, on node 0 without a known
        master."""

    def failure_so_far(self, key: str, text: str, waited: str) -> None:
        """Handle ``text``, which would be found if waiting ended now. Called about every second; ``key`` changes with
        the facts.

        ``waited`` is the time in words (``3 s of 600 s``). It becomes a note if it is new.
        """
        if key not in self._known:
            self._known |= {key}
            self.note(f"{text} ({waited})")

    def waiting(self, present: Sequence[str], expected: int, what: str, left: float) -> None:
        """Handle the state of the rendezvous: names of those present, number of expected ``what`` (nodes or ranks),
        seconds left."""

    def close(self) -> None:
        """Stop: the run is over, or its report is printed now. It may be called again."""
