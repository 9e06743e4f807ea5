"""Order of failures by the clock: old kernel messages, reboots, and processes of other jobs. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from time import strptime

from distdoctor.judge.logs.lifelines import Timeline
from distdoctor.model.facts.logs import LogSource, Match
from distdoctor.model.text import in_a_year

LONG = 24 * 3600
"""Seconds: more than the clocks of two zones differ, and than a job survives the loss of a GPU or a process."""
_DATED = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]")
"""Time in the format of ``dmesg -T``."""
_REAL = calendar.timegm((1973, 1, 1, 0, 0, 0))
"""Times before it have no year in the log."""


def long_before_the_job(timeline: Timeline) -> list[Match]:
    """Return the kernel's lines that are older by more than LONG than anything in the job's logs.

    If the job's logs have no known line, their start counts. Nothing is returned if either has no date.
    """
    times = [
        one.who.time for one in timeline.logs.matches if one.source not in timeline.kernels and _is_real(one.who.time)
    ]
    first = min((time for time in times if time is not None), default=_began(timeline))
    return [] if first is None else _by_kernel_before(timeline, first - LONG)


def _by_kernel_before(timeline: Timeline, until: float) -> list[Match]:
    """Return the kernel's lines from before that time."""
    times = [(match, written_at(match)) for match in timeline.matches if match.source in timeline.kernels]
    return [match for match, time in times if time is not None and time < until]


def _began(timeline: Timeline) -> float | None:
    """Return the first time in a log of the job that has a date."""
    began = [one.began for one in timeline.logs.sources if one.kind == "log" and _is_real(one.began)]
    return min((time for time in began if time is not None), default=None)


MARGIN = 3600
"""Seconds that ranks may wait for a killed one, of whose logs only the end may be left."""
CLOCKS = 120
"""Most seconds between two clocks of one zone."""
BEFORE = "it was before the job's logs begin, if they and the kernel's log are of one time zone"


def before_the_job(timeline: Timeline, margin: float = MARGIN) -> list[Match]:
    """Return the kernel's lines about an ended process from before any log of the job began, by more than ``margin``.

    Nothing is returned if they have no date, or if the job names the pid of such a process.
    """
    first, own = _began(timeline), timeline.pids
    ended = [
        one for one in timeline.logs.matches if one.source in timeline.kernels and one.check.startswith("process/")
    ]
    if first is None or any(one.values.get("pid") in own for one in ended):
        return []
    return [one for one in _by_kernel_before(timeline, first - margin) if one.check.startswith("process/")]


def written_at(match: Match) -> float | None:
    """Return the time of a line in seconds since the epoch by its host's clock and zone, None if unknown."""
    dated = _DATED.search(match.text)
    if dated is None:
        return match.who.time if _is_real(match.who.time) else None
    try:
        return float(calendar.timegm(strptime(dated[1], "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def _is_real(time: float | None) -> bool:
    return time is not None and time >= _REAL


# First of several failures by the clock, if each log has one: a traceback has no time of its own, but the lines above
# it do.


TOGETHER = 600
"""Seconds: logs of one job whose first times differ by more are of other zones, or begin in mid-work."""


def first_by_clock(matches: Sequence[Match], began: Mapping[str, float | None]) -> Match | None:
    """Return the match that came before those of all other logs by more than clocks differ, None if unknown.

    Times come from the lines above a match. ``began``: the first time of each log.
    """
    times = [(time, match) for match in matches if (time := about_time(match)) is not None]
    begins = [began.get(match.source) for match in matches]
    known = [time for time in begins if time is not None]
    if len(times) < len(matches) or len(known) < len(begins) or max(known) - min(known) > TOGETHER:
        return None
    at, first = min(times, key=lambda pair: (pair[0], pair[1].order))
    later = [time for time, match in times if match.source != first.source]
    return first if later and min(later) - at > CLOCKS else None


def about_time(match: Match) -> float | None:
    """Return the time of a match by its own clock, else that of the lines above it; None if neither is known."""
    return match.who.time if match.who.time is not None else match.about


# Reboots in the kernel's log: the clock shows whether a job still ran on the host.


DOWN = 3600
"""Most seconds from the last line of a job's log on a host to its next boot; a longer gap may have another reason."""
TOLD = "The host was started again while the job ran"
FIX = (
    "See in what the host told before that start why it went down (journalctl -b -1 -e, its console, the event log of "
    "its BMC: ipmitool sel list); then start the job again from its last checkpoint."
)


def fatal_boots(boots: Iterable[Match], timeline: Timeline) -> list[Match]:
    """Return the boots that ended the job, as its cause.

    A log of the job on that host stops in mid-work shortly before, without a failure of its own in ``timeline``.
    """
    failed = {match.source for match in timeline.matches if match.shows in ("cause", "end") or match.exception}
    logs = [source for source in timeline.logs.sources if source.kind == "log" and source.lines]
    found = []
    for match in boots:
        own = [source for source in logs if _is_host(source.who.host, match.who.host)]
        own = own or [source for source in logs if source.who.host is None]
        if (
            match.source in timeline.kernels
            and own
            and all(_stops(one, match) and one.name not in failed for one in own)
        ):
            values = {**match.values, "told": TOLD, "fix": FIX}
            found.append(replace(match, shows="cause", why="", values=values))
    return found


def _stops(source: LogSource, start: Match) -> bool:
    """Return whether the log began before ``start`` and stops shortly before it, before the end of the job."""
    at = booted_at(start)
    if at is None or source.began is None or source.ended is None or source.done:
        return False
    began, ended = in_a_year(source.began), in_a_year(source.ended)
    return began < at and 0 <= at - ended <= DOWN


def booted_at(match: Match) -> float | None:
    """Return the boot time, in whatever year; None if unknown."""
    time = written_at(match)
    written = match.values.get("when", "")
    return in_a_year(time) if time is not None else float(written) if written else None


def _is_host(name: str | None, other: str | None) -> bool:
    """Return whether two hostnames, one of which may be fully qualified, are of one host."""
    return bool(name and other) and str(name).partition(".")[0] == str(other).partition(".")[0]


# Owner of a process in the kernel's log: this job, or somebody else on that machine.


_JOB = re.compile(
    r"(?i)(?<!ju)py|pt_|torch|train|ray|vllm|sglang|nccl|deepspeed|accelerate|megatron|nemo|slurm|worker|rank|gpu"
)
"""Process name that may belong to a job: Python, or a title set by the program (the kernel keeps 15 characters)."""


def lines_about_other_processes(timeline: Timeline) -> list[Match]:
    """Return the kernel's lines about processes of other jobs.

    Neither their number is one that the job's logs name, nor their name one that a job's process has. If the job names
    no numbers, nothing is returned: the log was given for a reason. A number alone proves nothing, since a container
    has its own numbers.
    """
    by_kernel = [match for match in timeline.matches if match.source in timeline.kernels]
    processes = [match for match in by_kernel if {"pid", "program"} <= match.values.keys()]
    others = [one for one in processes if one.values["pid"] not in timeline.pids and is_of_unknown_process(one)]
    if not timeline.pids:
        return []
    about = {(match.source, match.check) for match in processes if match not in others}
    only = {(match.source, match.check) for match in others} - about
    # The rest of the report goes with them: "java invoked oom-killer".
    return [match for match in by_kernel if match in others or (match.source, match.check) in only]


def is_of_unknown_process(match: Match) -> bool:
    """Return whether the kernel reports the end of a process whose name is not a job's: a rank's own message counts
    more."""
    ended = match.check.startswith("process/") and "program" in match.values
    return ended and not _JOB.search(match.values["program"])


# Silence before an order to stop: a job that hung.


HUNG = 1800.0
"""Least seconds without a step of a job that hung: an evaluation or a checkpoint may take less."""
TIMES = 10
"""Least length of that silence, in times of the longest of the last steps."""
CLOSE = 10
"""Most lines between the last step and the order to stop."""
ZONE = 1800.0
"""Seconds by which two time zones differ, or a multiple of them."""
_ORDERED = re.compile(r"\bCANCELLED AT (\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)\b")


def hung_before(order: Match, source: LogSource) -> float | None:
    """Return how long the job had made no step when ``order`` stopped it, None if it was at work or if unknown.

    The scheduler and the job may use two zones: a difference of theirs shows no silence.
    """
    at = _ordered_at(order)
    if at is None or source.stepped is None or source.pace is None:
        return None
    silent = in_a_year(at) - in_a_year(source.stepped)
    if min(at, source.stepped) < _DAY:
        silent %= LONG
    close = order.line - max(source.progress, source.advanced) <= CLOSE
    of_zones = (silent + CLOCKS) % ZONE <= source.pace + 2 * CLOCKS
    return silent if close and silent > max(HUNG, TIMES * source.pace) and not of_zones else None


_DAY = calendar.timegm((1972, 1, 2, 0, 0, 0))
"""Times before it are of an unknown day."""


def _ordered_at(order: Match) -> float | None:
    """Return the time of an order to stop, by its own text."""
    written = _ORDERED.search(order.text)
    return float(calendar.timegm(strptime(written[1], "%Y-%m-%dT%H:%M:%S"))) if written else order.who.time
