"""What the kernel told long before a job failed, or began: its log goes back to the start of the host. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection
from time import strptime

from distdoctor.judge.kernel_witness import numbers_told
from distdoctor.model.facts.logs import LogSource, Match

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
    times = [(match, told_at(match)) for match in matches if match.source in kernel]
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
    own = numbers_told(match for match in matches if match.source not in kernel)
    first = min((time for time in began if time is not None), default=None)
    if first is None:
        return []
    ended = [one for one in matches if one.source in kernel and one.check.startswith("process/")]
    named = any(one.values.get("pid") in own for one in ended)
    times = [(match, told_at(match)) for match in ended if not named]
    return [match for match, time in times if time is not None and time < first - margin]


def told_at(match: Match) -> float | None:
    """When it was written, in seconds since the epoch by that host's clock and zone; None where that is not known."""
    dated = _DATED.search(match.text)
    if dated is None:
        return match.who.time if _is_real(match.who.time) else None
    try:
        return float(calendar.timegm(strptime(dated[1], "%a %b %d %H:%M:%S %Y")))
    except ValueError:
        return None


def _is_real(time: float | None) -> bool:
    return time is not None and time >= _REAL
