"""Whom torchrun itself has killed: a rank that does not end within half a minute of its SIGTERM. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable
from time import strptime

from distdoctor.model.facts.logs import Match

PATIENCE = 29
"""Seconds, less one as the times of the rows are cut, after which torchrun sends SIGKILL to what is left of a node's
ranks when one has failed (timeout of PContext.close(), torch/distributed/elastic/multiprocessing/api.py)."""
_KILLED = re.compile(r"\bexitcode *: -9\b|\bSignal 9 \(")


def ended_by_launcher(matches: Iterable[Match]) -> list[Match]:
    """The rows of torchrun's tables of ranks that were killed so long after the first failure of the same table that it
    was torchrun that did so."""
    rows = [(match, time) for match in matches if (time := _time(match)) is not None]
    first: dict[tuple[str, str | None], float] = {}
    for match, time in rows:
        table = match.source, match.who.host
        first[table] = min(time, first.get(table, time))
    return [
        match
        for match, time in rows
        if _KILLED.search(match.text) and time - first[match.source, match.who.host] >= PATIENCE
    ]


def _time(match: Match) -> float | None:
    """When torchrun saw the end of the process of a row."""
    try:
        return float(calendar.timegm(strptime(match.values.get("row_time", ""), "%Y-%m-%d_%H:%M:%S")))
    except ValueError:
        return None
