"""Attempts of one job within one log: output that nohup appended to, a requeued job, torchrun's restarts.

An attempt ends with the report of its launcher or scheduler. The next one begins below it with a launcher's start, or
with the steps of a working job. A shell that starts the job again below a failure needs no such report.

A launcher that restarts its ranks (torchrun --max-restarts) reports each time that they failed, but not the restart:
everything above the second-to-last of these lines of one launcher belongs to an earlier start. Launchers in several
containers may share one pid: there are as many of them as reported an end.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable
from dataclasses import replace

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.endings import is_step, may_be_progress
from distdoctor.model.facts.logs import LineOrigin, Match, ProcessExit

_Launcher = tuple[str | None, int | None]

LITERALS = (
    "Setting OMP_NUM_THREADS environment variable",  # torch/distributed/run.py, at every start
    "] WORLD INFO DICT: ",  # deepspeed/launcher/launch.py
    "values were not passed to `accelerate launch`",
    "NCCL version ",
    "distributed: GLOBAL_RANK: ",
    "All distributed processes registered",
    "deepspeed.launcher.launch --world_info",  # deepspeed/launcher/runner.py, once per job
)
STEPS = 3
"""Fewest different lines with steps that prove a working job."""
LOOKED_AT = 256 << 10
"""Bytes between two known lines that are searched for steps."""
_START = re.compile(
    r"Setting OMP_NUM_THREADS environment variable|\] WORLD INFO DICT: |values were not passed to `accelerate launch`"
    r"|[#$] (?:\S{0,200}/)?(?:torchrun|accelerate launch|deepspeed|python[\d.]{0,5}) "
)
_AGAIN = re.compile(
    r"[#$] (?:\S{0,200}/)?(?:torchrun|accelerate launch|deepspeed|python[\d.]{0,5}) "
    r"|deepspeed\.launcher\.launch --world_info"
    r"|^\++ (?:\S{0,200}/)?torchrun (?=.{0,400}?--nnodes[= ](?:[2-9]|[1-9]\d{1,5})(?![\d:]))"
    r"(?=.{0,400}?--rdzv[-_]backend[= ](?:c10d|etcd))"
)
"""Start of a job at a shell's prompt or by a launcher that exists once: the same program that the same writer started
before has ended. Under srun the shells of all nodes write their lines of ``set -x`` into one file: one is a new start
only if torchrun's nodes all join each other before any rank begins, and so before one can fail."""
_PROGRAM = re.compile(r"[\w./-]{1,200}\.py\b|-m [\w.]{1,200}")
_SET_UP = re.compile(
    r"^(?:NCCL INFO )?NCCL version \d|NCCL INFO (?:Bootstrap|cudaDriverVersion)|"
    r"[Ii]nitializing distributed: GLOBAL_RANK: |All distributed processes registered"
)
"""Lines that ranks write when they start."""


class Attempts:
    """Counter of attempts; ``number`` is the current attempt of the log, from 0."""

    def __init__(self) -> None:
        self.number = self.stopped = 0
        """``stopped`` of these attempts began after the one before had ended on all nodes."""
        self._ended = self._taken = self._started = False
        """True once its launcher reported its end, the scheduler ended it, and a launcher started after that."""
        self._again = self._has_failed = False
        """True once the same writer started a job again after a failure of this attempt."""
        self._writers: set[Hashable] = set()
        """Those that started a job, each with its program."""
        self._steps: set[str] = set()
        self._failed: dict[tuple[_Launcher, int], list[int]] = {}
        """By launcher and its process, the lines that report failed ranks."""
        self._end_lines: dict[_Launcher, set[int]] = {}
        """By launcher, the lines that report why it ended."""
        self._last = 0
        """Last known line."""

    @property
    def restarted(self) -> int:
        """Return the last line of a launcher's earlier starts of its ranks, 0 if no launcher started them twice.

        Everything before a new attempt that has not failed yet counts, too.
        """
        last = self._last if self._again or (self._taken and self._begun) else 0
        for (launcher, _), lines in self._failed.items():
            several = sum(launcher == one for one, _ in self._failed)
            ended = max(-(-len(self._end_lines.get(launcher, ())) // several), 1)
            last = max(last, lines[-ended - 1] if len(lines) > ended else 0)
        return last

    def between(self, piece: bytes) -> None:
        """Take the text between two known lines."""
        if not self._ended or self._taken or self._begun:
            return
        for raw in piece[:LOOKED_AT].replace(b"\r", b"\n").splitlines():
            text = split(readable(raw[:400]))[1] if may_be_progress(raw) else ""
            if text and is_step(text):
                self._steps.add(text)
                if self._begun:
                    return

    def hear(self, who: LineOrigin, text: str, ended: Iterable[ProcessExit] = ()) -> None:
        """Take a line that has a literal in it, and the ends that it reports."""
        if (start := _AGAIN.search(text)) is not None:
            program = _PROGRAM.search(text, start.end())
            writer = who.host, who.task, program and program[0]
            self._again |= writer in self._writers
            self._writers.add(writer)
        if any(end.launcher == "srun" and end.reason == "sent by launcher" for end in ended):
            self._ended = self._taken = True
        if self._ended and (_START.search(text) or (self._taken and _SET_UP.search(text))):
            self._started = True

    def of(self, match: Match) -> Match:
        """Return ``match`` with the number of its attempt."""
        if match.shows in ("noise", "hint"):
            return match
        self._last = match.line
        before = sum(line < match.line for lines in self._failed.values() for line in lines)
        launcher = match.who.host, match.who.task
        if _is_of_agent(match) and match.who.pid is not None:
            lines = self._failed.setdefault((launcher, match.who.pid), [])
            lines += [match.line] if match.line not in lines else []
        if _is_summary(match):
            self._end_lines.setdefault(launcher, set()).add(match.line)
        if self._again or (self._ended and self._begun):
            self.number += 1
            self.stopped += self._taken or self._again
            self._ended = self._started = self._taken = self._again = self._has_failed = False
            self._steps.clear()
        self._has_failed |= match.shows in ("cause", "end") or bool(match.exception)
        end = match.ended
        if end is not None and (_is_summary(match) or _is_of_agent(match) or end.launcher in _ENDS):
            self._ended = True
            self._taken |= end.launcher == "slurmstepd"  # steps of its grace time may follow
        if not (before or self.number):
            return match
        return replace(match, starts=before, attempt=self.number, stopped=self.stopped)

    @property
    def state(self) -> Hashable:
        """Return all that :meth:`of` adds to a match."""
        return self.number, sum(map(len, self._failed.values()))

    def repeat(self, line: int) -> bool:
        """Take a repetition of a known line; return False if it may be the first of a new attempt."""
        self._last = line
        return not (self._again or (self._ended and self._begun))

    @property
    def _begun(self) -> bool:
        return self._started or len(self._steps) >= STEPS


_ENDS = ("deepspeed", "slurmstepd")
"""Launchers whose every report of an end is that of the whole job."""


def _is_summary(match: Match) -> bool:
    """Return whether it is the head of torchrun's table of failures."""
    return match.ended is not None and match.ended.launcher == "torchrun" and match.ended.reason == "failed"


def _is_of_agent(match: Match) -> bool:
    """Return whether torchrun reports failed ranks, which it does once per start (_poll() in
    torch/distributed/elastic/multiprocessing/api.py)."""
    return match.ended is not None and match.ended.launcher == "torchrun" and match.ended.local_rank is not None
