"""Lengths of time in words."""

from __future__ import annotations


def age_said(seconds: float) -> str:
    """How long, in the unit that people would use."""
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
