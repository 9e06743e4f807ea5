"""What the logs of a dead job said, around the first failure: the lines that are known, and a lane per rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean

LINES_MOST = 500
LANES_MOST = 48
BEFORE, AFTER = 60.0, 600.0
"""Seconds around the first failure that the lanes show."""
ROOT = "root cause"
"""What the line of the first failure is said to show (``distdoctor.cli.logs``)."""
Line = dict[str, Any]


@dataclass(frozen=True)
class Said:
    """One line of a log."""

    line: Line
    who: str
    when: str
    """Seconds from the first failure, with a sign before it where they are those of a line near it; empty where no time
    is known."""
    root: bool


@dataclass(frozen=True)
class Lane:
    """One rank, or one host, and when it said what: (percent of the way, kind, what)."""

    who: str
    marks: list[tuple[str, str, str]]


@dataclass(frozen=True)
class Timeline:
    """The lines, and the lanes where the lines have times."""

    lines: list[Said]
    left_out: int
    lanes: list[Lane]
    more_lanes: int
    begins: str
    ends: str


def timeline(report: Report) -> Timeline | None:
    """Of a report on logs; None where it has no lines."""
    found = _merged([line for line in _placed(report.details.get("lines") or ()) if _decisive(line)])
    if not found:
        return None
    first = next((place for place, line in enumerate(found) if line.get("shows") == ROOT), 0)
    shown = _around(found, first)
    zero = found[first]["near"]
    lanes, begins, ends = _lanes(shown, zero)
    said = [Said(line, _who(line), _when(line, zero), line.get("shows") == ROOT) for line in shown]
    return Timeline(said, len(found) - len(shown), lanes[:LANES_MOST], len(lanes[LANES_MOST:]), begins, ends)


def _placed(lines: Sequence[Line]) -> list[Line]:
    """The lines with ``near``: their time or, where a line has none, that of the nearest one in its file, before it
    rather than after it. In the order of these times where all have one."""
    near: list[float | None] = [line.get("time") for line in lines]
    for order in (range(len(lines)), range(len(lines) - 1, -1, -1)):
        last: dict[str, float] = {}
        for place in order:
            file, known = str(lines[place].get("file")), near[place]
            if known is None:
                near[place] = last.get(file)
            else:
                last[file] = known
    placed = [{**line, "near": time} for line, time in zip(lines, near, strict=True)]
    return placed if None in near else sorted(placed, key=lambda line: float(line["near"]))


def _decisive(line: Line) -> bool:
    """Whether it says more than where in the code it was, or that all is well."""
    return line.get("shows") != "noise" and not str(line.get("text")).startswith(("Traceback (most recent", 'File "'))


def _merged(lines: Sequence[Line]) -> list[Line]:
    """A line that several checks know is one line; it shows most of what one of them says that it shows."""
    of: dict[tuple[Any, Any], Line] = {}
    for line in lines:
        where = line.get("file"), line.get("line")
        if where not in of:
            of[where] = line
            continue
        shows = min(of[where].get("shows"), line.get("shows"), key=lambda one: (one != ROOT, one != "cause"))
        of[where] = {**of[where], "shows": shows, "check": f"{of[where].get('check')}, {line.get('check')}"}
    return list(of.values())


def _around(found: Sequence[Line], first: int) -> list[Line]:
    """As many as are shown, most of them after the first failure."""
    begin = max(0, min(first - LINES_MOST // 4, len(found) - LINES_MOST))
    return list(found[begin : begin + LINES_MOST])


def _lanes(shown: Sequence[Line], zero: float | None) -> tuple[list[Lane], str, str]:
    if zero is None:
        return [], "", ""
    timed = [line for line in shown if line["near"] is not None and -BEFORE <= line["near"] - zero <= AFTER]
    begin, end = min(line["near"] for line in timed), max(line["near"] for line in timed)
    of: dict[str, list[Line]] = {}
    for line in sorted(timed, key=lambda one: float(one["near"])):
        of.setdefault(_who(line), []).append(line)
    if len(of) < 2 or end <= begin:
        return [], "", ""
    lanes = [Lane(who, [_mark(line, zero, begin, end) for line in lines]) for who, lines in of.items()]
    return lanes, _seconds(begin - zero), _seconds(end - zero)


def _mark(line: Line, zero: float, begin: float, end: float) -> tuple[str, str, str]:
    kind = "root" if line.get("shows") == ROOT else "cause" if line.get("shows") == "cause" else "after"
    place = 1 + 98 * (line["near"] - begin) / (end - begin)
    return f"{place:.1f}", kind, f"{_when(line, zero)} {clean(line.get('check'))}: {clean(line.get('text'))}"


def _who(line: Line) -> str:
    if line.get("rank") is not None:
        return f"rank {line['rank']}"
    return clean(line.get("host") or line.get("file") or "")


def _when(line: Line, zero: float | None) -> str:
    if zero is None or line["near"] is None:
        return ""
    return ("" if line.get("time") is not None else "\u2248 ") + _seconds(line["near"] - zero)


def _seconds(seconds: float) -> str:
    return f"{seconds:+.3f} s" if abs(seconds) < 1 else f"{seconds:+,.1f} s"
