"""Facts of logs: lines that match a check, their sources, and the end of each log."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, get_args

from distdoctor.model.log_line import Reason, Shows


@dataclass(frozen=True)
class LineOrigin:
    """Origin of a line, by its prefix, its file or its text."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    time: float | None = None
    """Seconds since the epoch by that host's clock; for a line without a date, of an unknown day."""
    task: int | None = None
    """Number that ``srun --label`` put before it: of a rank, or of the launcher of a whole node."""

    @property
    def speaker(self) -> tuple[object, ...]:
        """Return all that identifies the process that wrote the line."""
        return self.rank, self.local_rank, self.host, self.task, self.pid


@dataclass(frozen=True)
class ProcessExit:
    """End of a process or a job, as its launcher or scheduler reports it."""

    rank: int | None = None
    host: str | None = None
    code: int | None = None
    """Exit code as reported: negative for a signal where Python reports it."""
    signal: int | None = None
    """Signal that ended it, also if the exit code stands for one."""
    reason: Reason = ""
    """Reason of the launcher itself; empty if it reports only the code or the signal."""
    launcher: str = ""
    """Reporter of the end, if it matters: torchrun, deepspeed, srun, slurmstepd, mpirun, pals, kubectl, shell,
    systemd."""
    local_rank: int | None = None
    pid: int | None = None
    """Process number, in torchrun's tables and messages of the signals it sends."""
    tasks: str = ""
    """Tasks of srun that ended so: ``3``, ``0-3,7``."""


LineMark = Literal[
    "alone",
    "answered",
    "booted",
    "by_launcher",
    "caught",
    "direct",
    "final",
    "first",
    "head",
    "hung",
    "leaves",
    "logged",
    "monitor",
    "of_peer",
    "of_table",
    "outside",
    "restarted",
    "row",
    "several",
    "state",
    "thread",
    "traced",
    "uncaught",
    "whole",
    "without_group",
    "wraps",
]
"""What a line shows besides its text.

Of a traceback: ``head`` (its beginning), ``traced`` (it has frames), ``whole`` (with the program's first frame),
``direct`` (raised from another), ``wraps`` (it only holds others), ``without_group`` (raised as the groups were gone).
Of who heard it: ``caught`` or ``logged`` by the program, ``answered`` to a client, ``uncaught`` by anybody, ``thread``
(it ended a thread). Of an end: ``row`` of a launcher's table for a process that failed itself, ``first`` of all,
``outside`` (somebody ended the process), ``hung`` (the job, before that), ``by_launcher``, ``monitor``, ``state`` of
the job by its scheduler, ``of_table`` (the same, of accounting), ``restarted`` (it did well later), ``leaves`` (in
order), ``booted``. The others are fields of :class:`~distdoctor.model.log_line.Line`.
"""
_MARKS: frozenset[LineMark] = frozenset(get_args(LineMark))


@dataclass(frozen=True)
class Match:
    """One line that a check knows, or an exception that none does (``check`` is empty)."""

    check: str
    shows: Shows
    source: str
    line: int
    text: str
    """Line without its prefix, cleaned and shortened."""
    who: LineOrigin = LineOrigin()
    values: dict[str, str] = field(default_factory=dict)
    """Text that it contains, by the names of its wording's groups, or that belongs to it."""
    marks: frozenset[LineMark] = frozenset()
    why: str = ""
    order: int = 0
    """Position among all lines that were read."""
    exception: str = ""
    """Type of the exception whose own line this is."""
    frame: str = ""
    """Innermost ``file:line in function`` of its traceback."""
    chained: bool = False
    """True for an exception raised while an earlier one was being handled."""
    ranks: tuple[int, ...] = ()
    """Ranks that logged the same."""
    count: int = 1
    """Number of times it occurs in the logs."""
    ended: ProcessExit | None = None
    """End that it reports, if a launcher wrote it."""
    compared: bool = False
    """True if it is no line of a log, but a conclusion from the lines of several ranks."""
    again_at: int = 0
    """Last line of the file with the same text; 0 if there is no other."""
    numbered: int = 0
    """Number of the line in its file, if that has its newest line first; else 0."""
    about: float | None = None
    """Time of the lines above it, if it has none itself."""
    attempt: int = 0
    """Number of the job's attempt in its log, from 0."""
    stopped: int = 0
    """Number of those before it that ended on all nodes before the next began."""
    starts: int = 0
    """Number of a launcher's earlier starts of its ranks in its log."""

    @property
    def last_line(self) -> int:
        """Return the last line of the file with the same text."""
        return self.again_at or self.line

    def has(self, *marks: LineMark) -> bool:
        """Return whether it has one of these marks."""
        return not self.marks.isdisjoint(marks)

    def showing(self, found: Mapping[str, str]) -> Match:
        """Return it with what was found in its line, by name: marks, whatever their text, and values."""
        values = {name: text for name, text in found.items() if name not in _MARKS}
        marks = self.marks.union(name for name in _MARKS if name in found)
        return replace(self, values={**self.values, **values}, marks=marks)


@dataclass(frozen=True)
class LogSource:
    """One file that was read."""

    name: str
    kind: str
    lines: int = 0
    bytes: int = 0
    last: str = ""
    """Its last line with content."""
    progress: int = 0
    """Line up to which it shows the steps of a working job, if it does so near its end; else 0."""
    finished: int = 0
    """Line in which a job reports that it, or a part of it, is done, near the end; else 0."""
    record: int = 0
    """Last line near its end that a program's logger wrote, with a time and a level; else 0."""
    starting: bool = False
    """True if it ends in the middle of starting up: a rendezvous, a process group, a barrier."""
    done: bool = False
    """True if it ends with the end of the job, and no step after it."""
    who: LineOrigin = LineOrigin()
    """Origin of all of it, if its path says so."""
    part_of: str = ""
    """Name of the log that continues this older part of it."""
    alive: tuple[tuple[tuple[object, ...], int], ...] = ()
    """Origins whose steps follow right before a known line, with the last such line: an earlier failure of theirs was
    survived. An origin: rank, local rank, host and task, each if known."""
    worked: tuple[tuple[tuple[object, ...], int], ...] = ()
    """Origins with many steps, in the same form."""
    resumed: tuple[tuple[tuple[object, ...], int], ...] = ()
    """Origins whose last step right before a known line has a higher counter than their step before an earlier one, in
    the same form."""
    restarted: int = 0
    """Line up to which it shows a launcher's earlier starts of its ranks; else 0."""
    began: float | None = None
    """First time in it, if near its beginning, as in :class:`Who`."""
    ended: float | None = None
    """Last time in it, if near its end."""
    over: int = 0
    """First line below all steps in which a job reports that it is done, near the end; else 0."""
    known: int = 0
    """Last line in which a process that knows the job's end reports it; else 0."""
    success: int = 0
    """First line in which somebody who knows reports that the whole job has succeeded, with no run begun below it; else
    0."""
    stopped: int = 0
    """First line in which a program reports that it ends because somebody asked it to; else 0."""
    advanced: int = 0
    """Line of its last step, if that is near its end and its counter is higher than that of the step before; else 0."""
    stepper: tuple[object, ...] = ()
    """Origin of that line, in the form of those in ``alive``."""
    stepped: float | None = None
    """Time of its last step, if that is near its end, as in :class:`LineOrigin`."""
    pace: float | None = None
    """Longest time between its last steps, in seconds."""


@dataclass(frozen=True)
class LogFacts:
    """Everything that the logs of one job show."""

    sources: tuple[LogSource, ...] = ()
    matches: tuple[Match, ...] = ()
    notes: tuple[str, ...] = ()
    """Unreadable parts, and the reason."""
    settings: dict[str, str] = field(default_factory=dict)
    """Settings that NCCL and torch logged: versions, interfaces, transports."""
