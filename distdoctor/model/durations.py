"""Lengths of time in words; times whose year is not told."""

from __future__ import annotations

import calendar
from time import gmtime

A_YEAR = 1972
"""Stands for the year where a time is told without one; a leap year, so that every day of it exists."""


def age_said(seconds: float) -> str:
    """How long, in the unit that people would use."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def left_said(seconds: float) -> str:
    """``9 min 15 s``: a length of time to the second, and from an hour on to the minute."""
    whole = max(0, round(seconds))
    hours, minutes, rest = whole // 3600, whole // 60 % 60, whole % 60
    parts = ((hours, "h"), (minutes, "min"), (0 if hours else rest, "s"))
    return " ".join(f"{number} {unit}" for number, unit in parts if number) or "0 s"


def in_a_year(time: float) -> float:
    """The same day and hour in the year that stands for any."""
    there = gmtime(time)
    return calendar.timegm((A_YEAR, *there[1:6])) + time % 1
