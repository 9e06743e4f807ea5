"""Attempts of one job within one log: output that nohup appended to, a requeued job, torchrun's restarts.

A new attempt begins only where the launcher of the previous one had ended and then a launcher started, or a working
job's steps appear. With launchers of several nodes, each that had written before the first of them ended must have
started again. Without any launcher, a new attempt begins where the first lines of the log occur again below steps and a
failure: somebody ran the same command again.

A launcher that restarts its ranks (torchrun --max-restarts) reports each time that they failed, but not the restart:
everything above the second-to-last of these lines of one launcher belongs to an earlier start. Launchers in several
containers may share one pid: there are as many of them as reported an end.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import replace
from itertools import takewhile

from distdoctor.logs.attribution import readable, split
from distdoctor.logs.endings import first_step, is_step, may_be_progress
from distdoctor.logs.tracebacks import HEAD
from distdoctor.model.facts.logs import LineOrigin, Match, ProcessExit

_Launcher = tuple[str | None, int | None]
_Process = tuple[str | None, int | None, int]
_NOBODY = (None, None)

LITERALS = (
    "Setting OMP_NUM_THREADS environment variable",  # torch/distributed/run.py, at every start
    "] WORLD INFO DICT: ",  # deepspeed/launcher/launch.py
    "values were not passed to `accelerate launch`",
    "NCCL version ",
    "distributed: GLOBAL_RANK: ",
    "All distributed processes registered",
)
STEPS = 3
"""Fewest different lines with steps that prove a working job."""
LOOKED_AT = 256 << 10
"""Bytes between two known lines that are searched for steps."""
_BY_SLURM = re.compile(r"(?:srun|slurmstepd\S{0,64}): |\*\*\* ")
GRACE = 3600
"""Longest time in seconds that a job goes on after SLURM ended it (GraceTime, with room)."""
TIMED, PIECES, ASKED = 40, 8, 5000
"""Lines and pieces between known lines that are searched for a time, and pieces after that which are checked for
belonging to another attempt."""
_START = re.compile(
    r"Setting OMP_NUM_THREADS environment variable|\] WORLD INFO DICT: |values were not passed to `accelerate launch`"
    r"|[#$] (?:\S{0,200}/)?(?:torchrun|accelerate launch|deepspeed|python[\d.]{0,5}) "
)


_SET_UP = re.compile(
    r"^(?:NCCL INFO )?NCCL version \d|NCCL INFO (?:Bootstrap|cudaDriverVersion)|"
    r"[Ii]nitializing distributed: GLOBAL_RANK: |All distributed processes registered"
)
"""Lines that ranks write when they start."""


BEGIN = 2
"""First lines of a log whose repetition marks a second start."""
SHORTEST = 12
"""Fewest characters without a digit by which such a line is recognized."""
BEHIND = 16 << 10
"""Bytes before a failure that are searched for steps of a working job."""
_SAID = re.compile(rb"[^\d\r\n]{12,200}")


class _Beginning:
    """First lines of a log, and the detection of their repetition."""

    def __init__(self) -> None:
        self._lines: list[bytes] = []
        self._whole = self._worked = False
        self._behind = b""
        self._repeated = 0

    def comes_again(self, piece: bytes) -> bool:
        """Return whether all first lines occurred again with ``piece``, below steps and a failure.

        ``piece`` is the text between two known lines.
        """
        if not self._worked:
            self._take(piece)
            return False
        at = 0
        while self._repeated < len(self._lines) and (at := piece.find(self._lines[self._repeated], at)) >= 0:
            self._repeated += 1
        return self._repeated == BEGIN

    def fail(self) -> None:
        """Note a failure."""
        self._whole = True
        if not self._worked:
            lines = self._behind.replace(b"\r", b"\n").splitlines()
            texts = (split(readable(raw[:400]))[1] for raw in lines if may_be_progress(raw))
            self._worked = len({text for text in texts if is_step(text)}) >= STEPS
        self._behind = b""

    def again(self) -> None:
        """Note the beginning of a new attempt."""
        self._repeated, self._worked, self._behind = 0, False, b""

    def _take(self, piece: bytes) -> None:
        for raw in piece[:BEHIND].splitlines() if not self._whole else ():
            text = split(readable(raw[:400]))[1]
            self._whole = len(self._lines) == BEGIN or is_step(text) or HEAD in text
            if self._whole:
                break
            said = max(_SAID.findall(text.encode()), key=len, default=b"")
            if len(said) >= SHORTEST and said not in self._lines:
                self._lines.append(said)
        self._behind = (self._behind + piece[-BEHIND:])[-BEHIND:]


class Attempts:
    """Counter of attempts; ``number`` is the current attempt of the log, from 0."""

    def __init__(self) -> None:
        self.number = 0
        self._by_hand: _Beginning | None = _Beginning()
        """None once a launcher reported an end."""
        self._repeated = False
        self._ended = self._started = self._taken = self._stopped = False
        self._steps: set[str] = set()
        self._before: deque[bytes] = deque(maxlen=PIECES)
        self._taken_at: float | None = None
        self._step: tuple[LineOrigin, tuple[int, ...]] = LineOrigin(), ()
        """Last step before that; a speaker whose steps go back behind it restarted from a checkpoint."""
        self._asked = 0
        self.launched = 0
        """Number of earlier attempts that are known by the starts of all launchers."""
        self._up: set[_Launcher] = set()
        self._awaited: set[_Launcher] = set()
        self._again: set[_Launcher] = set()
        self._failed: dict[_Process, list[int]] = {}
        """By launcher, the lines that report failed ranks."""
        self._sent: dict[_Process, list[int]] = {}
        """By launcher, the line behind the last of these in which it ends ranks."""
        self._end_lines: dict[_Launcher, set[int]] = {}
        """By launcher, the lines that report why it ended."""
        self._last = 0
        """Last known line."""

    @property
    def restarted(self) -> int:
        """Return the last line of a launcher's earlier starts of its ranks, 0 if no launcher started them twice.

        Everything before a new attempt that has not failed yet counts, too.
        """
        last = self._last if self._repeated or (self._taken and self._begun) else 0
        for (host, task, number), lines in self._failed.items():
            if (host, task) not in self._end_lines:
                lines = [*lines, *self._sent.get((host, task, number), ())]
            numbers = sum((host, task) == one[:2] for one in self._failed)
            ended = max(-(-len(self._end_lines.get((host, task), ())) // numbers), 1)
            last = max(last, lines[-ended - 1] if len(lines) > ended else 0)
        return last

    def between(self, piece: bytes) -> None:
        """Take the text between two known lines."""
        if self._by_hand is not None and self._by_hand.comes_again(piece):
            self._repeated = True
        if piece:
            self._before.append(piece[-BEHIND // 4 :])
        if self._taken and self._taken_at is not None and not self._started and self._asked < ASKED:
            self._asked += 1
            time = _time(piece[:BEHIND].splitlines()[:TIMED])
            self._started = time is not None and time > self._taken_at + GRACE
        if self._taken and not self._started and self._step[1]:
            self._started = self._is_behind(piece[:BEHIND].replace(b"\r", b"\n").splitlines())
        if not self._ended or self._begun:
            return
        for raw in piece[:LOOKED_AT].replace(b"\r", b"\n").splitlines():
            if not may_be_progress(raw):
                continue
            text = split(readable(raw[:400]))[1]
            if is_step(text):
                self._steps.add(text)
                if self._begun:
                    return

    def _is_behind(self, lines: Sequence[bytes]) -> bool:
        """Return whether the first step in these lines comes after the last one before the end, with other text above
        it."""
        speaker, before = self._step
        _, numbers = first_step(lines, speaker)
        texts = [split(readable(raw[:400]))[1] for raw in lines if numbers]
        above = takewhile(lambda text: not is_step(text), texts)
        texts_above = [text for text in above if text.strip() and not _BY_SLURM.match(text)]
        return bool(texts_above) and numbers < before

    def hear(self, who: LineOrigin, text: str, ended: Iterable[ProcessExit] = ()) -> None:
        """Take a line that has a literal in it, and the ends that it reports."""
        if any(end.launcher == "srun" and end.reason == "sent by launcher" for end in ended):
            self._ended = self._taken = self._stopped = True
            self._by_hand = None
        if _START.search(text) is None and not (self._taken and _SET_UP.search(text)):
            return
        self._started = self._started or self._ended
        launcher = (who.host, who.task)
        if launcher == _NOBODY:
            return
        self._up.add(launcher)
        self._again.add(launcher)
        if self._awaited and self._awaited <= self._again:
            self.launched += 1
            self._up, self._awaited = {*self._again}, set()

    def of(self, match: Match) -> Match:
        """Return ``match`` with the number of its attempt."""
        if match.shows in ("noise", "hint"):
            return match
        self._last = match.line
        before = sum(line < match.line for lines in self._failed.values() for line in lines)
        if match.who.pid is not None:
            self._of_launcher((match.who.host, match.who.task, match.who.pid), match)
        if _is_summary(match):
            self._end_lines.setdefault((match.who.host, match.who.task), set()).add(match.line)
        if before:  # different text stands before and after it
            match = replace(match, values={**match.values, "after": str(before)})
        if self._by_hand is not None:
            match = self._of_hand(self._by_hand, match)
        if self._ended and self._begun:
            self.number += 1
            if self._stopped:  # by srun, on all nodes
                self.launched += 1
                self._awaited = set()
            self._ended = self._started = self._taken = self._stopped = False
            self._steps.clear()
        if _is_taken(match):
            self._ended = self._taken = True
            self._taken_at = _time(
                line for piece in reversed(self._before) for line in reversed(piece.splitlines()[-TIMED:])
            )
            self._step = first_step(line for piece in reversed(self._before) for line in reversed(piece.splitlines()))
        if _is_end(match):
            self._ended = True
            self._by_hand = None
            self._up.add((match.who.host, match.who.task))
            self._up.discard(_NOBODY)
            if not self._awaited:
                self._awaited, self._again = {*self._up}, set()
        if not self.number:
            return match
        return replace(match, values={**match.values, "try": str(self.number), "launched": str(self.launched)})

    @property
    def state(self) -> Hashable:
        """Return all that :meth:`of` adds to a match."""
        return self.number, self.launched, sum(map(len, self._failed.values()))

    def repeat(self, line: int) -> bool:
        """Take a repetition of a known line; return False if it may be the first of a new attempt."""
        self._last = line
        return not (self._repeated or (self._ended and self._begun))

    def _of_launcher(self, launcher: _Process, match: Match) -> None:
        """Note torchrun's messages about its ranks."""
        if _is_of_agent(match):
            lines = self._failed.setdefault(launcher, [])
            lines += [match.line] if match.line not in lines else []
            self._sent.pop(launcher, None)
        elif launcher in self._failed and _sends(match):
            self._sent[launcher] = [match.line]

    def _of_hand(self, beginning: _Beginning, match: Match) -> Match:
        """Return ``match``, marked if only the repeated first lines show that it belongs to another attempt."""
        if self._repeated:
            self.number += 1
            self.launched += 1
            self._repeated = False
            beginning.again()
        beginning.fail()
        return replace(match, values={**match.values, "by_hand": "yes"}) if self.number else match

    @property
    def _begun(self) -> bool:
        return self._started or (len(self._steps) >= STEPS and not self._taken)


def _is_summary(match: Match) -> bool:
    """Return whether it is the head of torchrun's table of failures."""
    return match.ended is not None and match.ended.launcher == "torchrun" and match.ended.reason == "failed"


def _is_end(match: Match) -> bool:
    """Return whether a node's launcher (torchrun, DeepSpeed) reports that its processes ended."""
    return (
        _is_summary(match) or _is_of_agent(match) or (match.ended is not None and match.ended.launcher == "deepspeed")
    )


def _is_of_agent(match: Match) -> bool:
    """Return whether torchrun reports failed ranks, which it does once per start (_poll() in
    torch/distributed/elastic/multiprocessing/api.py)."""
    return match.ended is not None and match.ended.launcher == "torchrun" and match.ended.local_rank is not None


def _sends(match: Match) -> bool:
    """Return whether torchrun ends running ranks: where ranks had failed before, they were restarted."""
    return match.ended is not None and match.ended.reason == "sent by launcher" and match.ended.pid is not None


def _is_taken(match: Match) -> bool:
    """Return whether SLURM ends a job that it may requeue.

    The job may go on through its grace time. Its steps then show no new attempt; only a starting launcher does, or a
    log that goes on much later.
    """
    return match.ended is not None and match.ended.launcher == "slurmstepd"


def _time(lines: Iterable[bytes]) -> float | None:
    """Return the time of the first of these lines that has one."""
    each = (split(readable(raw[:200]))[0].time for raw in lines)
    return next((time for time in each if time is not None), None)
