"""A host that was started again, by its kernel's log: whether a job still ran there, the clock says. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from distdoctor.judge.long_ago import told_at
from distdoctor.model.durations import in_a_year
from distdoctor.model.facts.logs import LogSource, Match

DOWN = 3600
"""Seconds from the last that a job's log tells of a host to its next start, at the most; who was down for longer may
have been so for another reason."""
TOLD = "The host was started again while the job ran"
FIX = (
    "See in what the host told before that start why it went down (journalctl -b -1 -e, its console, the event log of "
    "its BMC: ipmitool sel list); then start the job again from its last checkpoint."
)


def starts(matches: Iterable[Match]) -> list[Match]:
    """The lines that a kernel writes when its host is started."""
    return [match for match in matches if "booted" in match.values]


def that_ended_it(told: Collection[Match], sources: Sequence[LogSource], matches: Iterable[Match]) -> list[Match]:
    """Of such lines those of a host on which a log of the job stops in mid-work shortly before, without a failure of
    its own among ``matches``: as the cause that this is."""
    failed = {match.source for match in matches if match.shows in ("cause", "end") or match.exception}
    kernels = {source.name for source in sources if source.kind == "kernel"}
    logs = [source for source in sources if source.kind == "log" and source.lines]
    found = []
    for match in told:
        own = [source for source in logs if _is_host(source.who.host, match.who.host)]
        own = own or [source for source in logs if source.who.host is None]
        if match.source in kernels and own and all(_stops(one, match) and one.name not in failed for one in own):
            values = {**match.values, "told": TOLD, "fix": FIX}
            found.append(replace(match, shows="cause", why="", values=values))
    return found


def _stops(source: LogSource, start: Match) -> bool:
    """Whether it was begun before ``start`` and stops shortly before it, before the end of the job."""
    at = started_at(start)
    if at is None or source.began is None or source.ended is None or source.done:
        return False
    began, ended = in_a_year(source.began), in_a_year(source.ended)
    return began < at and 0 <= at - ended <= DOWN


def started_at(match: Match) -> float | None:
    """When, in whatever year; None where that is not told."""
    time = told_at(match)
    said = match.values.get("when", "")
    return in_a_year(time) if time is not None else float(said) if said else None


def _is_host(name: str | None, other: str | None) -> bool:
    """Whether two names, of which one may be the whole one, are of one host."""
    return bool(name and other) and str(name).partition(".")[0] == str(other).partition(".")[0]
