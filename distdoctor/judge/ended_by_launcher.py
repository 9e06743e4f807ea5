"""Whom a launcher itself has killed: torchrun a rank that does not end within half a minute of its SIGTERM, the monitor
of ft_launcher one that sends no heartbeat in time. Pure."""

from __future__ import annotations

import calendar
from collections.abc import Collection, Iterable
from time import strptime

from distdoctor.model.facts.logs import Match

PATIENCE = 29
"""Seconds, less one as the times of the rows are cut, after which torchrun sends SIGKILL to what is left of a node's
ranks when one has failed (timeout of PContext.close(), torch/distributed/elastic/multiprocessing/api.py)."""
SIGKILL = 9
OF_JOB = ("shell", "systemd")
"""They report the end of the launcher; a monitor ends ranks."""


def ended_by_launcher(matches: Iterable[Match]) -> list[Match]:
    """The rows of torchrun's tables of ranks that were killed so long after the first failure of the same table that it
    was torchrun that did so."""
    rows = [(match, time) for match in matches if (time := _time(match)) is not None]
    first: dict[tuple[str, str | None], float] = {}
    for match, time in rows:
        table = match.source, match.who.host
        first[table] = min(time, first.get(table, time))
    return [
        match for match, time in rows if _is_killed(match) and time - first[match.source, match.who.host] >= PATIENCE
    ]


def ended_by_monitor(matches: Iterable[Match]) -> list[Match]:
    """How processes were told to have ended by SIGKILL in a log in which, above that, a monitor says that it was no
    longer content with a rank, and below which it had not been said of any."""
    killed: dict[str, list[Match]] = {}
    monitors: dict[str, int] = {}
    for match in matches:
        if "monitor" in match.values:
            monitors[match.source] = min(match.line, monitors.get(match.source, match.line))
        elif match.shows == "end" and _is_killed(match, besides=OF_JOB):
            killed.setdefault(match.source, []).append(match)
    return [
        match
        for source, own in killed.items()
        if source in monitors and monitors[source] < min(one.line for one in own)
        for match in own
    ]


def _is_killed(match: Match, besides: Collection[str] = ()) -> bool:
    end = match.ended
    return end is not None and end.signal == SIGKILL and end.launcher not in besides


def _time(match: Match) -> float | None:
    """When torchrun saw the end of the process of a row."""
    try:
        return float(calendar.timegm(strptime(match.values.get("row_time", ""), "%Y-%m-%d_%H:%M:%S")))
    except ValueError:
        return None
