"""Logs of several jobs in one folder: what one of them shows is no reason for what another shows. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.judge.launches import launches
from distdoctor.model.facts.logs import LogFacts, LogSource, Match

_NAMES = (
    re.compile(r"(?:^|/)slurm-(\d{1,12})(?:[_.-][^/]*)?$"),  # sbatch's own name for a job's output, or the like
    # qsub's: NAME.o1234 and NAME.e1234; of a job of an array NAME.o1234.5, Torque's NAME.o1234-5
    re.compile(r"(?:^|/)[^/]{1,200}\.[oe](\d{1,12}(?:[.-]\d{1,6}(?=$|\.(?:gz|zst|xz|bz2)$))?)(?:\.[\w.-]{1,60})?$"),
)
_SAID = re.compile(r"\bStepId=(\d{1,12})|\*\*\* (?:JOB|STEP) (\d{1,12})\b")
"""How SLURM's daemons name a job in its output."""
_BEGAN = re.compile(
    r"(?<!\d)(?P<year>20\d\d)(?P<dash>[-_.]?)(?P<month>[01]\d)(?P=dash)(?P<day>[0-3]\d)"
    r"[/_T.-]{1,2}(?P<hour>[0-2]\d)(?P<colon>[-_.:h]?)(?P<minute>[0-5]\d)(?:(?P=colon)|m)(?P<second>[0-5]\d)(?!\d)"
)
"""A folder that says when what is in it began: Hydra's outputs/2026-01-02/03-04-05/, W&B's run-20260102_030405-ab12/,
Ray's session_2026-01-02_03-04-05_678_9/, and what scripts make of date(1)."""
_OF_SWEEP = re.compile(r"(?:^|/)multirun/(?:[^/]{1,80}/){1,3}?(?P<number>\d{1,4})/")
"""Hydra's folder of one of the runs that it was told to do one after another."""
APART = 120
"""Seconds between the beginnings of runs at least: each rank of one job may make a folder of its own."""


def by_job(logs: LogFacts) -> dict[str, LogFacts]:
    """The logs of each job by its number, or by when it began; of all jobs together ({"": ...}) where they are not told
    apart."""
    if any(source.kind == "flight-recorder" for source in logs.sources):
        return {"": logs}
    own: dict[str, list[Match]] = {}
    for match in logs.matches:
        own.setdefault(match.source, []).append(match)
    jobs = {source.name: _job(source, own.get(source.name, ())) for source in logs.sources}
    if not any(jobs.values()):
        jobs = _runs([source.name for source in logs.sources])
    if not any(jobs.values()):
        jobs = launches(logs.sources, own)
    shown = {match.source for match in logs.matches if not match.compared}
    numbers = sorted({*jobs.values()} - {""}, key=_in_order)
    if len(numbers) < 2 or any(not jobs.get(source) for source in shown):
        return {"": logs}
    sources: dict[str, list[LogSource]] = {number: [] for number in numbers}
    for source in logs.sources:
        sources[jobs[source.name] or numbers[0]].append(source)
    return {
        number: replace(
            logs,
            sources=tuple(those),
            matches=tuple(match for one in those for match in own.get(one.name, ()) if not match.compared),
            notes=() if place else logs.notes,
        )
        for place, (number, those) in enumerate(sources.items())
    }


def _job(source: LogSource, own: Sequence[Match]) -> str:
    """Of which job this file is, by its name, or by the only one that is named in it; empty where neither says."""
    for pattern in _NAMES:
        if (found := pattern.search(source.part_of or source.name)) is not None:
            return found[1]
    said = {next(filter(None, found.groups())) for match in own if (found := _SAID.search(match.text)) is not None}
    return next(iter(said)) if len(said) == 1 else ""


def _runs(names: Iterable[str]) -> dict[str, str]:
    """Of each file the run whose folder it is in, by when that began; empty where no folder says when."""
    began = {name: _began(name) for name in names}
    first: dict[float, str] = {}
    last, run = float("-inf"), ""
    for time, folder in sorted({one for one in began.values() if one is not None}):
        run = folder if time - last >= APART else run
        last = time
        first.setdefault(time, run)
    jobs = {}
    for name, one in began.items():
        sweep = _OF_SWEEP.search(name)
        jobs[name] = "" if one is None else first[one[0]] + (f" {sweep['number']}" if sweep is not None else "")
    return jobs


def _began(name: str) -> tuple[float, str] | None:
    """When what is in the innermost folder began that says so, in seconds by the clock of whoever made it; and its
    name."""
    folders = name[: name.rfind("/") + 1]
    found = [*_BEGAN.finditer(folders)]
    if not found:
        return None
    told = found[-1]
    year, month, day, hour, minute, second = (
        int(told[part]) for part in ("year", "month", "day", "hour", "minute", "second")
    )
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24):
        return None
    folder = folders[folders.rfind("/", 0, told.start()) + 1 : folders.find("/", told.end())]
    return calendar.timegm((year, month, day, hour, minute, second)), folder.replace("/", " ")


def _in_order(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,18}", number))
