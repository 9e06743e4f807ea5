"""Lifelines: what each log shows of its processes and of the job, from the start to the end. Pure.

A speaker is a log, and within it a rank, a local rank, a host, a task or a process, as far as its lines name one. Its
lifeline has the steps that it made, the failures that it reports, and its end. The job's lifeline is that of all
speakers together.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from distdoctor.model.facts.logs import LogFacts, LogSource, Match

ASKED_TO_END = (130, 143)
"""Exit codes of a process that was asked to end when the job was done, such as a monitor: no failure."""
RAISED = re.compile(
    r"(?:[A-Za-z_]\w{0,80}\.){0,8}[A-Z]\w{0,80}(?:Error|Exception|Interrupt|Exited|Timeout|OutOfMemory)\b"
)
"""Beginning of an exception's own line."""
ACCOUNT = 150
"""Most lines of a traceback and of the text around it."""
_NUMBER = re.compile(r"\b(?:pid|PID)(?:: ?|=| )(\d{1,9})\b")
"""Process number in torchrun's tables and messages about an ended process."""
_STREAM = re.compile(
    r"(?:[._-]?\b(?:std)?(?:out|err)(?:\.log|\.txt)?)$"
    r"|(?<=\.)(?:p?[oe](?=\d{1,12}(?:[.-]\d{1,6})?$)|OU$|ER$)"  # qsub's names, and PBS's while the job runs
)


@dataclass(frozen=True)
class Lifeline:
    """Life of the process, or of the processes, that wrote one log."""

    source: LogSource
    events: tuple[Match, ...] = ()
    """Lines about failures, in the order of the log."""

    @cached_property
    def last(self) -> int:
        """Return the line of the last failure."""
        return max((match.last_line for match in self.events), default=0)

    @cached_property
    def launcher_ended(self) -> bool:
        """Return whether a launcher reports in it that the job ended."""
        return any(map(ends_job, self.events))

    def stepped(self, match: Match) -> int:
        """Return the last line above which the speaker of ``match`` made steps, as far as the log shows its own."""
        own = match.who.speaker
        return max((line for who, line in self.source.alive if who == own), default=0)

    def worked(self, match: Match) -> bool:
        """Return whether steps are right above ``match``."""
        return any(0 <= match.last_line - line <= ACCOUNT for _, line in self.source.alive)


@dataclass(frozen=True)
class Timeline:
    """Life of the job: all that its logs show, but for the lines that were set aside."""

    logs: LogFacts
    matches: tuple[Match, ...] = ()
    """Lines about failures, in the order in which they were read."""

    @classmethod
    def of(cls, logs: LogFacts) -> Timeline:
        """Return the timeline of these logs."""
        return cls(logs, tuple(sorted(logs.matches, key=lambda match: match.order)))

    def without(self, gone: Collection[int]) -> Timeline:
        """Return it without the matches with these orders."""
        return replace(self, matches=tuple(match for match in self.matches if match.order not in gone))

    @cached_property
    def events(self) -> tuple[Match, ...]:
        """Return the lines about failures: all but noise and hints."""
        return tuple(match for match in self.matches if match.shows not in ("noise", "hint"))

    @cached_property
    def kernels(self) -> frozenset[str]:
        """Return the names of the kernels' logs."""
        return frozenset(source.name for source in self.logs.sources if source.kind == "kernel")

    @cached_property
    def lifelines(self) -> Mapping[str, Lifeline]:
        """Return the lifeline of each log by its name."""
        own: dict[str, list[Match]] = {}
        for match in self.events:
            own.setdefault(match.source, []).append(match)
        return {one.name: Lifeline(one, tuple(own.get(one.name, ()))) for one in self.logs.sources}

    @cached_property
    def pids(self) -> frozenset[str]:
        """Return the process numbers that the job's logs name."""
        return frozenset(pids_in_tables(match for match in self.logs.matches if match.source not in self.kernels))

    @cached_property
    def began(self) -> Mapping[str, float | None]:
        """Return the first time of each log."""
        return {source.name: source.began for source in self.logs.sources}


def pids_in_tables(matches: Iterable[Match]) -> set[str]:
    """Return the process numbers in these lines, such as torchrun's tables of ended processes."""
    return {number for match in matches for number in _NUMBER.findall(match.text)}


def is_raised(match: Match) -> bool:
    """Return whether it is the own line of an exception."""
    return bool(match.exception) or RAISED.match(match.text) is not None


def ends_job(match: Match) -> bool:
    """Return whether a launcher reports the end of a job."""
    end = match.ended
    if end is None:
        return False
    ended = end.launcher in ("torchrun", "deepspeed") or end.reason in ("gave up", "first to fail")
    return ended or ((end.code or 0) != 0 and end.code not in ASKED_TO_END) or by_scheduler(match)


def by_scheduler(match: Match) -> bool:
    """Return whether it is the scheduler's state of the job: it failed, whatever its log shows."""
    return match.has("state", "of_table")


# Two streams of one process in separate files: their order in time is unknown, but they show one process.


def process(name: str) -> str:
    """Return a file's name without the part that distinguishes its two streams."""
    return _STREAM.sub("", name)


def is_ranks(source: LogSource) -> bool:
    """Return whether the whole log is from one rank, by its path."""
    return source.who.rank is not None or source.who.local_rank is not None


def only_second_stream(every: Iterable[LogSource]) -> Callable[[LogSource], bool]:
    """Return a function that tells whether a log needs no end of its own, as it shows no work.

    Either the other stream of its process ends with the end of the job, or it is no rank's, and all ranks' logs end so.
    """
    logs = [one for one in every if one.kind == "log" and one.lines]
    done = Counter(process(one.name) for one in logs if one.done)
    ranks = [one for one in logs if is_ranks(one)]
    ended = {process(one.name) for one in ranks if one.done}
    all_end = bool(ranks) and all(process(one.name) in ended for one in ranks)

    def needs_no_end(source: LogSource) -> bool:
        if source.progress or source.starting:
            return False
        own = bool(source.done and source.kind == "log" and source.lines)
        return done[process(source.name)] > own or (not is_ranks(source) and all_end)

    return needs_no_end
