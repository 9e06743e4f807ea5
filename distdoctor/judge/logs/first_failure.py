"""First failure in the logs: the earliest fatal event that no earlier one explains, and what follows from it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain

from distdoctor.judge.catalog import Check
from distdoctor.judge.causes import is_symptom
from distdoctor.judge.logs.clocks import (
    BEFORE,
    CLOCKS,
    about_time,
    before_the_job,
    fatal_boots,
    first_by_clock,
    hung_before,
    is_of_unknown_process,
    long_before_the_job,
)
from distdoctor.judge.logs.harmless import asked_to_stop, explained, is_order, reports_after_recovery, set_aside
from distdoctor.judge.logs.lifelines import RAISED, Timeline
from distdoctor.model.facts.logs import LogFacts, Match
from distdoctor.model.text import duration_text

BECAUSE = "it was raised because of what stands above it"
SIGABRT = 6
NEAR = 600
"""Lines within which exceptions belong to one death."""
TIDIES = re.compile(
    r" in (?:destroy_process_group|__exit__|__del__|_?(?:shut_?down|close|clean_?up|tear_?down|finali[sz]e|finish)\w*)$"
    r"|/torch/distributed/(?:distributed_c10d|c10d_logger)\.py:"
)
"""Frame of an error in the clean-up or a last meeting after a program had failed, which is not the cause."""


@dataclass(frozen=True)
class SortedMatches:
    """Known lines, sorted by what they prove."""

    root: Match | None = None
    others: tuple[Match, ...] = ()
    """Further causes, and ends of processes: consequences of the root."""
    symptoms: tuple[Match, ...] = ()
    noise: tuple[Match, ...] = ()
    """Lines that were survived, or prove nothing."""
    caught: tuple[Match, ...] = ()
    """Errors among them that a program caught; whether it went on is not shown."""

    @classmethod
    def of_jobs(cls, each: Sequence[SortedMatches]) -> SortedMatches:
        """Return the lines of several jobs; the root is the first that there is."""
        roots = tuple(one.root for one in each if one.root is not None)
        others, symptoms, noise = (
            tuple(chain.from_iterable(of))
            for of in zip(*((one.others, one.symptoms, one.noise) for one in each), strict=True)
        )
        return cls(next(iter(roots), None), (*roots[1:], *others), symptoms, noise)

    @property
    def failures(self) -> tuple[Match, ...]:
        """Return all lines about a failure, the root first."""
        return (*(() if self.root is None else (self.root,)), *self.others, *self.symptoms)


@dataclass(frozen=True)
class _Kinds:
    """Lines about failures that were not set aside, by what they are."""

    causes: list[Match]
    raised: list[Match]
    """Exceptions that no wording knows."""
    ends: list[Match]
    symptoms: list[Match]
    because: list[Match]
    """Exceptions and ends that a line above them explains."""

    @classmethod
    def of(cls, matches: Sequence[Match]) -> _Kinds:
        """Sort ``matches``, which are in the order of their lines; hints count only beside symptoms."""
        stopped = asked_to_stop(matches)
        because = [*stopped, *(match for match in explained(matches) if match not in stopped)]
        own = [match for match in matches if match not in because]
        symptoms = [match for match in matches if match.shows == "symptom"]
        symptoms = [match for match in symptoms if not match.has("head") or not _ended_by(match, matches)]
        causes = [match for match in own if match.shows == "cause" and not match.exception]
        ends = [match for match in own if match.shows == "end"]
        raised = [match for match in own if match.exception]
        return cls(
            causes=causes,
            raised=_without_wrappers(raised, (*causes, *raised, *ends)),
            ends=ends,
            symptoms=[*symptoms, *(match for match in matches if symptoms and match.shows == "hint")],
            because=because,
        )


def read(logs: LogFacts, checks: Mapping[str, Check]) -> SortedMatches:
    """Find the root among the lines of ``logs``, if one of them proves it; ``checks`` say what follows from what."""
    whole = Timeline.of(logs)
    aside = set_aside(whole)
    past = {match.order for found in aside.values() for match in found}
    boots = [match for match in whole.matches if match.has("booted") and match.order not in past]
    past |= {match.order for match in boots}
    timeline = whole.without(past)
    timeline = replace(timeline, matches=tuple(_of_hung_job(match, timeline) for match in timeline.matches))
    kinds = _Kinds.of(_without_rests([*timeline.matches, *fatal_boots(boots, timeline)]))
    root, symptoms = _root(kinds, whole, checks) or _order(kinds, timeline), kinds.symptoms
    others = [match for match in (*kinds.causes, *kinds.raised, *kinds.ends) if match is not root]
    if root is None:
        symptoms = [*symptoms, *kinds.ends, *(replace(one, shows="symptom", why=BECAUSE) for one in kinds.because)]
        early = aside["before_the_job"] if symptoms else []
        symptoms += [replace(match, shows="symptom", why=BEFORE) for match in early]
    else:
        by_name = {source.name: source.who.host for source in logs.sources}.get(root.source)
        table_rows = (*kinds.ends, *symptoms)
        root = _on_host(_of_row(root, _first_rows(table_rows)), table_rows, by_name)
    return SortedMatches(
        root,
        (*others, *kinds.because),
        tuple(symptoms),
        tuple(match for match in whole.matches if match.shows == "noise" or match.order in past),
        (*aside["caught"], *reports_after_recovery(logs.sources, aside["survived"])),
    )


def _root(kinds: _Kinds, whole: Timeline, checks: Mapping[str, Check]) -> Match | None:
    """Return the root: a line's cause, an exception, or else the end of a process.

    Of several accounts, each explains more than those behind it, but for one that is clearly earlier; the comparison of
    ranks counts where nothing else does.
    """
    causes, ends, symptoms = kinds.causes, kinds.ends, kinds.symptoms
    blamed = [match for match in causes if not _failed_itself(match, (*causes, *kinds.raised, *ends))]
    rows = _first_rows((*ends, *symptoms))
    apart = {match.order for match in (*long_before_the_job(whole), *before_the_job(whole, CLOCKS))}
    single = [match for match in blamed if not match.compared]
    own = [match for match in single if match.order not in apart and not is_of_unknown_process(match)]
    # Any account of a cause beats an end that shows none.
    root = first_by_time(
        _first(own, rows, checks, whole.began),
        _exception(_fatal(kinds.raised, rows, symptoms), rows, whole.began),
        end := _end(ends, symptoms),
    )
    if root is end:
        root = _first(single, rows, checks, whole.began) or end
    if root is None or root.has("outside"):  # a rank that waits for another is ended sooner or later
        root = next((match for match in blamed if match.compared), root)
    return root


REACTIONS = ("ends its ranks", "sent by launcher")
"""Reports of a launcher that it ends its ranks, as one does that is asked to stop."""


def _of_hung_job(match: Match, timeline: Timeline) -> Match:
    """Return an order to stop as a symptom, if the job hung before it."""
    life = timeline.lifelines.get(match.source)
    silent = hung_before(match, life.source) if life is not None and is_order(match) else None
    if silent is None:
        return match
    why = f"the last step was {duration_text(silent)} before; the log does not show where the ranks waited"
    return replace(match, shows="symptom", why=why, marks=match.marks | {"hung"})


def _order(kinds: _Kinds, timeline: Timeline) -> Match | None:
    """Return the first order to stop, if it met a job at work: its log shows steps, and nothing else failed."""
    failed = sorted((*kinds.causes, *kinds.raised, *kinds.ends, *kinds.symptoms), key=lambda match: match.order)
    orders = [match for match in failed if is_order(match)]
    reactions = [match for match in failed if match.ended is not None and match.ended.reason in REACTIONS]
    if not orders or len(orders) + len(reactions) < len(failed) or any(match.has("hung") for match in orders):
        return None
    at_work = any(one.name == orders[0].source and (one.progress or one.alive) for one in timeline.logs.sources)
    return replace(orders[0], shows="end", why="") if at_work else None


LATER = 5.0
"""Seconds by which a failure must precede another in one log to be its cause, whatever kind each is."""


def first_by_time(*roots: Match | None) -> Match | None:
    """Return the first of the roots, of which each explains more than those behind it, unless one is clearly earlier.

    One is earlier if another process reported it, both times are known, and they differ by more than LATER, or for two
    logs by more than two clocks do. A process that was ended from outside explains nothing.
    """
    found = [root for root in roots if root is not None]
    for one in found[1:]:
        first, (at, before) = found[0], (about_time(found[0]), about_time(one))
        apart = LATER if one.source == first.source else CLOCKS
        if at is None or before is None or one.has("outside") or one.who.speaker == first.who.speaker:
            continue
        if at - before > apart and not one.has("caught", "logged"):
            found[0] = one
    return found[0] if found else None


def _without_rests(matches: Sequence[Match]) -> list[Match]:
    """Return the matches without noise, and without truncated tracebacks in logs that have other matches."""
    sources = {match.source for match in matches if not match.has("alone")}
    return [
        match for match in matches if match.shows != "noise" and (not match.has("alone") or match.source not in sources)
    ]


def _without_wrappers(raised: Iterable[Match], every: Iterable[Match]) -> list[Match]:
    """Return the exceptions without those that only hold others which stand below them."""
    held = [match for match in every if not match.has("wraps")]
    return [
        match
        for match in raised
        if not match.has("wraps")
        or not any(one.source == match.source and 0 < one.line - match.line <= NEAR for one in held)
    ]


def _ended_by(head: Match, others: Iterable[Match]) -> bool:
    """Return whether the traceback with the head ``head`` ends with one of ``others``, which names the error."""
    return any(
        other.source == head.source
        and not other.has("head")
        and other.last_line > head.last_line
        and other.who.speaker == head.who.speaker
        and RAISED.match(other.text)
        for other in others
    )


def _first_rows(all_rows: Iterable[Match]) -> list[Match]:
    """Return the rows of torchrun's tables for the rank that failed first.

    The exit code of an exception counts only if no other rank failed: torchrun calls the lowest rank the first among
    those that it sees at once.
    """
    rows = [match for match in all_rows if match.has("row")]
    first = [match for match in rows if match.has("first")]
    sole = {match.source for match in first} - {match.source for match in rows if match not in first}
    return [match for match in first if match.shows == "end" or match.source in sole]


def _failed_itself(match: Match, others: Iterable[Match]) -> bool:
    """Return whether ``match`` only shows ranks that wait for one whose own failure another line shows."""
    named = {int(number) for number in re.findall(r"\d{1,6}", match.values.get("missing", ""))}
    return bool(named) and any(other.who.rank in named and not other.values.get("missing") for other in others)


def _first(
    causes: Sequence[Match], rows: Sequence[Match], checks: Mapping[str, Check], began: Mapping[str, float | None]
) -> Match | None:
    """Return the first cause: by the clock if all have one, else by torchrun's first failed rank, else by the
    milestones that the causes prevent."""
    if not causes:
        return None
    named = {match.who.rank for match in rows} - {None}
    candidates = [match for match in causes if match.who.rank is None or not named or match.who.rank in named] or [
        *causes
    ]
    if (earliest := _earliest(candidates, began)) is not None:
        return earliest
    first = min(candidates, key=lambda match: match.order)
    return next((other for other in candidates if _is_behind(first, other, checks)), first)


def _earliest(matches: Sequence[Match], began: Mapping[str, float | None]) -> Match | None:
    """Return the earliest match, if all have a time or if it came clearly before those of the other logs."""
    if all(match.who.time is not None for match in matches):
        return min(matches, key=lambda match: (match.who.time or 0.0, match.order))
    return first_by_clock(matches, began)


def _is_behind(match: Match, other: Match, checks: Mapping[str, Check]) -> bool:
    """Return whether ``match`` is a consequence of ``other`` in another log."""
    return match.source != other.source and is_symptom(checks[match.check], checks[other.check])


def _fatal(raised: Sequence[Match], rows: Sequence[Match], symptoms: Iterable[Match]) -> list[Match]:
    """Return the exceptions that may have ended a process: not those after which it raised another, and not those that
    it caught before a signal ended it; all if none is left.

    SIGABRT counts as no such signal: it ends a rank that waited in vain for another, with NCCL.
    """
    ended: dict[tuple[object, ...], int] = {}
    for one in symptoms:
        if not one.chained and not one.has("head") and RAISED.match(one.text):
            ended.update({name: max(ended.get(name, 0), one.line) for name in _names(one)})
    left = [match for match in raised if all(match.last_line >= ended.get(name, 0) for name in _names(match))]
    left = left or [*raised]
    signals = [row.ended.signal if row.ended is not None else None for row in rows]
    if not signals or not {None, SIGABRT}.isdisjoint(signals):
        return left
    return [match for match in left if not match.has("caught")]


def _names(match: Match) -> list[tuple[object, ...]]:
    """Return the names of the process in its log, if it has any."""
    who = match.who
    numbers = (("rank", who.rank), ("local rank", who.local_rank))
    return [(match.source, who.host, *one) for one in numbers if one[1] is not None]


def _exception(raised: Sequence[Match], rows: Sequence[Match], began: Mapping[str, float | None]) -> Match | None:
    """Return the last unknown exception of the rank that failed first."""
    traced = [match for match in raised if match.has("traced")] or [*raised]
    if not traced:
        return None
    named = {match.who.rank for match in rows} - {None}
    candidates = [match for match in traced if match.who.rank in named] or traced
    cluster = [candidates[-1]]
    for match in reversed(candidates[:-1]):
        if match.source != cluster[0].source or cluster[0].line - match.last_line < NEAR:
            cluster.insert(0, match)
    first = _earliest(cluster, began) or cluster[0]
    same = [match for match in cluster if match.who.speaker == first.who.speaker and match.source == first.source]
    root = first
    for match in same[same.index(first) + 1 :]:
        if not match.chained or TIDIES.search(match.frame) or _wraps(match):
            break
        root = match
    return root


def _wraps(match: Match) -> bool:
    """Return whether the program names what it handled as the cause (``raise ... from``), or gives no kind of its own,
    as helpers do that try a call again: the error below it says more."""
    return match.has("direct") or match.exception == "Exception"


def _of_row(root: Match, rows: Sequence[Match]) -> Match:
    """Return ``root`` with rank and host of the process that failed first, if its own are unknown."""
    processes = {(row.who.rank, row.who.local_rank, row.who.host) for row in rows if row.source == root.source}
    if len(processes) != 1 or root.who.rank not in (None, *(rank for rank, _, _ in processes)) or root.ranks:
        return root
    rank, local_rank, host = processes.pop()
    return replace(root, who=replace(root.who, rank=rank, local_rank=local_rank, host=root.who.host or host))


def _on_host(root: Match, table_rows: Iterable[Match], by_name: str | None) -> Match:
    """Return ``root`` with the host that torchrun's tables in the same log give for its rank.

    A host that only the file's name gives (``by_name``) is replaced.
    """
    rows = [row.who for row in table_rows if row.source == root.source and row.has("row")]
    hosts = {who.host for who in rows if who.rank is not None and who.rank == root.who.rank} - {None}
    if root.ranks or len(hosts) != 1 or root.who.host not in (None, by_name):
        return root
    return replace(root, who=replace(root.who, host=hosts.pop()))


def _end(ends: Sequence[Match], symptoms: Sequence[Match]) -> Match | None:
    """Return the end of the first process, if nothing shows why: the one that torchrun names, before those ended from
    outside."""
    checks = {end.check for end in ends}
    before = [match for match in symptoms if match.check not in checks and not _ends_ranks(match)]
    died = [match for match in before if match.has("whole", "uncaught")]
    ends = [end for end in ends if not any(_after_death(end, match) for match in died)]
    if all(end.has("outside") and _after(end, before) for end in ends):
        return None  # there is none, or it was ended from outside after a failure, because of that
    return min(ends, key=lambda match: (match.has("outside"), not match.has("first"), match.order))


def _after_death(end: Match, death: Match) -> bool:
    """Return whether ``end`` came after another process had died of an exception: it lost its peer."""
    same = end.who.rank is not None and end.who.rank == death.who.rank
    return end.source == death.source and death.last_line < end.line and not same and not end.has("row")


def _ends_ranks(match: Match) -> bool:
    """Return whether a launcher reports that it ends its ranks, as one does that is ended itself."""
    return match.ended is not None and match.ended.reason == "ends its ranks"


def _after(end: Match, symptoms: Sequence[Match]) -> bool:
    """Return whether one of the symptoms came before ``end``: by the clock if both files have one, else possibly."""
    if any(match.source == end.source and match.order < end.order for match in symptoms):
        return True
    for source in {match.source for match in symptoms} - {end.source}:
        times = [match.who.time for match in symptoms if match.source == source and match.who.time is not None]
        if end.who.time is None or not times or min(times) < end.who.time:
            return True
    return False
