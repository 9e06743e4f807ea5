"""What the kernel told long before a job failed, or began: its log goes back to the start of the host. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from time import strptime

from distdoctor.model.facts.logs import LogSource, Match
from distdoctor.model.text import in_a_year

LONG = 24 * 3600
"""Seconds: more than two clocks of any zones differ, and than a job lives on that lost a GPU or a process."""
_DATED = re.compile(r"\[([A-Z][a-z]{2} [A-Z][a-z]{2} {1,2}\d{1,2} \d\d:\d\d:\d\d \d{4})\]")
"""As ``dmesg -T`` writes a time."""
_REAL = calendar.timegm((1973, 1, 1, 0, 0, 0))
"""Times before it are of a year that the log does not tell."""


def long_ago(matches: Collection[Match], sources: Collection[LogSource]) -> list[Match]:
    """The lines of kernel logs that are older than anything that a log of the job tells (where it tells nothing: than
    its beginning) by more than LONG; none where either has no date."""
    kernel = {source.name for source in sources if source.kind == "kernel"}
    told = [match.who.time for match in matches if match.source not in kernel and _is_real(match.who.time)]
    began = [source.began for source in sources if source.kind == "log" and _is_real(source.began)]
    first = min((time for time in told or began if time is not None), default=None)
    if first is None:
        return []
    times = [(match, written_at(match)) for match in matches if match.source in kernel]
    return [match for match, time in times if time is not None and time < first - LONG]


MARGIN = 3600
"""Seconds: ranks may wait so long for one that was killed, and of their logs only the end may be left."""
CLOCKS = 120
"""Seconds that two clocks of one zone differ at most."""
BEFORE = "it was before the job's logs begin, if they and the kernel's log are of one time zone"


def before_the_job(matches: Collection[Match], sources: Collection[LogSource], margin: float = MARGIN) -> list[Match]:
    """The lines of kernel logs about the end of a process at a time at which no log of the job had begun, by more than
    ``margin``; none where these have no date, nor where the job names the number of such a process."""
    began = [source.began for source in sources if source.kind == "log" and _is_real(source.began)]
    kernel = {source.name for source in sources if source.kind == "kernel"}
    own = pids_in_tables(match for match in matches if match.source not in kernel)
    first = min((time for time in began if time is not None), default=None)
    if first is None:
        return []
    ended = [one for one in matches if one.source in kernel and one.check.startswith("process/")]
    named = any(one.values.get("pid") in own for one in ended)
    times = [(match, written_at(match)) for match in ended if not named]
    return [match for match, time in times if time is not None and time < first - margin]


def written_at(match: Match) -> float | None:
    """Return when it was written, in seconds since the epoch by that host's clock and zone; None where that is not
    known."""
    dated = _DATED.search(match.text)
    if dated is None:
        return match.who.time if _is_real(match.who.time) else None
    try:
        return float(calendar.timegm(strptime(dated[1], "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def _is_real(time: float | None) -> bool:
    return time is not None and time >= _REAL


# Which of several failures came first by the clock, where each log has one: a traceback has no times of its own, what
# stands above it in the log has. Pure.


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
    """Return whether two such times may be one, told by the clocks of two zones."""
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


# A host that was started again, by its kernel's log: whether a job still ran there, the clock says. Pure.


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
    """Return whether it was begun before ``start`` and stops shortly before it, before the end of the job."""
    at = started_at(start)
    if at is None or source.began is None or source.ended is None or source.done:
        return False
    began, ended = in_a_year(source.began), in_a_year(source.ended)
    return began < at and 0 <= at - ended <= DOWN


def started_at(match: Match) -> float | None:
    """When, in whatever year; None where that is not told."""
    time = written_at(match)
    said = match.values.get("when", "")
    return in_a_year(time) if time is not None else float(said) if said else None


def _is_host(name: str | None, other: str | None) -> bool:
    """Return whether two names, of which one may be the whole one, are of one host."""
    return bool(name and other) and str(name).partition(".")[0] == str(other).partition(".")[0]


# Of whom the kernel's log tells: of a process of the job, or of somebody else's on that machine. Pure.


_NUMBER = re.compile(r"\b(?:pid|PID)(?:: ?|=| )(\d{1,9})\b")
"""As torchrun's tables and messages give the number of a process that ended."""
_JOB = re.compile(
    r"(?i)(?<!ju)py|pt_|torch|train|ray|vllm|sglang|nccl|deepspeed|accelerate|megatron|nemo|slurm|worker|rank|gpu"
)
"""In the name of a process that may be one of a job: Python, or what a program calls itself (the kernel keeps 15
characters)."""


def pids_in_tables(matches: Iterable[Match]) -> set[str]:
    """The numbers of processes that these lines name, as torchrun's tables do of those that ended."""
    return {number for match in matches for number in _NUMBER.findall(match.text)}


def lines_about_other_processes(sources: Sequence[LogSource], matches: Sequence[Match]) -> list[Match]:
    """The lines of kernels' logs about processes that are none of the job's: neither is their number one of those that
    the job's own logs tell, nor their name one that a job's process has. Where the job tells no numbers, none: the
    log was given for a reason. A number alone proves nothing, since a container has others than the kernel.
    """
    kernels = {source.name for source in sources if source.kind == "kernel"}
    own = pids_in_tables(match for match in matches if match.source not in kernels)
    if not own:
        return []
    told = [match for match in matches if match.source in kernels and {"pid", "program"} <= match.values.keys()]
    others = [match for match in told if match.values["pid"] not in own and not _JOB.search(match.values["program"])]
    about = {(match.source, match.check) for match in told if match not in others}
    only = {(match.source, match.check) for match in others} - about
    rest = [match for match in matches if (match.source, match.check) in only and match not in others]
    return [*others, *rest]  # the rest goes with them: "java invoked oom-killer"


def is_strange(match: Match) -> bool:
    """Return whether the kernel tells how a process ended that has no name of a job's: it may have been none, and
    what a rank says of itself counts more."""
    ended = match.check.startswith("process/") and "program" in match.values
    return ended and not _JOB.search(match.values["program"])
