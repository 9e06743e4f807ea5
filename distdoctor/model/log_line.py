"""How a log shows a failure: what a check declares as ``LOG``, one entry for each wording."""

from __future__ import annotations

from dataclasses import dataclass
from signal import Signals
from typing import Literal

Shows = Literal["cause", "end", "symptom", "hint", "exception", "noise"]
"""What a line that matches proves.

``cause``: this failure. ``end``: how a process ended, which tells the cause only where no other line does.
``symptom``: that something failed, of which this check is a possible cause, or which follows from every other death.
``hint``: a possible cause that is only worth naming where something failed.
``exception``: the own line of a Python exception which no other wording knows; the literal only stands for that.
``noise``: nothing; it also stands in the logs of jobs that run.
"""


Reason = Literal[
    "",
    "actor died",
    "actor lost",
    "cancelled",
    "command failed",
    "container failed",
    "daemon lost",
    "data loader worker",
    "ends its ranks",
    "failed",
    "first to fail",
    "gave up",
    "goes well",
    "held",
    "instance terminated",
    "launcher died",
    "launcher signalled",
    "node dead",
    "node failure",
    "node lost",
    "node shut down",
    "out of memory",
    "preempted",
    "sent by launcher",
    "time limit",
    "timer expired",
    "worker crashed",
]
"""Reasons that launchers and schedulers give for an end themselves; empty: only an exit code or a signal."""


@dataclass(frozen=True)
class Ended:
    """Class of ends of processes, whatever launcher reports them: by reason, and then by signal or exit code.

    Without signals, codes and ``failed``, all with the reason are in it.
    """

    reasons: tuple[Reason, ...] = ("",)
    signals: tuple[int, ...] = ()
    """Also where an exit code stands for one: -9, 137."""
    codes: tuple[int, ...] = ()
    failed: bool = False
    """Also every exit code above 0 that stands for no signal."""
    launchers: tuple[str, ...] = ()
    """Only what these report; empty: what any does."""

    def described(self) -> str:
        """Return the class in words, for the page of a check."""
        parts = [f"signal {number} ({Signals(number).name})" for number in self.signals]
        parts += [f"exit code {code}" for code in self.codes] + ["any exit code above 0"] * self.failed
        reported = ", ".join(reason for reason in self.reasons if reason)
        by = f", reported by {' or '.join(self.launchers)}" if self.launchers else ""
        return f"{reported}{': ' if reported and parts else ''}{', '.join(parts)}{by}"

    def has(self, reason: Reason, code: int | None, signal: int | None, launcher: str = "") -> bool:
        """Return whether an end with this reason, exit code and signal is in the class."""
        if reason not in self.reasons or (self.launchers and launcher not in self.launchers):
            return False
        if not (self.signals or self.codes or self.failed):
            return True
        return signal in self.signals or code in self.codes or (self.failed and signal is None and (code or 0) > 0)


@dataclass(frozen=True)
class Line:
    """One wording, or with ``ended`` all wordings of launchers for one class of ends."""

    literal: str | tuple[str, ...]
    """Looked for first, in every line, as it is: one of these strings must stand in the line. As short as it can be
    and still be rare; without values, quotes and what differs between versions."""
    pattern: str = ""
    """An expression that is then searched for in the line (empty: the literal is enough). Its named groups are the
    values; ``rank``, ``ranks``, ``local_rank``, ``host`` say whom it is about."""
    shows: Shows = "cause"
    why: str = ""
    """For a symptom, or an end that has other reasons as well: what else it may come from, in a clause; for noise: why
    it is."""
    told: str = ""
    """What the line itself shows, instead of the title, where it shows less or more than that."""
    fix: str = ""
    """The remedy where the line tells which it is, instead of the page's; a sentence or two."""
    unless: str = ""
    """An expression that, found in the line, voids the match."""
    above: tuple[str, str] = ("", "")
    """Two of the values: it counts only where the number of the first is above that of the second."""
    final: bool = False
    """The job ends with it, whatever is still written: no progress after it shows that it was survived."""
    source: bool = False
    """It is also looked for in the frames of a traceback."""
    stack: str = ""
    """An expression that must be found in the frames of the traceback that stands before the line."""
    unframed: bool = False
    """``stack`` is asked for only where a frame stands right above the line: others' programs say the same, and who
    cuts off the frames may mean the job."""
    head: bool = False
    """The beginning of an account: it counts only where no line is known that may be its end."""
    several: bool = False
    """A symptom that is the cause where its log says that the job has several nodes."""
    alone: bool = False
    """A part of an account whose beginning is cut off: it counts only where nothing else in its log is known."""

    of_peer: bool = False
    """It is the doing of another than who says it, and of whom is not said."""
    ended: Ended | None = None
    """The class of ends that it stands for; ``literal`` and ``pattern`` are then empty."""
    ahead_of: str = ""
    """For a hint of a kernel's log: the check that follows from it, where that is seen within minutes after it."""

    @classmethod
    def of_end(
        cls,
        ended: Ended,
        *,
        shows: Shows = "cause",
        why: str = "",
        told: str = "",
        fix: str = "",
        unless: str = "",
        final: bool = False,
        alone: bool = False,
    ) -> Line:
        """Return the entry for ends of processes of a class, as every launcher reports them."""
        return cls((), "", shows, why, told, fix, unless, final=final, alone=alone, ended=ended)

    @property
    def literals(self) -> tuple[str, ...]:
        """The literals, also where there is one."""
        return (self.literal,) if isinstance(self.literal, str) else self.literal
