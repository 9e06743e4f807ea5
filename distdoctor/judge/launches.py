"""Which of torchrun's folders in one --log-dir are of one job: it makes one at each start, on each node. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from distdoctor.judge.moments import is_of_other_zone
from distdoctor.model.durations import in_a_year
from distdoctor.model.facts.logs import LogSource, Match

_FOLDER = re.compile(r"(?P<dir>.*/|)(?P<run>[^/]{1,200}_[a-z0-9_]{8})/attempt_\d{1,6}/\d{1,6}/[^/]+", re.S)
"""--log-dir, and in it what mkdtemp() made of the job's id (torch/distributed/elastic/multiprocessing/api.py)."""
APART = 120
"""Seconds between the first lines of two runs at least, where no rank tells that they are two: the ranks of all nodes
of one job are started at once, when all have met."""

YEAR = 365 * 24 * 3600.0
"""Seconds: times further apart are not both told with their year; one without a year is of the third of all."""


@dataclass
class _Launch:
    """One such folder."""

    place: str
    name: str
    files: list[str] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    """The first and the last times that its files tell."""
    written: list[float] = field(default_factory=list)
    """When they were last written to."""
    failed: bool = False
    """Whether one of them shows a failure."""
    ranks: set[int] = field(default_factory=set)
    """Of which lines tell that they are from."""

    @property
    def began(self) -> float | None:
        """The first time of all; of those with a year, where some have one."""
        return min(_dated(self.begins), default=None)

    @property
    def ended(self) -> float | None:
        """The last one."""
        return max(_dated(self.ends), default=None)


def _dated(times: Sequence[float]) -> Sequence[float]:
    return [time for time in times if time >= 4 * YEAR] or times


def launches(sources: Iterable[LogSource], own: Mapping[str, Sequence[Match]]) -> dict[str, str]:
    """Of each file in a folder of torchrun's the run of which it is; of none, where all may be of one run. ``own``: the
    known lines of each file."""
    found: dict[tuple[str, str], _Launch] = {}
    for source in sources:
        if (told := _FOLDER.fullmatch(source.name)) is None:
            continue
        one = found.setdefault((told["dir"], told["run"]), _Launch(told["dir"], told["run"]))
        one.files.append(source.name)
        one.begins += [] if source.began is None else [source.began]
        one.ends += [] if source.ended is None else [source.ended]
        one.written += [] if source.written is None else [source.written]
        one.failed |= any(match.shows not in ("noise", "hint") for match in own.get(source.name, ()))
        one.ranks |= {match.who.rank for match in own.get(source.name, ()) if match.who.rank is not None}
    every = [*found.values()]
    if len({one.place for one in every}) == len(every):  # one for each node
        return {}
    runs = _runs(sorted(every, key=lambda one: (one.began or 0.0, one.name)))
    names = [f"run {number} ({run[0].name})" for number, run in enumerate(runs, 1)]
    placed = {file: name for name, run in zip(names, runs, strict=True) for one in run for file in one.files}
    if len(runs) < 2:
        return placed
    around = {
        source.name: (source.began, max(times))
        for source in sources
        if source.kind == "log" and source.began is not None and source.name not in placed
        if (times := [match.who.time for match in own.get(source.name, ()) if match.who.time is not None])
    }
    return {**placed, **_launchers(dict(zip(names, runs, strict=True)), around)}


def _launchers(runs: Mapping[str, Sequence[_Launch]], told: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Of each log in no folder of a run, as what a launcher itself has told, the run in whose time all of it was
    written, by its first and last time (``told``): after the ranks of the one before had ended, and before those of the
    next began. Empty where the times of the runs are not known."""
    if any(None in (one.began, one.ended) for run in runs.values() for one in run):
        return {}
    times = [(name, *_times(run)) for name, run in runs.items()]
    found = {}
    for file, both in told.items():
        first, last = map(in_a_year, both)
        for place, (name, begins, _) in enumerate(times):
            before = times[place - 1][2] if place else -math.inf
            after = times[place + 1][1] if place + 1 < len(times) else math.inf
            if before < first and begins <= last < after:
                found[file] = name
    return found


def _times(run: Sequence[_Launch]) -> tuple[float, float]:
    """When the first rank of a run spoke and when the last, in whatever year."""
    return min(in_a_year(one.began or 0.0) for one in run), max(in_a_year(one.ended or 0.0) for one in run)


def _runs(every: Sequence[_Launch]) -> list[list[_Launch]]:
    """Those of one run each, in the order of their beginnings: no rank is in two folders of one."""
    if all(one.ranks & other.ranks for one, other in combinations(every, 2)):
        return [[one] for one in every]
    if all(one.began is None and len(one.written) == len(one.files) for one in every):
        return _by_files(every)
    runs: list[list[_Launch]] = []
    last: float | None = None
    for one in every:
        apart = one.began is not None and last is not None and one.began - last >= APART
        apart = apart or (bool(runs) and _is_over(runs[-1], one))
        if not runs or (apart and not is_of_other_zone(one.began, last) and _may_be_two(runs[-1], one)):
            runs.append([])
        runs[-1].append(one)
        last = one.began
    return runs if all(one.began is not None for one in every) else [[*every]]


def _by_files(every: Sequence[_Launch]) -> list[list[_Launch]]:
    """The same where nothing tells a time but when the files were last written to: who has no failure to tell of so
    long after others had failed is of another run."""
    runs: list[list[_Launch]] = []
    for one in sorted(every, key=lambda one: max(one.written)):
        before = runs[-1] if runs else []
        last = max((time for other in before for time in other.written), default=0.0)
        new = not one.failed and any(other.failed for other in before) and max(one.written) - last >= APART
        if new or not runs:
            runs.append([])
        runs[-1].append(one)
    return runs


def _is_over(run: Iterable[_Launch], one: _Launch) -> bool:
    """Whether all ranks of ``run`` had written their last word before those of ``one`` wrote the first."""
    ends = [other.ended for other in run]
    return one.began is not None and all(end is not None and 0 < one.began - end < YEAR for end in ends)


def _may_be_two(run: Iterable[_Launch], one: _Launch) -> bool:
    """Whether a node that joined a run later would not tell other ranks."""
    ranks = {rank for other in run for rank in other.ranks}
    return not ranks or not one.ranks or bool(ranks & one.ranks)
