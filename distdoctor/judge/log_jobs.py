"""Logs of several jobs in one folder: what one of them shows is no reason for what another shows. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from distdoctor.model.facts.logs import LogFacts, Match

_NAMES = (
    re.compile(r"(?:^|/)slurm-(\d{1,12})(?:[_.-][^/]*)?$"),  # sbatch's own name for a job's output, or the like
    re.compile(r"(?:^|/)[^/]{1,200}\.[oe](\d{1,12})(?:\.[\w.-]{1,60})?$"),  # qsub's: NAME.o1234 and NAME.e1234
)
_SAID = re.compile(r"\bStepId=(\d{1,12})|\*\*\* (?:JOB|STEP) (\d{1,12})\b")
"""How SLURM's daemons name a job in its output."""


def by_job(logs: LogFacts) -> dict[str, LogFacts]:
    """The logs of each job by its number; of all jobs together ({"": ...}) where they are not told apart."""
    jobs = {source.name: _job(source.name, logs.matches) for source in logs.sources}
    shown = {match.source for match in logs.matches if not match.compared}
    dumped = any(source.kind == "flight-recorder" for source in logs.sources)
    numbers = sorted({number for number in jobs.values() if number}, key=int)
    if len(numbers) < 2 or dumped or any(not jobs.get(source) for source in shown):
        return {"": logs}
    parts = {}
    for place, number in enumerate(numbers):
        names = {name for name, job in jobs.items() if (job or numbers[0]) == number}
        parts[number] = replace(
            logs,
            sources=tuple(source for source in logs.sources if source.name in names),
            matches=tuple(match for match in logs.matches if match.source in names and not match.compared),
            notes=() if place else logs.notes,
        )
    return parts


def _job(name: str, matches: Sequence[Match]) -> str:
    """Of which job this file is, by its name, or by the only one that is named in it; empty where neither says."""
    for pattern in _NAMES:
        if (found := pattern.search(name)) is not None:
            return found[1]
    said = {
        next(filter(None, found.groups()))
        for match in matches
        if match.source == name and (found := _SAID.search(match.text)) is not None
    }
    return next(iter(said)) if len(said) == 1 else ""
