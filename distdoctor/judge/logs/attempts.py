"""Separation of logs by job and attempt: numbered files and folders; only the last attempt counts. Pure."""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from distdoctor.judge.logs.lifelines import Lifeline, Timeline
from distdoctor.model.facts.logs import LogFacts, LogSource, Match

_ATTEMPT = re.compile(r"(?P<run>.*?)(?:^|/)attempt_(?P<number>\d{1,6})/\d{1,6}/[^/]+$", re.S)
"""Folders of torchrun's --log-dir: one per run of a node's launcher, and in it one per start of its ranks."""
_NUMBERED = re.compile(
    r"(?P<run>.*?(?:^|[/._-]))(?:try|attempt|retry|restart)[._-]?(?P<number>\d{1,4})(?:[/._-].*)?$", re.S | re.I
)
"""Folders or files that a script around the job numbered by its attempts."""
_OF_NEMO = re.compile(r"(?P<run>.*?)(?:(?:^|(?<=/))run_(?P<number>\d{1,5})/)?nemo_(?:error_)?log[^/]{0,80}\.txt", re.S)
"""Folders run_0, run_1, ... into which a job that NeMo resumes moves the logs of earlier attempts (check_resume() in
nemo/utils/exp_manager.py)."""
LAST = 1_000_000
"""Number for logs that were not moved: no job is resumed as often."""


_PREVIOUS = re.compile(r"(?P<log>.*?)[._-]prev(?:ious)?(?=\.|$)")
"""Name for the output of a container before its restart (kubectl logs --previous)."""


def last_try(logs: LogFacts) -> tuple[LogFacts, tuple[Match, ...]]:
    """Split ``logs`` into the last attempt and the matches of earlier ones."""
    attempts = {source.name: _attempt(source.name) for source in logs.sources}
    last: dict[str, int] = {}
    for run, number in filter(None, attempts.values()):
        last[run] = max(last.get(run, 0), number)
    over = {name for name, one in attempts.items() if one is not None and one[1] < last[one[0]]}
    well = {source.name for source in logs.sources if source.done}
    over |= {
        one.name for one in logs.sources if _PREVIOUS.search(one.name) and _PREVIOUS.sub(r"\g<log>", one.name) in well
    }
    until = {source.name: source.restarted for source in logs.sources}
    for life in Timeline.of(logs).lifelines.values():
        until[life.source.name] = max(until[life.source.name], _before_last(life))
    earlier = tuple(
        match
        for match in logs.matches
        if not match.compared and (match.source in over or match.line <= until.get(match.source, 0))
    )
    gone = {match.order for match in earlier}
    return replace(
        logs,
        sources=tuple(source for source in logs.sources if source.name not in over),
        matches=tuple(match for match in logs.matches if match.order not in gone),
    ), earlier


def _before_last(life: Lifeline) -> int:
    """Return the line above the last attempt of a log that shows a failure of its own, 0 if it is the first.

    The launchers of several nodes end one after another: in their common log, an attempt begins where the one before
    had ended on all of them. Only there is the loss of a peer no rest of the attempt before.
    """
    own = life.source.who.host
    names = [(match.who.host if match.who.host != own else None, match.who.task) for match in life.events]
    several = any(len({*every} - {None}) > 1 for every in zip(*names, strict=True))
    numbers = [match.stopped if several else match.attempt for match in life.events]
    failed = [
        match.shows == "cause" or bool(match.exception) or _ended(match) or (match.stopped > 0 and match.has("whole"))
        for match in life.events
    ]
    last = max((number for number, own in zip(numbers, failed, strict=True) if own), default=0)
    return max((match.line for match, number in zip(life.events, numbers, strict=True) if number < last), default=0)


STALE = (
    "the ranks that torchrun started again found in its store the addresses of those before them (torch 2.6 and newer, "
    "gloo): TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives each start a store of its own where --rdzv-backend is c10d or "
    "--standalone is given; with --master-addr alone nothing does; what is to be mended ended the earlier try"
)
_MESH = re.compile(r"connectFullMesh failed.{0,300}(?:Connection refused|timed out)")


def stale_restart_note(logs: LogFacts) -> list[str]:
    """Return a note about ranks that one launcher restarted and that did not meet in the last attempt."""
    tried = {source.name: _attempt(source.name) for source in logs.sources}
    again = {source.name for source in logs.sources if source.restarted or (tried[source.name] or ("", 0))[1]}
    return [STALE] if any(match.source in again and _MESH.search(match.text) for match in logs.matches) else []


def _attempt(name: str) -> tuple[str, int] | None:
    found = _ATTEMPT.fullmatch(name) or _OF_NEMO.fullmatch(name) or _NUMBERED.fullmatch(name)
    return (found["run"], int(found["number"] or LAST)) if found else None


def _ended(match: Match) -> bool:
    """Return whether it shows that an attempt ended, for whatever reason."""
    end = match.ended
    return match.has("row") or (end is not None and end.launcher == "torchrun" and end.reason == "failed")


# Logs of several jobs in one folder: one job's failure explains nothing in another.


_NAMES = (
    re.compile(r"(?:^|/)slurm-(\d{1,12})(?:[_.-][^/]*)?$"),  # sbatch's own name for a job's output, or the like
    # qsub's: NAME.o1234 and NAME.e1234; of a job of an array NAME.o1234.5, Torque's NAME.o1234-5
    re.compile(r"(?:^|/)[^/]{1,200}\.[oe](\d{1,12}(?:[.-]\d{1,6}(?=$|\.(?:gz|zst|xz|bz2)$))?)(?:\.[\w.-]{1,60})?$"),
)
JOB_NUMBER = re.compile(r"\bStepId=(\d{1,12})|\*\*\* (?:JOB|STEP) (\d{1,12})\b")
"""Job number in the messages of SLURM's daemons."""
_BEGAN = re.compile(
    r"(?<!\d)(?P<year>20\d\d)(?P<dash>[-_.]?)(?P<month>[01]\d)(?P=dash)(?P<day>[0-3]\d)"
    r"[/_T.-]{1,2}(?P<hour>[0-2]\d)(?P<colon>[-_.:h]?)(?P<minute>[0-5]\d)(?:(?P=colon)|m)(?P<second>[0-5]\d)(?!\d)"
)
"""Folder with the time of its start: Hydra's outputs/2026-01-02/03-04-05/, W&B's run-20260102_030405-ab12/, Ray's
session_2026-01-02_03-04-05_678_9/, and scripts that use date(1)."""
_OF_SWEEP = re.compile(r"(?:^|/)multirun/(?:[^/]{1,80}/){1,3}?(?P<number>\d{1,4})/")
"""Folder of Hydra for one run of a sweep."""
APART = 120
"""Least seconds between the starts of two jobs: each rank of one job may make its own folder."""


def by_job(logs: LogFacts) -> dict[str, LogFacts]:
    """Return the logs of each job by its number or start time; all together ({"": ...}) if they cannot be separated."""
    if any(source.kind == "flight-recorder" for source in logs.sources):
        return {"": logs}
    own: dict[str, list[Match]] = {}
    for match in logs.matches:
        own.setdefault(match.source, []).append(match)
    jobs = {source.name: _job(source, own.get(source.name, ())) for source in logs.sources}
    if not any(jobs.values()):
        jobs = _runs([source.name for source in logs.sources])
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
            sources=tuple(files),
            matches=tuple(match for one in files for match in own.get(one.name, ()) if not match.compared),
            notes=() if place else logs.notes,
        )
        for place, (number, files) in enumerate(sources.items())
    }


def _job(source: LogSource, own: Sequence[Match]) -> str:
    """Return the job of a file by its name, or by the only job named in it; empty if unknown."""
    for pattern in _NAMES:
        if (found := pattern.search(source.part_of or source.name)) is not None:
            return found[1]
    numbers = {
        next(filter(None, found.groups())) for match in own if (found := JOB_NUMBER.search(match.text)) is not None
    }
    return next(iter(numbers)) if len(numbers) == 1 else ""


def _runs(names: Iterable[str]) -> dict[str, str]:
    """Return the run of each file by the start time in its folder's name; empty if there is none."""
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
    """Return start time and name of the innermost folder with a time, in seconds by the clock of whoever made it."""
    folders = name[: name.rfind("/") + 1]
    found = [*_BEGAN.finditer(folders)]
    if not found:
        return None
    date = found[-1]
    year, month, day, hour, minute, second = (
        int(date[part]) for part in ("year", "month", "day", "hour", "minute", "second")
    )
    if not (1 <= month <= 12 and 1 <= day <= 31 and hour < 24):
        return None
    folder = folders[folders.rfind("/", 0, date.start()) + 1 : folders.find("/", date.end())]
    return calendar.timegm((year, month, day, hour, minute, second)), folder.replace("/", " ")


def _in_order(number: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,18}", number))
