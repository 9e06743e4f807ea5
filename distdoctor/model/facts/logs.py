"""What logs show, as plain data: which lines matched which check, said by whom, and how each log ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from distdoctor.model.log_line import Reason, Shows


@dataclass(frozen=True)
class Who:
    """Whom a line is from, as far as its prefix, its file or its text says."""

    rank: int | None = None
    local_rank: int | None = None
    host: str | None = None
    pid: int | None = None
    time: float | None = None
    """Seconds since the epoch by that host's clock; where a line has no date, of an unknown day."""
    task: int | None = None
    """The number that ``srun --label`` put before it: of a rank, or of the launcher of a whole node."""


@dataclass(frozen=True)
class ProcessExit:
    """End of a process or a job, as its launcher or scheduler reports it."""

    rank: int | None = None
    host: str | None = None
    code: int | None = None
    """Exit code as reported: negative for a signal where Python reports it."""
    signal: int | None = None
    """The signal that ended it, also where the exit code stands for one."""
    reason: Reason = ""
    """The launcher's own reason; empty where it reports only the code or the signal."""
    launcher: str = ""
    """Who reports it, where that tells more: torchrun, deepspeed, srun, slurmstepd, mpirun, pals, kubectl,
    shell, systemd."""
    local_rank: int | None = None
    pid: int | None = None
    """Of the process, in torchrun's tables and where torchrun sends it a signal."""
    tasks: str = ""
    """The tasks of srun that ended so: ``3``, ``0-3,7``."""


@dataclass(frozen=True)
class Match:
    """One line that a check knows, or an exception that none does (``check`` is empty)."""

    check: str
    shows: Shows
    source: str
    line: int
    text: str
    """The line without its prefix, cleaned and shortened."""
    who: Who = Who()
    values: dict[str, str] = field(default_factory=dict)
    why: str = ""
    order: int = 0
    """Its place among all lines that were read."""
    exception: str = ""
    """The type of the exception whose own line this is."""
    frame: str = ""
    """The innermost ``file:line in function`` of its traceback."""
    chained: bool = False
    """Raised while an earlier one was being handled, of an exception."""
    ranks: tuple[int, ...] = ()
    """Which ranks said the same."""
    count: int = 1
    """How often it stands in the logs."""
    ended: ProcessExit | None = None
    """The end that it reports, where a launcher wrote it."""
    compared: bool = False
    """No line of a log: what ranks say together and none of them alone."""


@dataclass(frozen=True)
class LogSource:
    """One file that was read."""

    name: str
    kind: str
    lines: int = 0
    bytes: int = 0
    last: str = ""
    """What it ends with: its last line that says something."""
    progress: int = 0
    """The line up to which it shows the steps of a job that works, where it does so near its end; else 0."""
    finished: int = 0
    """The line in which a job says that it, or a part of it, is done, near the end; else 0."""
    record: int = 0
    """The last line near its end that a program's logger wrote, with a time and a level; else 0."""
    starting: bool = False
    """Whether it ends in the middle of starting up: a rendezvous, a process group, a barrier."""
    done: bool = False
    """Whether it ends with the end of the job, and no step after it."""
    who: Who = Who()
    """Whom all of it is from, where its path says so."""
    part_of: str = ""
    """The name of the log that goes on where this one, an older part of it, ends."""
    died: int = 0
    """The line of the last exception that nobody caught, where what stands below it was written before; else 0."""
    alive: tuple[tuple[tuple[object, ...], int], ...] = ()
    """Of whom steps stand right before a line that is known, the line of the last such: who had said so before had
    survived it. Whom: rank, local rank, host and task, each as far as it is told."""
    worked: tuple[tuple[tuple[object, ...], int], ...] = ()
    """The same of who has made many steps."""
    restarted: int = 0
    """The line up to which what it shows is of a launcher's earlier starts of its ranks; else 0."""
    began: float | None = None
    """The first time that it tells, where that is near its beginning, as of :class:`Who`."""
    ended: float | None = None
    """The last time that it tells, where that is near its end."""
    over: int = 0
    """The first line below all steps in which a job says that it is done, near the end; else 0."""
    written: float | None = None
    """When its file was last written to, by the clock of whoever keeps it: a copy may have the time of the copying."""
    known: int = 0
    """The last line in which somebody says so who knows how it went; else 0."""


@dataclass(frozen=True)
class LogFacts:
    """Everything that the logs of one job show."""

    sources: tuple[LogSource, ...] = ()
    matches: tuple[Match, ...] = ()
    notes: tuple[str, ...] = ()
    """What could not be read, and why."""
    settings: dict[str, str] = field(default_factory=dict)
    """What NCCL and torch said of themselves: versions, interfaces, transports."""
