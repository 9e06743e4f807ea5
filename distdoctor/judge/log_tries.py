"""Of a job that was tried several times, the last try: what ended an earlier one did not end it. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace

from distdoctor.judge.survived import last_line
from distdoctor.model.facts.logs import LogFacts, LogSource, Match

_ATTEMPT = re.compile(r"(?P<run>.*?)(?:^|/)attempt_(?P<number>\d{1,6})/\d{1,6}/[^/]+$", re.S)
"""The folders of torchrun's --log-dir: one for each run of a node's launcher, in it one for each start of its ranks."""
_NUMBERED = re.compile(
    r"(?P<run>.*?(?:^|[/._-]))(?:try|attempt|retry|restart)[._-]?(?P<number>\d{1,4})(?:[/._-].*)?$", re.S | re.I
)
"""Folders or files that a script around the job has numbered by its tries."""
_OF_NEMO = re.compile(r"(?P<run>.*?)(?:(?:^|(?<=/))run_(?P<number>\d{1,5})/)?nemo_(?:error_)?log[^/]{0,80}\.txt", re.S)
"""A job that NeMo resumes moves what the tries before it wrote into folders run_0, run_1, ... beside its own logs
(check_resume() in nemo/utils/exp_manager.py)."""
LAST = 1_000_000
"""The number of what was not moved: no job is resumed as often."""


def last_try(logs: LogFacts) -> tuple[LogFacts, tuple[Match, ...]]:
    """``logs`` without what earlier tries left, and that."""
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
            or _number(match, counts[match.source]) < tries[match.source]
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
"""What somebody calls what a container wrote before it was started again (kubectl logs --previous)."""


def _before_restarts(sources: Iterable[LogSource]) -> set[str]:
    """The logs of containers that were started again, and have then ended well."""
    well = {source.name for source in sources if source.done}
    return {one.name for one in sources if _PREVIOUS.search(one.name) and _PREVIOUS.sub(r"\g<log>", one.name) in well}


_ROW = re.compile(r"(?P<job>\d{1,12}(?:_\d{1,9})?)(?:[.+]\w{1,20})? ")
"""How the rows of a job and of its steps begin in sacct's tables."""


def _queued_again(matches: Iterable[Match]) -> dict[tuple[str, str], int]:
    """Where the last row of a job stands in each table: with --duplicates it has one for each time that it was
    queued."""
    last: dict[tuple[str, str], int] = {}
    for match in matches:
        if match.values.keys() & {"well", "of_table"} and match.text.startswith(f"{(job := _job_of_row(match))} "):
            last[match.source, job] = max(last.get((match.source, job), 0), last_line(match))
    return last


def _job_of_row(match: Match) -> str:
    """Of which job it is a row; empty where it is none."""
    row = _ROW.match(match.text)
    return row["job"] if row is not None else ""


STALE = (
    "the ranks that torchrun started again found in its store the addresses of those before them (torch 2.6 and newer, "
    "gloo): TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 gives each start a store of its own where --rdzv-backend is c10d or "
    "--standalone is given; with --master-addr alone nothing does; what is to be mended ended the earlier try"
)
_MESH = re.compile(r"connectFullMesh failed.{0,300}(?:Connection refused|timed out)")


def stale(logs: LogFacts) -> list[str]:
    """What may be wrong with the last try of ranks that one launcher has started again, and that did not meet."""
    tried = {source.name: _attempt(source.name) for source in logs.sources}
    again = {source.name for source in logs.sources if source.restarted or (tried[source.name] or ("", 0))[1]}
    return [STALE] if any(match.source in again and _MESH.search(match.text) for match in logs.matches) else []


def _attempt(name: str) -> tuple[str, int] | None:
    found = _ATTEMPT.fullmatch(name) or _OF_NEMO.fullmatch(name) or _NUMBERED.fullmatch(name)
    return (found["run"], int(found["number"] or LAST)) if found else None


def _of_several(own: Iterable[Match], of_file: str | None) -> bool:
    """Whether launchers of several nodes, which end one after another, speak in one log. ``of_file``: the host by the
    name of the log, which its lines may call otherwise."""
    whose = [(match.who.host if match.who.host != of_file else None, match.who.task) for match in own]
    return any(len({*every} - {None}) > 1 for every in zip(*whose, strict=True))


def _last_of(own: Iterable[Match], count: str) -> int:
    """The number of the last try of one log that shows a failure of its own."""
    return max(
        (_number(match, count) for match in own if match.shows == "cause" or match.exception or _ended(match)),
        default=0,
    )


def _ended(match: Match) -> bool:
    """Whether it shows that a try came to its end, whatever did that."""
    end = match.ended
    summary = end is not None and end.launcher == "torchrun" and end.reason == "failed"
    return summary or "row" in match.values or "by_hand" in match.values


def _number(match: Match, count: str) -> int:
    return int(match.values.get(count, 0))
