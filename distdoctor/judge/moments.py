"""Which of several failures came first by the clock, where each log has one: a traceback has no times of its own, what
stands above it in the log has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distdoctor.judge.long_ago import CLOCKS
from distdoctor.model.facts.logs import Match

TOGETHER = 600
"""Seconds: logs of one job whose first times differ by more are of other zones, or begin in mid-work."""


def moment(match: Match) -> tuple[bool, float, int]:
    """By what those are put in order that all have a time."""
    return (match.who.time is None, match.who.time or 0.0, match.order)


def first_by_clock(matches: Sequence[Match], began: Mapping[str, float | None]) -> Match | None:
    """The one that came before those of all other logs by more than clocks differ, as far as the lines above them tell;
    None where this is not known. ``began``: the first time of each log."""
    times = [(time, match) for match in matches if (time := _about(match)) is not None]
    begins = [began.get(match.source) for match in matches]
    known = [time for time in begins if time is not None]
    if len(times) < len(matches) or len(known) < len(begins) or max(known) - min(known) > TOGETHER:
        return None
    at, first = min(times, key=lambda pair: (pair[0], pair[1].order))
    later = [time for time, match in times if match.source != first.source]
    return first if later and min(later) - at > CLOCKS else None


def _about(match: Match) -> float | None:
    said = match.values.get("about", "")
    return match.who.time if match.who.time is not None or not said else float(said)
