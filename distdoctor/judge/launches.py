"""Which of torchrun's folders in one --log-dir are of one job: it makes one at each start, on each node. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations

from distdoctor.judge.moments import is_of_other_zone
from distdoctor.model.facts.logs import LogSource, Match

_FOLDER = re.compile(r"(?P<dir>.*/|)(?P<run>[^/]{1,200}_[a-z0-9_]{8})/attempt_\d{1,6}/\d{1,6}/[^/]+", re.S)
"""--log-dir, and in it what mkdtemp() made of the job's id (torch/distributed/elastic/multiprocessing/api.py)."""
APART = 120
"""Seconds between the first lines of two runs at least, where no rank tells that they are two: the ranks of all nodes
of one job are started at once, when all have met."""


@dataclass
class _Launch:
    """One such folder."""

    place: str
    name: str
    files: list[str] = field(default_factory=list)
    began: float | None = None
    ranks: set[int] = field(default_factory=set)
    """Of which lines tell that they are from."""


def launches(sources: Iterable[LogSource], own: Mapping[str, Sequence[Match]]) -> dict[str, str]:
    """Of each file in a folder of torchrun's the run of which it is; of none, where all may be of one run. ``own``: the
    known lines of each file."""
    found: dict[tuple[str, str], _Launch] = {}
    for source in sources:
        if (told := _FOLDER.fullmatch(source.name)) is None:
            continue
        one = found.setdefault((told["dir"], told["run"]), _Launch(told["dir"], told["run"]))
        one.files.append(source.name)
        if source.began is not None:
            one.began = min(source.began, one.began if one.began is not None else source.began)
        one.ranks |= {match.who.rank for match in own.get(source.name, ()) if match.who.rank is not None}
    every = [*found.values()]
    if len({one.place for one in every}) == len(every):  # one for each node
        return {}
    runs = _runs(sorted(every, key=lambda one: (one.began or 0.0, one.name)))
    names = [f"run {number} ({run[0].name})" for number, run in enumerate(runs, 1)]
    return {file: name for name, run in zip(names, runs, strict=True) for one in run for file in one.files}


def _runs(every: Sequence[_Launch]) -> list[list[_Launch]]:
    """Those of one run each, in the order of their beginnings: no rank is in two folders of one."""
    if all(one.ranks & other.ranks for one, other in combinations(every, 2)):
        return [[one] for one in every]
    runs: list[list[_Launch]] = []
    last: float | None = None
    for one in every:
        apart = one.began is not None and last is not None and one.began - last >= APART
        if not runs or (apart and not is_of_other_zone(one.began, last) and _may_be_two(runs[-1], one)):
            runs.append([])
        runs[-1].append(one)
        last = one.began
    return runs if all(one.began is not None for one in every) else [[*every]]


def _may_be_two(run: Iterable[_Launch], one: _Launch) -> bool:
    """Whether a node that joined a run later would not tell other ranks."""
    ranks = {rank for other in run for rank in other.ranks}
    return not ranks or not one.ranks or bool(ranks & one.ranks)
