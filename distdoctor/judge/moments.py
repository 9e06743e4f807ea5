"""Which of several failures came first by the clock, where each log has one: a traceback has no times of its own, what
stands above it in the log has. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from distdoctor.judge.long_ago import CLOCKS
from distdoctor.model.facts.logs import Match

TOGETHER = 600
"""Seconds: logs of one job whose first times differ by more are of other zones, or begin in mid-work."""


HOUR, SAME = 3600, 60
"""Seconds: clocks of two zones are so far apart, or a multiple of it; logs of one job begin so near each other."""
ZONES = 26
"""Hours that two zones are apart at the most."""


def earliest(matches: Sequence[Match], began: Mapping[str, float | None]) -> Match:
    """The first by the clock of those that all have a time. Where logs begin whole hours apart, and what they tell is
    as far apart, each is written by the clock of another zone."""
    begins = {match.source: time for match in matches if (time := began.get(match.source)) is not None}
    zones = {source: _hours(time - min(begins.values())) for source, time in begins.items()}
    there = [(match.who.time or 0.0) - zones.get(match.source, 0) for match in matches]
    if not any(zones.values()) or max(there) - min(there) > TOGETHER:
        there = [match.who.time or 0.0 for match in matches]
    return min(zip(there, matches, strict=True), key=lambda pair: (pair[0], pair[1].order))[1]


def is_of_other_zone(time: float | None, other: float | None) -> bool:
    """Whether two such times may be one, told by the clocks of two zones."""
    return time is not None and other is not None and _hours(time - other) != 0


def _hours(apart: float) -> int:
    """``apart`` as whole hours, in seconds; 0 where it is not that."""
    hours = round(apart / HOUR)
    return hours * HOUR if hours <= ZONES and abs(apart - hours * HOUR) <= SAME else 0


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
