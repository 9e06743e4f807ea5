"""Wordings of a failure in logs: what a check declares as ``LOG``, one entry for each."""

from __future__ import annotations

from dataclasses import dataclass
from signal import Signals
from typing import Literal

Shows = Literal["cause", "end", "symptom", "hint", "exception", "noise"]
"""Meaning of a line that matches.

``cause``: this failure. ``end``: how a process ended, which shows the cause only if no other line does. ``symptom``:
something failed, of which this check is a possible cause, or which follows from every other death. ``hint``: a possible
cause that is only worth naming if something failed. ``exception``: the own line of a Python exception which no other
wording knows; the literal only stands for that. ``noise``: nothing; it also occurs in the logs of jobs that run.
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
    "engine died",
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
    """Signals, also if an exit code stands for one: -9, 137."""
    codes: tuple[int, ...] = ()
    failed: bool = False
    """True for every exit code above 0 that stands for no signal."""
    launchers: tuple[str, ...] = ()
    """Launchers whose reports count; empty: any."""

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


def _texts(literal: object) -> tuple[object, ...]:
    return literal if isinstance(literal, tuple) else (literal,)


_WARN, _ERROR = "NCCL WARN", "NCCL ERROR"


@dataclass(frozen=True)
class Line:
    """One wording, or with ``ended`` all wordings of launchers for one class of ends."""

    literal: str | tuple[str, ...]
    """Text looked for first in every line: one of these strings must be in the line. As short as it can be and still be
    rare; without values, quotes and what differs between versions."""
    pattern: str = ""
    """Expression that is then searched for in the line (empty: the literal is enough). Its named groups are the values;
    ``rank``, ``ranks``, ``local_rank``, ``host`` name the affected."""
    shows: Shows = "cause"
    why: str = ""
    """For a symptom, or an end with several possible reasons: its other causes, in a clause; for noise: why it is
    noise."""
    told: str = ""
    """Statement that replaces the title, if the line shows less or more than that."""
    fix: str = ""
    """Remedy that replaces the page's, if the line shows which it is; a sentence or two."""
    unless: str = ""
    """Expression that, found in the line, voids the match."""
    above: tuple[str, str] = ("", "")
    """Names of two values: it counts only if the number of the first is above that of the second."""
    final: bool = False
    """True if the job ends with it, whatever is still written: no progress after it shows that it was survived."""
    source: bool = False
    """True if it is also looked for in the frames of a traceback."""
    stack: str = ""
    """Expression that must be found in the frames of the traceback before the line."""
    unframed: bool = False
    """True if ``stack`` applies only with a frame right above the line: others' programs log the same, and a log
    without frames may be the job's."""
    head: bool = False
    """True for the beginning of an account: it counts only if no line is known that may be its end."""
    several: bool = False
    """True for a symptom that is the cause if its log shows that the job has several nodes."""
    alone: bool = False
    """True for a part of an account whose beginning is cut off: it counts only if nothing else in its log is known."""

    of_peer: bool = False
    """True if another process than the one that logs it caused it, without being named."""
    ended: Ended | None = None
    """Class of ends that it stands for; ``literal`` and ``pattern`` are then empty."""
    ahead_of: str = ""
    """For a hint of a kernel's log: the check that is its consequence, if seen within minutes after it."""

    def __post_init__(self) -> None:
        """Take NCCL's level ERROR, with which version 2.32 and newer report a root cause, wherever WARN is known."""
        if not all(isinstance(text, str) for text in (self.pattern, self.unless, *_texts(self.literal))):
            return  # the catalogue refuses it, and says why
        more = tuple(wording.replace(_WARN, _ERROR) for wording in self.literals if _WARN in wording)
        if more:
            object.__setattr__(self, "literal", (*self.literals, *more))
        for name in ("pattern", "unless"):
            if _WARN in (text := getattr(self, name)):
                object.__setattr__(self, name, text.replace(_WARN, f"(?:{_WARN}|{_ERROR})"))

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
        """Return the literals, also if there is one."""
        return (self.literal,) if isinstance(self.literal, str) else self.literal
