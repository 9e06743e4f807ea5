"""Parts of log facts that a user asks for: ranks, and a start time."""

from __future__ import annotations

import calendar
import re
from collections.abc import Collection
from dataclasses import replace
from time import strptime

from distdoctor.model.facts.logs import LineOrigin, LogFacts, Match

_RANKS = re.compile(r"(\d{1,7})(?:-(\d{1,7}))?")
_SPAN = re.compile(r"(\d{1,6})(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_FORMS = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d", "%m-%d %H:%M:%S", "%m-%d %H:%M")
MOST_RANKS = 100_000


def ranks_of(text: str) -> frozenset[int]:
    """Return the ranks of ``3`` or ``0,8-15``. Raises ValueError."""
    found: set[int] = set()
    for part in text.split(","):
        match = _RANKS.fullmatch(part.strip())
        if match is None or not 0 <= int(match[2] or match[1]) - int(match[1]) <= MOST_RANKS:
            raise ValueError(f"--rank {text!r} is no list of ranks such as 3 or 0,8-15")
        found.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(found)


def span_of(text: str) -> int | None:
    """Return the seconds of ``90s``, ``30m``, ``2h`` or ``1d``; None for anything else."""
    match = _SPAN.fullmatch(text.strip())
    return int(match[1]) * _SECONDS[match[2]] if match else None


def time_of(text: str) -> float:
    """Return the time of ``2026-01-31 12:00``, also with seconds, with a T, without the hour, or without the year.

    Without a year, as in some logs, it is in 1972, which stands for any. Raises ValueError.
    """
    plain = text.strip().replace("T", " ").removesuffix("Z")
    for form in _FORMS:
        try:
            moment = strptime(
                plain if form.startswith("%Y") else f"1972-{plain}", form if form.startswith("%Y") else f"%Y-{form}"
            )
        except ValueError:
            continue
        return float(calendar.timegm(moment))
    raise ValueError(f"--since {text!r} is neither a time such as 2026-01-31 12:00 nor a span such as 30m or 2h")


def of_ranks(logs: LogFacts, ranks: Collection[int]) -> LogFacts:
    """Return the log facts by or about these ranks; if only local ranks are known, those."""
    matches = tuple(match for match in logs.matches if _is_of(match, ranks))
    sources = tuple(source for source in logs.sources if not _is_others(source.who, ranks))
    return replace(logs, matches=matches, sources=sources)


def _is_of(match: Match, ranks: Collection[int]) -> bool:
    named = match.ranks or (_rank_number(match.who),)
    return any(rank in ranks for rank in named)


def _is_others(who: LineOrigin, ranks: Collection[int]) -> bool:
    number = _rank_number(who)
    return number is not None and number not in ranks


def _rank_number(who: LineOrigin) -> int | None:
    return who.rank if who.rank is not None else who.local_rank
