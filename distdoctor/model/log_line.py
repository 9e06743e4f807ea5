"""How a log shows a failure: what a check declares as ``LOG``, one entry for each wording."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Shows = Literal["cause", "end", "symptom", "hint", "exception", "noise"]
"""What a line that matches proves.

``cause``: this failure. ``end``: how a process ended, which tells the cause only where no other line does.
``symptom``: that something failed, of which this check is a possible cause, or which follows from every other death.
``hint``: a possible cause that is only worth naming where something failed.
``exception``: the own line of a Python exception which no other wording knows; the literal only stands for that.
``noise``: nothing; it also stands in the logs of jobs that run.
"""


@dataclass(frozen=True)
class Line:
    """One wording."""

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
    ahead_of: str = ""
    """For a hint of a kernel's log: the check that follows from it, where that is seen within minutes after it."""

    @classmethod
    def of_exit_code(cls, codes: str, *, shows: Shows, why: str = "", told: str = "") -> Line:
        """What launchers, shells and schedulers say of a process that ended with one of these ``codes``, an
        expression."""
        said = r"(?:exit ?code|return code) *[:=]? *\(?|^make(?:\[\d{1,3}\])?: \*\*\* .{1,300}\] Error "
        literals = ("exitcode", "exit code", "return code = ", "] Error ")
        return cls(literals, rf"(?:{said})(?:{codes})\b", shows, why, told)

    @property
    def literals(self) -> tuple[str, ...]:
        """The literals, also where there is one."""
        return (self.literal,) if isinstance(self.literal, str) else self.literal
