"""Separation of logs by job and attempt: numbered files, requeued jobs, torchrun's folders; only the last attempt
counts. Pure."""

from __future__ import annotations

import calendar
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from distdoctor.judge.logs.clocks import is_of_other_zone
from distdoctor.judge.logs.lifelines import last_line
from distdoctor.model.facts.logs import LogFacts, LogSource, Match
from distdoctor.model.text import in_a_year

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


def last_try(logs: LogFacts) -> tuple[LogFacts, tuple[Match, ...]]:
    """Split ``logs`` into the last attempt and the matches of earlier ones."""
    attempts = {source.name: _attempt(source.name) for source in logs.sources}
    last: dict[str, int] = {}
    for run, number in filter(None, attempts.values()):
        last[run] = max(last.get(run, 0), number)
    over = {name for name, one in attempts.items() if one is not None and one[1] < last[one[0]]}
    over |= _before_restarts(logs.sources)
    by_source: dict[str, list[Match]] = {}
    for match in logs.matches:
        by_source.setdefault(match.source, []).append(match)
    of_file = {source.name: source.who.host for source in logs.sources}
    counts = {name: "launched" if _of_several(own, of_file.get(name)) else "try" for name, own in by_source.items()}
    tries = {name: _last_of(own, counts[name]) for name, own in by_source.items()}
    restarted = {source.name: source.restarted for source in logs.sources}
    queued_again = _queued_again(logs.matches)
    earlier = tuple(
        match
        for match in logs.matches
        if not match.compared
        and (
            match.source in over
            or match.line <= restarted.get(match.source, 0)
            or _attempt_number(match, counts[match.source]) < tries[match.source]
            or match.line < queued_again.get((match.source, _job_of_row(match)), 0)
        )
    )
    if not earlier and not over:
        return logs, ()
    gone = {match.order for match in earlier}
    return replace(
        logs,
        sources=tuple(source for source in logs.sources if source.name not in over),
        matches=tuple(match for match in logs.matches if match.order not in gone),
    ), earlier


_PREVIOUS = re.compile(r"(?P<log>.*?)[._-]prev(?:ious)?(?=\.|$)")
"""Name for the output of a container before its restart (kubectl logs --previous)."""


def _before_restarts(sources: Iterable[LogSource]) -> set[str]:
    """Return the logs of containers that were restarted and then ended well."""
    well = {source.name for source in sources if source.done}
    return {one.name for one in sources if _PREVIOUS.search(one.name) and _PREVIOUS.sub(r"\g<log>", one.name) in well}


_ROW = re.compile(r"(?P<job>\d{1,12}(?:_\d{1,9})?)(?:[.+]\w{1,20})? ")
"""Beginning of a row for a job or a step in sacct's tables."""


def _queued_again(matches: Iterable[Match]) -> dict[tuple[str, str], int]:
    """Return the line of the last row per job in each table: with --duplicates it has one for each time that the job
    was queued."""
    last: dict[tuple[str, str], int] = {}
    for match in matches:
        if match.values.keys() & {"well", "of_table"} and match.text.startswith(f"{(job := _job_of_row(match))} "):
            last[match.source, job] = max(last.get((match.source, job), 0), last_line(match))
    return last


def _job_of_row(match: Match) -> str:
    """Return the job of a row, empty for any other line."""
    row = _ROW.match(match.text)
    return row["job"] if row is not None else ""


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


def _of_several(own: Iterable[Match], of_file: str | None) -> bool:
    """Return whether launchers of several nodes, which end one after another, write one log.

    ``of_file``: the host by the name of the log, for which its lines may use another name.
    """
    speakers = [(match.who.host if match.who.host != of_file else None, match.who.task) for match in own]
    return any(len({*every} - {None}) > 1 for every in zip(*speakers, strict=True))


def _last_of(own: Iterable[Match], count: str) -> int:
    """Return the number of the last attempt of one log that shows a failure of its own."""
    return max(
        (_attempt_number(match, count) for match in own if match.shows == "cause" or match.exception or _ended(match)),
        default=0,
    )


def _ended(match: Match) -> bool:
    """Return whether it shows that an attempt ended, for whatever reason."""
    end = match.ended
    summary = end is not None and end.launcher == "torchrun" and end.reason == "failed"
    return summary or "row" in match.values or "by_hand" in match.values


def _attempt_number(match: Match, count: str) -> int:
    return int(match.values.get(count, 0))


# Logs of several jobs in one folder: one job's failure explains nothing in another.


_NAMES = (
    re.compile(r"(?:^|/)slurm-(\d{1,12})(?:[_.-][^/]*)?$"),  # sbatch's own name for a job's output, or the like
    # qsub's: NAME.o1234 and NAME.e1234; of a job of an array NAME.o1234.5, Torque's NAME.o1234-5
    re.compile(r"(?:^|/)[^/]{1,200}\.[oe](\d{1,12}(?:[.-]\d{1,6}(?=$|\.(?:gz|zst|xz|bz2)$))?)(?:\.[\w.-]{1,60})?$"),
)
_SAID = re.compile(r"\bStepId=(\d{1,12})|\*\*\* (?:JOB|STEP) (\d{1,12})\b")
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
    numbers = {next(filter(None, found.groups())) for match in own if (found := _SAID.search(match.text)) is not None}
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


# Folders of one job in torchrun's --log-dir: torchrun makes one at each start, on each node.


_FOLDER = re.compile(r"(?P<dir>.*/|)(?P<run>[^/]{1,200}_[a-z0-9_]{8})/attempt_\d{1,6}/\d{1,6}/[^/]+", re.S)
"""--log-dir, and in it the folder that mkdtemp() made from the job's id
(torch/distributed/elastic/multiprocessing/api.py)."""

YEAR = 365 * 24 * 3600.0
"""Seconds: times further apart do not both have a year."""


@dataclass
class _RunFolder:
    """Folder of one start."""

    place: str
    name: str
    files: list[str] = field(default_factory=list)
    begins: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    """First and last times in its files."""
    ranks: set[int] = field(default_factory=set)
    """Ranks that its lines name."""

    @property
    def began(self) -> float | None:
        """Return the first time, of those with a year if there are any."""
        return min(_dated(self.begins), default=None)

    @property
    def ended(self) -> float | None:
        """Return the last time."""
        return max(_dated(self.ends), default=None)


def _dated(times: Sequence[float]) -> Sequence[float]:
    return [time for time in times if time >= 4 * YEAR] or times


def launches(sources: Iterable[LogSource], own: Mapping[str, Sequence[Match]]) -> dict[str, str]:
    """Return the run of each file in a folder of torchrun's; empty if all may belong to one run.

    ``own``: the known lines of each file.
    """
    found: dict[tuple[str, str], _RunFolder] = {}
    for source in sources:
        if (folder := _FOLDER.fullmatch(source.name)) is None:
            continue
        one = found.setdefault((folder["dir"], folder["run"]), _RunFolder(folder["dir"], folder["run"]))
        one.files.append(source.name)
        one.begins += [] if source.began is None else [source.began]
        one.ends += [] if source.ended is None else [source.ended]
        one.ranks |= {match.who.rank for match in own.get(source.name, ()) if match.who.rank is not None}
    every = [*found.values()]
    if len({one.place for one in every}) == len(every):  # one for each node
        return {}
    runs = _launch_runs(sorted(every, key=lambda one: (one.began or 0.0, one.name)))
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


def _launchers(runs: Mapping[str, Sequence[_RunFolder]], spans: Mapping[str, tuple[float, float]]) -> dict[str, str]:
    """Return the run of each log outside these folders, as the launcher's own output.

    A log belongs to the run in whose time it was written (``told``: first and last time): after the previous run's
    ranks had ended, and before the next run's began. Empty if the times of the runs are unknown.
    """
    if any(None in (one.began, one.ended) for run in runs.values() for one in run):
        return {}
    times = [(name, *_times(run)) for name, run in runs.items()]
    found = {}
    for file, both in spans.items():
        first, last = map(in_a_year, both)
        for place, (name, begins, _) in enumerate(times):
            before = times[place - 1][2] if place else -math.inf
            after = times[place + 1][1] if place + 1 < len(times) else math.inf
            if before < first and begins <= last < after:
                found[file] = name
    return found


def _times(run: Sequence[_RunFolder]) -> tuple[float, float]:
    """Return the first and last time of a run, in whatever year."""
    return min(in_a_year(one.began or 0.0) for one in run), max(in_a_year(one.ended or 0.0) for one in run)


def _launch_runs(every: Sequence[_RunFolder]) -> list[list[_RunFolder]]:
    """Return the folders grouped by run in the order of their starts: no rank is in two folders of one run."""
    if all(one.ranks & other.ranks for one, other in combinations(every, 2)):
        return [[one] for one in every]
    runs: list[list[_RunFolder]] = []
    last: float | None = None
    for one in every:
        apart = one.began is not None and last is not None and one.began - last >= APART
        apart = apart or (bool(runs) and _is_over(runs[-1], one))
        if not runs or (apart and not is_of_other_zone(one.began, last) and _may_be_two(runs[-1], one)):
            runs.append([])
        runs[-1].append(one)
        last = one.began
    return runs if all(one.began is not None for one in every) else [[*every]]


def _is_over(run: Iterable[_RunFolder], one: _RunFolder) -> bool:
    """Return whether all ranks of ``run`` wrote their last line before those of ``one`` wrote the first."""
    ends = [other.ended for other in run]
    return one.began is not None and all(end is not None and 0 < one.began - end < YEAR for end in ends)


def _may_be_two(run: Iterable[_RunFolder], one: _RunFolder) -> bool:
    """Return whether a node that joined a run later would log the same ranks."""
    ranks = {rank for other in run for rank in other.ranks}
    return not ranks or not one.ranks or bool(ranks & one.ranks)
