"""End of a log: how it ends, who worked between its known lines, and text that was flushed after an error."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from distdoctor.logs.attribution import readable, split, within
from distdoctor.logs.dialects import OVER
from distdoctor.logs.tracebacks import BACK, HEAD
from distdoctor.model.facts.logs import LineOrigin

TAIL = 128 << 10
"""Bytes at the end of a log that are read: a step with 200 metrics, as verl writes it, takes 6 KiB."""
LAST = 300
"""Lines of it that are read: the text after the last step (run summaries) is long."""
CUT = 600
"""Characters of each line that are read."""
PROGRESS = re.compile(
    r"\b(?:it(?:er(?:ation)?)?s?|steps?|epochs?|batch(?:es)?|tick)\b[\s:=\[/]{0,3}\d|\bloss\b.{0,12}\d"
    r"|\d ?(?:it/s|s/it|s/step)\b|(?:tokens?|samples?|images?|frames?)(?:/s|_per_s| per second)"
    r"|\d{1,3}%\s?[|▏▎▍▌▋▊▉█━#]|\bgrad[_ ]?norm\b|throughput|\"POST /\S{1,200} HTTP/1\.\d\" 200\b",
    re.I,
)
"""Text that may show a step of a working job, or the answer of a server; :func:`is_step` decides."""
_NO_STEP = re.compile(
    r"\b(?:total|num(?:ber)?(?:[ _]of)?|max(?:imum)?|min|warm-?up|optimization|save|eval|logging|every)[ _-]?"
    r"(?:[a-z]{1,20}[ _-]){0,2}(?:steps?|epochs?|iter\w{0,8}|batch(?:es|[ _]size)?)\b['\"]?[ :=]{1,4}\d[\d.,]*"
    r"|\b(?:\w{1,20} ){0,3}throughput(?: \(\w{1,12}/s\))?[ :=]{1,3}0(?:\.0{1,6})?(?: \w{1,12}/s)?(?![\d.])",
    re.I,
)
"""Numbers that are set once, and rates of an engine that is idle."""
_COUNTER = re.compile(
    r"\b(?P<name>it(?:er(?:ation)?)?s?|steps?|epochs?|batch(?:es)?|tick)\b['\"]?[\s:=\[/]{0,3}(?P<value>\d{1,12}(?:\.\d{1,6})?)"
    r"|(?P<bar>\b\d{1,12}/\d{1,12})(?= \[)",
    re.I,
)
"""Counters of steps; a bar that is redrawn unchanged, as when it is closed, shows none."""


def is_step(text: str) -> bool:
    """Return whether ``text`` shows a step: no announcement of numbers, and no statistics of an idle engine."""
    if PROGRESS.search(text) is None:
        return False
    rest = _NO_STEP.sub("", text)
    return rest is text or PROGRESS.search(rest) is not None


def counters(text: str) -> tuple[str, ...]:
    """Return the counters in the text of a step."""
    return tuple(match[0] for match in _COUNTER.finditer(text))


def _has_advanced(before: str, after: str) -> bool | None:
    """Return whether a counter that both texts have is higher in ``after``, None if they have none in common."""
    old, new = (
        {match["name"]: float(match["value"] or match["bar"].partition("/")[0]) for match in _COUNTER.finditer(text)}
        for text in (before, after)
    )
    higher = [value > old[name] for name, value in new.items() if name in old]
    return any(higher) if higher else None


_OVER = re.compile(
    rf"{OVER}|\bexit(?:ed|s|ing)?(?: with)?(?: (?:status|code)){{1,2}}:? 0\b|\bexits successfully\b"
    r"|\b(?:worker group|job|run|training) (?:has |was |is )?(?:successfully (?:finished|completed)"
    r"|(?:finished|completed) successfully|succeeded)\b"
    r"|^\W{0,8}(?:training|fine-?tuning) (?:is |has |was )?"
    r"(?:complete[d]?|finished|done)\b(?!.{0,20}\bepoch)",
    re.I,
)
"""End of the whole job, not of a part of it, anywhere in the tail."""
_KNOWN = re.compile(r"\(SUCCEEDED\)|^=+ .{0,200}\d passed\b|\btraining SUCCESS\b")
"""Report of the end by somebody who knows the outcome of every rank: a launcher, a test harness.

The script around a job and the scheduler that ran it report an end whatever happened, and one rank may report an end
that another did not reach.
"""
_DONE = re.compile(
    r"\b(?:training|job|run|fine-?tuning|everything|all)\b.{0,30}\b(?<! to )"
    r"(?:complete[d]?|finished|done(?! waiting)|succe\w+|ended)\b"
    r"|^=+ (?:\d{1,7} (?:passed|skipped|deselected|xfailed|xpassed|warnings?),? )+in \d[\w.:() ]{1,40}=+$"
    r"|^(?:all )?(?:done|finished|success)(?: in [\d.]{1,12} ?\w{1,8})?[.!]?$"
    r"|\b(?:finished|completed) (?:the )?training\b(?!.{0,20}(?:\bepoch|\d))"
    r"|\bsaved? (?:the )?final (?:model|checkpoint)|\bdestroy(?:ed|ing)? (?:the )?process group"
    r"|finished successfully|exit(?:ed)?(?: with)? code:? 0\b",
    re.I,
)
"""End of the job."""
_BADLY = re.compile(
    r"\b(?:exit|return)?[ _-]?(?:code|status|rc)\b\W{0,3}-?[1-9]|\bexit(?:ed)?(?: with)?\W{0,3}[1-9]"
    r"|\b(?:state|status|result|outcome)\W{1,3}(?:fail(?:ed|ure)|error|killed|aborted|cancell?ed)\b"
    r"|\bwith (?:an? |some |[1-9]\d{0,6} )?(?:errors?|failures?|exceptions?)\b|\bunsuccessful"
    r"|\((?:failed|killed|aborted)\b"
    r"|\b[1-9]\d{0,6} (?:failed|failures?|errors?)\b|\b(?-i:FAILED|FAILURE|ABORTED|KILLED)\b",
    re.I,
)
"""Bad outcome in the same line."""
_PART = re.compile(
    r"\bevaluation\b.{0,30}\b(?:complete[d]?|finished|done|succe\w+|ended)\b"
    r"|\bsaved? (?:the )?(?:model|checkpoint)|\bBest (?:accuracy|model|val)",
    re.I,
)
"""End of a part of the job."""
_TESTED = re.compile(rb"^Ran \d{1,7} tests? in [\d.]{1,12}s\s{1,4}OK(?: \(.{1,80}\))?\s*\Z", re.M)
"""Last words of unittest after a successful run."""
CLOSE = 15
"""Lines at the end in which less clear words count."""
_SUMMARY = re.compile(r"wandb: ")
"""Beginning of a line that repeats the steps after the run."""
RECORD = re.compile(r"(?:[\w.]{1,60}[ :|-]{1,4})?(?:INFO|WARN(?:ING)?|ERROR|CRITICAL|DEBUG)\b")
"""Beginning of a line that a program's logger wrote, behind the time."""
_ERROR = re.compile(r"(?:\[?[\w.]{1,60}\]?[ :|-]{0,4})?\[?(?:ERROR|FATAL|CRITICAL)\b")
"""Beginning of a logger's line about a failure."""
_STARTING = re.compile(
    r"\binit(?:ializ\w*|ialis\w*)? (?:torch[. ])?(?:distributed|process group|parallel)|\binit_process_group\b"
    r"|rendezvous|store[_ ]based[_ ]barrier|\bMEMBER: \d+/\d+|Init START"
    r"|NCCL INFO (?:Bootstrap|NET/|NCCL version|Using network|cudaDriver|comm 0x\w+ rank \d+ n[rR]anks)"
    r"|starting (?:local )?(?:workers|worker group)|waiting for .{0,40}(?:workers?|nodes?|ranks?|clients?|peers?)"
    r"|distributed (?:init|environment)|setting (?:up|OMP_NUM_THREADS)|Using \S{1,200} as PyTorch extensions root"
    r"|spawn\w* process|entering (?:the )?barrier|Channel \d+(?:/\d+)? ?:",
    re.I,
)


_WORDS = {
    kind: tuple(word.encode() for word in words.split("|"))
    for kind, words in {
        "progress": '" 200|it |it:|it=|it[|it/|s/it|its|iter|step|epoch|batch|tick|loss|it/s|n/s|e/s|s/s|t/s'
        "|per_s|per s|%|grad|throughput",
        "end": "exit|complete|finished|done|succe|stopped:|train_runtime|return value 0",
        "starting": "init|rendezvous|barrier|member:|nccl info|starting|waiting|distributed|setting|as pytorch|spawn"
        "|channel",
        "record": "info|warn|error|critical|debug",
        "error": "error|fatal|critical",
    }.items()
}
"""For each expression searched in many lines, words of which at least one occurs in every match."""


_NOBODY = LineOrigin()


@dataclass(frozen=True)
class Ending:
    """See :class:`distdoctor.model.facts.logs.LogSource`; lines are counted from the first of the tail, from 0."""

    last: str = ""
    progress: int | None = None
    advanced: int | None = None
    stepper: LineOrigin = _NOBODY
    stepped: float | None = None
    pace: float | None = None
    finished: int | None = None
    record: int | None = None
    over: int | None = None
    known: int | None = None
    starting: bool = False
    done: bool = False


PACE = 8
"""Steps that are read for the time that one takes."""


@dataclass
class _TailReader:
    """Facts about the end of a log, from its lines, the last one first."""

    last: str = ""
    steps: list[int] = field(default_factory=list)
    """Lines with steps, the last first."""
    drawn: tuple[str, ...] = ()
    """Counters of the step below: a bar that is drawn again unchanged is no other step."""
    latest: tuple[LineOrigin, str] = (_NOBODY, "")
    """Speaker and text of the last step."""
    latest_at: int | None = None
    times: list[float] = field(default_factory=list)
    """Times of that speaker's steps with counters, the last first."""
    advanced: bool | None = None
    """Whether a counter is higher in the last step than in one of the same speaker above it, None if not known."""
    done: int | None = None
    part: int | None = None
    over: int | None = None
    """First line below the last step that reports the end of the job."""
    known: int | None = None
    starting: int | None = None
    record: int | None = None
    error: tuple[int, str] | None = None
    """First line below the last step in which a logger reports a failure."""

    def is_known(self, kind: str) -> bool:
        """Return whether no line further up can change the facts of this kind."""
        if kind == "progress":
            enough = len(self.steps) > (1 if self.advanced is not None else STEPS)
            return enough and len(self.times) in (0, PACE)
        if kind == "starting":
            return self.starting is not None
        if kind == "record":
            return self.record is not None
        return bool(self.steps) and (kind == "error" or self.done is not None)

    def take(self, number: int, who: LineOrigin, text: str, kinds: Collection[str], close: bool) -> None:
        """Take a line that may be of these kinds. ``close``: it is one of the last :data:`CLOSE`."""
        self.last = self.last or text
        if "progress" in kinds and is_step(text) and not (_SUMMARY.match(text) or _ERROR.match(text)):
            self._take_step(number, who, text)
        if "end" in kinds and (_OVER.search(text) or (close and _DONE.search(text))) and not _BADLY.search(text):
            self._take_end(number, text)
        if close and self.part is None and _PART.search(text):
            self.part = number
        if "starting" in kinds and _STARTING.search(text):
            self.starting = number
        if "record" in kinds and RECORD.match(text):
            self.record = number
        if "error" in kinds and not self.steps and _ERROR.match(text):
            self.error = number, text

    def _take_step(self, number: int, who: LineOrigin, text: str) -> None:
        state = counters(text)
        if state != self.drawn or not state:
            if not self.steps:
                self.latest = who, text
            elif self.advanced is None and who.speaker == self.latest[0].speaker:
                self.advanced = _has_advanced(text, self.latest[1])
            self.steps.append(number)
            if state and who.time is not None and who.speaker == self.latest[0].speaker:
                self.times.append(who.time)
        if len(self.steps) == 1:
            self.latest_at = number
        self.drawn = state

    def _take_end(self, number: int, text: str) -> None:
        if self.done is None:
            self.done = number
        if not self.steps:
            self.over = number
        if self.known is None and _KNOWN.search(text):
            self.known = number

    def _pace(self) -> float | None:
        """Return the longest time between the last steps, None if too few have one."""
        apart = [later - before for before, later in zip(self.times[1:], self.times, strict=False)]
        return max(apart) if len(self.times) >= STEPS and min(apart) >= 0 else None

    def ending(self) -> Ending:
        """Return the end of the log; what a logger reports as a failure outweighs a later report of the job's end."""
        failed = ""
        if self.error is not None and self.known is None and self.error[0] < (self.over or 0):
            failed = self.error[1]
        finished = max((number for number in (self.done, self.part) if number is not None), default=None)
        working = max((number for number in (*self.steps[:1], self.starting) if number is not None), default=0)
        return Ending(
            (failed or self.last)[:300],
            progress=self.steps[1] if len(self.steps) > 1 else None,
            advanced=self.latest_at if self.advanced else None,
            stepper=self.latest[0],
            stepped=self.times[0] if self.times else None,
            pace=self._pace(),
            finished=finished,
            record=self.record,
            over=self.over,
            known=self.known,
            starting=self.starting is not None and finished is None and self.starting > max(self.steps, default=-1),
            done=self.done is not None and self.done >= working and not failed,
        )


def judge_ending(tail: bytes) -> Ending:
    """Return how a log ends whose last bytes are ``tail``, reading backwards until everything is known."""
    reader, seen, low = _TailReader(), 0, tail.lower()
    if tested := _TESTED.search(tail):
        reader.done = reader.known = tail.count(b"\n", 0, tested.start())
    sought = {kind: [word for word in words if word in low] for kind, words in _WORDS.items()}
    for number, piece in _pieces(tail):
        close = seen < CLOSE
        kinds = sought if close else _hints(piece, sought)
        who, text = split(readable(piece)) if kinds or close else (_NOBODY, "")
        text = text.strip()
        if len(text or piece.strip()) <= 2:
            continue
        seen += 1
        if seen > LAST or not (sought or close):
            break
        reader.take(number, who, text, kinds, close)
        sought = {kind: words for kind, words in sought.items() if not reader.is_known(kind)}
    return reader.ending()


def _pieces(tail: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the numbered lines of ``tail``, the last one first; of an overwritten line, its last states."""
    lines = tail.split(b"\n")
    for number in range(len(lines) - 1, -1, -1):
        for piece in reversed(lines[number].rsplit(b"\r", 3)[-3:]):
            yield number, piece[:CUT]


def may_be_progress(piece: bytes) -> bool:
    """Return whether :data:`PROGRESS` may match in ``piece``, by its words."""
    low = piece.lower()
    return any(word in low for word in _WORDS["progress"])


def _hints(piece: bytes, kinds: Mapping[str, Sequence[bytes]]) -> list[str]:
    """Return the kinds that a line may be by its words: most lines have none, and an expression costs far more."""
    low = piece.lower()
    return [kind for kind, words in kinds.items() if any(word in low for word in words)]


# Evidence that a speaker survived: steps between two known lines mean that it survived everything before them.


STEPS = 3
"""Fewest different lines with steps that prove a working process."""
MANY = 10
"""More steps than other ranks make before they notice that a rank ended."""
LOOKED_AT = 64 << 10
"""Bytes before a known line that are searched for steps."""
KEPT = 16
"""Pieces kept per log, the last ones."""


class Alive:
    """Pieces of one log before its known lines, and the speakers that worked in them."""

    def __init__(self) -> None:
        self._pieces: deque[tuple[int, bytes]] = deque(maxlen=KEPT)
        self._last = LineOrigin(), ""
        """Speaker and text of the last step before a known line."""
        self._resumed: deque[tuple[LineOrigin, int]] = deque(maxlen=KEPT)
        self.caught = False
        """True right below an error that its program caught: a single step counts there."""

    def before(self, line: int, piece: bytes) -> None:
        """Take ``piece``, which stands before the known line ``line``."""
        self.caught, piece = False, piece[-LOOKED_AT:]
        if not (may_be_progress(piece) and PROGRESS.search(piece.decode("latin-1"))):
            return
        if piece.count(b"\n") + piece.count(b"\r") > STEPS:
            self._pieces.append((line, piece))
        for raw in reversed(piece.replace(b"\r", b"\n").splitlines()[-CLOSE:]):
            who, text = split(readable(raw[:400]))
            if is_step(text):
                if who.speaker == self._last[0].speaker and _has_advanced(self._last[1], text):
                    self._resumed.append((who, line))
                self._last = who, text
                return

    def resumed(self, file: LineOrigin) -> tuple[tuple[tuple[object, ...], int], ...]:
        """Return the ``resumed`` of :class:`distdoctor.model.facts.logs.LogSource`."""
        return tuple((within(who, file).speaker, line) for who, line in self._resumed)

    def speakers(self, file: LineOrigin, least: int = STEPS) -> tuple[tuple[tuple[object, ...], int], ...]:
        """Return the ``alive`` of :class:`distdoctor.model.facts.logs.LogSource`.

        ``file`` is the speaker of the whole log, ``least`` the fewest steps that count.
        """
        found: dict[tuple[object, ...], int] = {}
        for line, piece in self._pieces:
            steps: dict[tuple[object, ...], set[tuple[str, ...]]] = {}
            for raw in piece.replace(b"\r", b"\n").splitlines():
                who, text = split(readable(raw[:400]))
                if is_step(text):
                    steps.setdefault(within(who, file).speaker, set()).add(counters(text) or (text,))
            found.update({who: line for who, texts in steps.items() if len(texts) >= least})
        return tuple(found.items())


# Exceptions that nobody in the program caught.


ABOVE = 200
"""Bytes before a traceback in which Python names the thread."""
_OUTERMOST = re.compile(
    rb"[^\n]{0,120}?  File \"[^\"\n]{1,400}\", line \d{1,6}, in (?:_run_module_as_main|_bootstrap)\b"
)
"""Outermost frame of a traceback that nobody in the program caught."""
_LAUNCHER = b"torch/distributed/run.py"


def is_uncaught(context: bytes, at: int) -> bool:
    """Return whether the exception whose last line begins at ``at`` was uncaught, so that buffered text may follow
    it."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    begin = context.find(b"\n", head) + 1
    return head >= 0 and _OUTERMOST.match(context, begin) is not None and context.find(_LAUNCHER, begin, at) < 0


def is_of_thread(context: bytes, at: int) -> bool:
    """Return whether the exception whose last line begins at ``at`` ended a thread: its process goes on."""
    head = context.rfind(HEAD.encode(), max(at - BACK, 0), at)
    return head >= 0 and context.find(b"Exception in thread ", max(head - ABOVE, 0), head) >= 0
