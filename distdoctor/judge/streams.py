"""The two streams of a process, in a file each: nothing tells in which order they were written, but together they are
one process. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable

from distdoctor.judge.survived import RAISED, last_line
from distdoctor.model.facts.logs import LogSource, Match

_STREAM = re.compile(
    r"(?:[._-]?\b(?:std)?(?:out|err)(?:\.log|\.txt)?)$"
    r"|(?<=\.)(?:p?[oe](?=\d{1,12}(?:[.-]\d{1,6})?$)|OU$|ER$)"  # qsub's, and what it has until a job of PBS is over
)


def process(name: str) -> str:
    """A file's name without what tells its two streams apart."""
    return _STREAM.sub("", name)


def only_beside(every: Iterable[LogSource]) -> Callable[[LogSource], bool]:
    """Tell of each of these whether it needs no end, as it tells of no work: the other stream of its process ends with
    the end of the job, or it is no rank's, and all ranks' logs end so."""
    logs = [one for one in every if one.kind == "log" and one.lines]
    done = Counter(process(one.name) for one in logs if one.done)
    ranks = [one for one in logs if is_ranks(one)]
    ended = {process(one.name) for one in ranks if one.done}
    all_end = bool(ranks) and all(process(one.name) in ended for one in ranks)

    def is_only_beside(source: LogSource) -> bool:
        if source.progress or source.starting:
            return False
        own = bool(source.done and source.kind == "log" and source.lines)
        return done[process(source.name)] > own or (not is_ranks(source) and all_end)

    return is_only_beside


def is_ranks(source: LogSource) -> bool:
    """Whether all of it is from one rank, by its path."""
    return source.who.rank is not None or source.who.local_rank is not None


def caught(sources: Iterable[LogSource], matches: Iterable[Match], over: Iterable[Match]) -> list[Match]:
    """What programs have caught and told of in one of their streams, where the other one shows steps or the end of the
    job, and nobody tells of a failure otherwise: who ends because of it is missed by others. ``over``: what is known to
    be survived."""
    past = {match.order for match in over}
    left = [match for match in matches if match.shows not in ("noise", "hint") and match.order not in past]
    logs = {source.name: source for source in sources if source.lines}
    ended = {process(one.name) for one in logs.values() if one.done}
    alive = {process(one.name) for one in logs.values() if one.progress} | ended
    for name in {match.source for match in left}:
        own = [match for match in left if match.source == name]
        raised = [match for match in own if "head" not in match.values]
        told = logs.get(name)
        if told is None or told.progress or told.done or process(name) not in alive or not raised:
            return []
        well = process(name) in ended
        if well and is_ranks(told) and all(is_of_part(match) for match in raised):
            continue
        if "caught" not in max(raised, key=last_line).values or not all(map(_is_raised, raised)):
            return []
        if not well and any(match.shows == "symptom" for match in raised):
            return []  # it has missed another, and may have told of that itself
    return left


def is_of_part(match: Match) -> bool:
    """Whether it ended a thread, or a process that multiprocessing started, and not the process whose it was."""
    return "thread" in match.values or "child" in match.values


def _is_raised(match: Match) -> bool:
    return bool(match.exception) or RAISED.match(match.text) is not None
