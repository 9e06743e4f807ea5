"""Which TCP ports a packet filter lets in, where it shuts others. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable

PORTS = (1, 65535)
MOST_NUMBERS = 64
"""Numbers in a ruleset beyond which its ports are not looked for: each takes a walk through all rules."""
_NUMBER = re.compile(r"\b\d{1,5}\b")


def open_ranges(ruleset: str, shuts: Callable[[int], bool]) -> tuple[tuple[int, int], ...]:
    """The ranges of ports that ``shuts`` does not shut: it changes at numbers that the ruleset names only.

    Empty where there are too many of these.
    """
    named = {number for found in _NUMBER.findall(ruleset) if PORTS[0] < (number := int(found)) <= PORTS[1]}
    starts = sorted({PORTS[0], *named, *(number + 1 for number in named if number < PORTS[1])})
    if len(starts) > 2 * MOST_NUMBERS:
        return ()
    ranges: list[tuple[int, int]] = []
    for start, after in zip(starts, [*starts[1:], PORTS[1] + 1], strict=True):
        if shuts(start):
            continue
        if ranges and ranges[-1][1] == start - 1:
            ranges[-1] = (ranges[-1][0], after - 1)
        else:
            ranges.append((start, after - 1))
    return tuple(ranges)
