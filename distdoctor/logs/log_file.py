"""Log under analysis: fed block by block, yields attributed known lines and the way the log ends."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from distdoctor.logs import attribution, dialects, endings, mentioned, quotations, rank_comparison, scanner, tracebacks
from distdoctor.logs.attempts import Attempts
from distdoctor.logs.matches import SHOWN, Known, Matches
from distdoctor.logs.repeats import Line, Repeats, Shown
from distdoctor.logs.scanner import KnownLine, Scanner
from distdoctor.model.facts.logs import LineOrigin, LogSource, Match, ProcessExit
from distdoctor.model.text import encodable

OWN_VIEWER = b"torch/distributed/debug/_"
"""Log line of torch's debug server: it cannot show gloo's dumps (2.13), which is no failure of the job."""
_MARKS = ("final", "head", "alone", "several", "of_peer")
SENT = "sent by launcher"
_OF_ONE = ("pid", "well")
"""Values of one process or job: lines that differ in them are no repetitions."""
_ADVICE = re.compile(r"\W{0,10}(?:If you\b|(?:Note|Hint|Tip):)", re.I)
"""Beginning of a line of advice: it says what to do if something is so, not that it is so."""
_MAY_COME = re.compile(r"\b(?:can|could|may|might) (?:also )?(?:cause|lead to|result in) ")
"""Words of a warning of what may follow: an error named behind them has not happened."""
_WARNING = re.compile(r"(?:^|[\s\[(|:-])WARN(?:ING)?\b")
_WRAPPER = re.compile(dialects.WRAPPERS)
_LAST_ERROR = re.compile(rb"Last error: ?\r?\n\Z")
"""Line of torch above NCCL's last error, which is the text of its last WARN line (ncclDebugLog() in src/debug.cc)."""
FIRST = 50
"""First lines in which the first time is searched."""
ONLY_A_TEST = "a test says only that it failed"
ABOUT, ABOVE = 200, 60
"""Exceptions and causes per log for which a time is searched, and lines above each that are searched."""
LAST = 20
"""Last lines in which the last time is searched."""
UNTIMED = 200
"""Lines before a line without a time in which its time is searched."""


class LogFile:
    """One log.

    ``matches`` keeps the known lines. ``hear`` is called with each line that has a literal in it, ``place`` with these
    and the lines of tracebacks; repetitions are left out. ``exceptions`` is the check that takes exceptions which no
    wording knows.

    ``shown`` is the part of the name that may identify the speaker, by default all of it.

    ``since``: lines before it are dropped; a line without a time, and without one before it, is kept.
    """

    def __init__(
        self,
        name: str,
        kind: str,
        searched: Scanner,
        matches: Matches,
        exceptions: str = "",
        since: float | None = None,
        hear: Callable[[LineOrigin, str, Sequence[ProcessExit]], None] | None = None,
        place: Callable[[LineOrigin, str], None] | None = None,
        shown: str | None = None,
    ) -> None:
        self.name, self.kind = encodable(name), kind
        self.lines = self.size = 0
        self._scanner, self._exceptions, self._tries = searched, exceptions, Attempts()
        self._matches, self._repeats = matches, Repeats()
        self._shown: list[Known] | None = []
        """Matches of the current line; None if they depend on more than the line."""
        self._numbered = False
        """True if numbers in it make it another line."""
        self._file, self._tail, self._open = attribution.of_file(shown or self.name), b"", False
        self._since, self._now = since, None if since is None else -1.0
        self._search = searched.begin()
        self._hear, self._place = hear, place
        self.numbers: Sequence[int] = ()
        """Original line numbers, if the log is not read in the order of its lines."""
        self._began: float | None = None
        self._alive = endings.Alive()
        self._untimed = self._looked = 0
        self._logged = False
        """True if a program's logger wrote the last exception."""
        self._success = self._stopped = 0
        """Line in which the job reports its success, or that it was asked to stop."""
        self._writer = LineOrigin()
        """Speaker of the current line."""

    def named(self, who: LineOrigin) -> None:
        """Set the speaker known from the file's name beside the names of the other files."""
        self._file = attribution.within(who, self._file)

    def feed(self, block: bytes) -> None:
        """Take the next block, which ends with the end of a line."""
        counted, number, tail = 0, self.lines + 1, self._tail
        if not self.lines:
            self._began = _first_time(block)
        viewed, redrawn = OWN_VIEWER in block, b"\r" in block
        for start, end, known in self._scanner.lines(block, self._search):
            if start < counted:  # in a traceback that repeats one
                self._search.repeated = True
                continue
            if viewed and block.find(OWN_VIEWER, start, min(end, start + 300)) >= 0:
                continue
            lines = block.count(b"\n", counted, start)
            number += lines
            between = block[counted:start]
            self._tries.between(between)
            if redrawn or lines > endings.STEPS or (lines > 1 and self._alive.caught):
                self._alive.before(number, between)
            key = self._repeats.line(block, start, end) if self._since is None else None
            if key is not None and self._is_repetition(key, number):
                self._search.repeated = True
                counted = max(start, self._repeats.end)
                number += block.count(b"\n", start, counted)
                continue
            context, at = (block, start) if start > tracebacks.BACK else (tail + block, len(tail) + start)
            who, text = attribution.split(attribution.readable(block[start:end]))
            if self._since is None or self._is_since(who.time, between):
                who = attribution.within(attribution.mentioned(who, text), self._file)
                self._read(Match("", "cause", self.name, number, text, who), known, context, at, key)
            counted = start
        self._tries.between(block[counted:])
        if block:
            self.lines += block.count(b"\n")
            self.size += len(block)
            self._tail = block[-endings.TAIL :] if len(block) >= endings.TAIL else (tail + block)[-endings.TAIL :]

    def _is_repetition(self, key: Line, number: int) -> bool:
        """Count the line if it repeats known ones; return whether it does."""
        shown = self._repeats.known(key)
        if shown is None or not self._tries.repeat(number):
            return False
        return self._matches.repeat(shown.matches, number)

    def _read(self, line: Match, known: Sequence[KnownLine], context: bytes, at: int, key: Line | None) -> None:
        """Read a line, and note what it shows for its repetitions."""
        state, self._shown, self._writer, self._numbered = self._tries.state, [], line.who, False
        self._line(line, known, context, at)
        if self._tries.state != state:
            self._repeats.forget()
        elif key is not None:
            self._repeats.learn(key, None if self._shown is None else Shown(tuple(self._shown), self._numbered))

    def source(self) -> LogSource:
        """Return the facts known so far."""
        tail, whole = self._tail, self._tail.endswith(b"\n") or not self._tail
        lines = self.lines if whole else self.lines + 1
        end = endings.judge_ending(tail)
        first = lines - tail.count(b"\n") - (0 if whole else 1) + 1
        steps = first + end.progress if end.progress is not None else 0
        return LogSource(
            self.name,
            self.kind,
            lines,
            self.size,
            encodable(end.last),
            steps,
            first + end.finished if end.finished is not None else 0,
            first + end.record if end.record is not None else 0,
            end.starting,
            end.done or steps < self._success,
            self._file,
            alive=self._alive.speakers(self._file),
            advanced=first + end.advanced if end.advanced is not None else 0,
            stepper=attribution.within(end.stepper, self._file).speaker,
            stepped=end.stepped,
            pace=end.pace,
            worked=self._alive.speakers(self._file, endings.MANY),
            resumed=self._alive.resumed(self._file),
            restarted=self._tries.restarted,
            began=self._began,
            over=first + end.over if end.over is not None else 0,
            known=first + end.known if end.known is not None else 0,
            ended=_last_time(tail.splitlines()[-LAST:]),
            success=self._success,
            stopped=self._stopped,
        )

    def _hear_run(self, line: int, text: str) -> None:
        """Take a line that may report that a run begins, or that the job has succeeded."""
        if any(mark.is_in(text) for mark in dialects.BEGINS):
            self._success = self._stopped = 0
        elif not self._stopped and any(mark.is_in(text) for mark in dialects.STOPS):
            self._stopped = line
        elif not self._success and any(mark.is_in(text) for mark in dialects.SUCCESS):
            self._success = line

    def _is_since(self, time: float | None, before: bytes) -> bool:
        """Return whether a line is from ``since`` or later, by its own time or that of a line before it."""
        if time is None:
            time = _last_time(before.splitlines()[-UNTIMED:])
        if time is not None:
            self._now = time
        assert self._since is not None and self._now is not None
        return self._now < 0 or not attribution.earlier(self._now, self._since)

    def _keep(self, match: Match, context: bytes, at: int) -> None:
        if match.who.time is None and self._untimed < ABOUT and (match.exception or match.shows == "cause"):
            self._untimed += 1
            if (time := _last_time(context[max(at - tracebacks.BACK, 0) : at].splitlines()[-ABOVE:])) is not None:
                match = replace(match, about=time)
        if match.line <= len(self.numbers):
            match = replace(match, numbered=self.numbers[match.line - 1])
        match = self._tries.of(match)
        self._alive.caught |= match.has("caught", "logged")
        shown = self._matches.keep(match)
        self._numbered = self._numbered or not match.values.keys().isdisjoint(_OF_ONE)
        if self._depends_on_others(match):
            self._shown = None
        elif self._shown is not None:
            self._shown.append(shown)

    def _depends_on_others(self, match: Match) -> bool:
        """Return whether other lines made the match of the current line, or it counts with them."""
        if match.ended is not None and _in_turn(match.ended):
            return True
        named = mentioned.of_values(self._writer, match.values)
        return match.who.speaker not in (self._writer.speaker, named.speaker)

    def _line(self, line: Match, known: Sequence[KnownLine], context: bytes, at: int) -> None:
        """Read one line: keep its matches, or the exception that it reports and no wording knows."""
        text = line.text
        known, ended = scanner.read(known, text)
        quoted = tracebacks.is_source(text) or quotations.is_program(text)
        self._pass_on(line, ended, quoted=quoted)
        known = _believed(known, text, quoted=quoted)
        raised = None if quoted else tracebacks.exception(text)
        mark = {} if raised is None else _ending_of(context, at)
        ignored = any(one.line.head or one.line.alone for one in known) and (
            tracebacks.is_ignored(context, at) or _is_warning(context, at, text)
        )
        if raised is not None and known and self._looked < ABOUT:
            self._looked += 1
            stack = tracebacks.before(context, at)
            line = replace(line, chained=stack.chained, who=attribution.within(line.who, stack.writer))
            ignored = stack.ignored
            mark |= {name: "yes" for name, shown in (("caught", stack.caught), ("whole", stack.whole)) if shown}
            mark |= rank_comparison.call_of(stack.frame, tracebacks.frames(context, at))
        found = [match for one in known if (match := _match(line, one, mark, ignored, context, at)) is not None]
        if not found and _LAST_ERROR.search(context, max(at - 200, 0), at):
            warned = replace(line, text=f"NCCL WARN {text}")
            own = (_match(warned, one, mark, ignored, context, at) for one in self._known(warned.text))
            found = [replace(match, text=text) for match in own if match is not None]
        for match in found:
            self._keep(match, context, at)
        if self._exceptions:
            self._read_odd_end(line, context, at)
            if raised is not None and not found:
                self._read_unknown(line, raised, mark, context, at)

    def _pass_on(self, line: Match, ended: Sequence[ProcessExit], *, quoted: bool) -> None:
        """Pass a line on to those who read all lines; quoted text names places only."""
        if self._place is not None:
            self._place(line.who, line.text)
        if any(map(_in_turn, ended)):
            self._shown = None
        if not quoted:
            self._tries.hear(line.who, line.text, ended)
            self._hear_run(line.line, line.text)
            if self._hear is not None:
                self._hear(line.who, line.text, ended)

    def _read_odd_end(self, line: Match, context: bytes, at: int) -> None:
        """Take the exception below the head of a traceback whose own line is not in the form of exceptions."""
        if tracebacks.HEAD in line.text and (end := tracebacks.odd_end(context, at)) is not None:
            start, own, *raised = end
            if not self._known(own):
                number = line.line + context.count(b"\n", at, start)
                self._raised(replace(line, line=number, text=own), (raised[0], raised[1]), context, start)

    def _read_unknown(
        self, line: Match, raised: tuple[str, str], mark: dict[str, str], context: bytes, at: int
    ) -> None:
        """Take an exception whose line no wording knows; its message may begin in the next line."""
        name, message = raised
        if not message and line.text.endswith(":") and (message := tracebacks.following_text(context, at)):
            whole = f"{line.text} {message}"
            if wordings := self._known(whole):
                self._line(replace(line, text=whole), wordings, context, at)
                return
        text = line.text if message in line.text else f"{line.text} {message}"
        self._raised(replace(line, text=text).showing(mark), (name, message), context, at)

    def _known(self, text: str) -> list[KnownLine]:
        """Return the wordings that match this line."""
        found = self._scanner.lines(text.encode(), self._scanner.begin())
        return [one for _, _, known in found for one in scanner.read(known, text)[0] if one.values(text) is not None]

    def _raised(self, line: Match, raised: tuple[str, str], context: bytes, at: int) -> None:
        """Take an exception that no wording knows."""
        stack = tracebacks.before(context, at)
        if stack.ignored or (not stack.whole and _is_warning(context, at, line.text)):
            return
        if stack.tested and raised == ("AssertionError", ""):
            self._keep(replace(line, check=self._exceptions, shows="symptom", why=ONLY_A_TEST), context, at)
            return
        self._logged = stack.logged or (stack.chained and self._logged)
        caught = stack.caught or (not stack.traced and attribution.is_by_program(context, at))
        shown = {"traced": stack.traced, "logged": self._logged, "caught": caught, "whole": stack.whole}
        shown |= {"direct": stack.direct, "answered": tracebacks.is_answered(context, at, stack.writer)}
        shown |= {"wraps": _WRAPPER.fullmatch(raised[0]) is not None}
        found = {name: "yes" for name, true in shown.items() if true}
        found |= {"message": raised[1], **mentioned.own_words(line.text, context, at)}
        found |= {"own_frame": stack.own_frame} if stack.own_frame else {}
        who, _ = mentioned.about(attribution.within(line.who, stack.writer), line.text, {}, context, at)
        line = replace(line, check=self._exceptions, exception=raised[0], who=who).showing(found)
        self._keep(replace(line, frame=stack.frame, chained=stack.chained), context, at)


def _ending_of(context: bytes, at: int) -> dict[str, str]:
    """Return the mark of an exception that ended its thread, or its program."""
    if endings.is_of_thread(context, at):
        return {"thread": "yes"}
    return {"uncaught": "yes"} if endings.is_uncaught(context, at) else {}


def _is_warning(context: bytes, at: int, text: str) -> bool:
    """Return whether the prefix of the line at ``at``, in which ``text`` stands, has the level of a warning.

    Those who relay what a program prints, such as Airflow, write INFO.
    """
    raw = attribution.readable(context[at : at + 600].partition(b"\n")[0])
    return _WARNING.search(raw[: max(raw.find(text[:40]), 0)]) is not None


def _in_turn(end: ProcessExit) -> bool:
    """Return whether an end counts with those around it: torchrun's and DeepSpeed's show attempts, as do SLURM's."""
    return end.pid is not None or end.launcher in ("torchrun", "deepspeed", "slurmstepd") or end.reason == SENT


def _first_time(block: bytes) -> float | None:
    """Return the first time in the first lines of a log."""
    lines = (
        attribution.split(attribution.readable(raw[:200]))[0] for raw in block[: UNTIMED * FIRST].splitlines()[:FIRST]
    )
    return next((who.time for who in lines if who.time is not None), None)


def _last_time(lines: Sequence[bytes]) -> float | None:
    """Return the time of the last of these lines that has one."""
    each = (attribution.split(attribution.readable(raw[:200]))[0].time for raw in reversed(lines))
    return next((time for time in each if time is not None), None)


def _believed(known: Sequence[KnownLine], text: str, *, quoted: bool) -> Sequence[KnownLine]:
    """Return the wordings that count in a line: in source code, those that know such lines."""
    if quoted:
        return [one for one in known if one.line.source]
    return [one for one in known if not quotations.is_cited(text, one)]


def _only_warns(text: str, known: KnownLine) -> bool:
    """Return whether the line says what to do if there is such a failure, or that there may be one."""
    may = _MAY_COME.search(text)
    return bool(_ADVICE.match(text)) or (may is not None and not known.is_in(text[: may.start()]))


def _match(
    line: Match, known: KnownLine, mark: Mapping[str, str], ignored: bool, context: bytes, at: int
) -> Match | None:
    """Return the match of ``known`` in the line, None where it does not count.

    ``mark``: facts already known about the process's end.
    """
    text, wording, values = line.text, known.line, known.values(line.text)
    if values is None or (_only_warns(text, known) if wording.shows == "cause" else ignored):
        return None
    if wording.stack and not tracebacks.fits(tracebacks.frames(context, at), wording.stack, wording.unframed):
        return None
    who, marks = mentioned.about(line.who, text, values, context, at)
    values.update(marks, **mark, **mentioned.own_words(text, context, at))
    numbers = f"{values.get('ranks', '')} {values.get('and_rank', '')}"
    ranks = tuple(int(number) for number in re.findall(r"\d{1,6}", numbers))
    if peers := values.pop("peers", ""):
        ranks = mentioned.rank_of_key(who, peers)
    if wording.shows == "end" and "received at" in text and (frame := mentioned.crash_frame(context, at)):
        values["inside"] = frame
    values.update({name: "yes" for name in _MARKS if getattr(wording, name)})
    values.update({"ahead_of": wording.ahead_of} if wording.ahead_of else {})
    values.update({name: text_of for name in ("told", "fix") if (text_of := getattr(wording, name))})
    named = f"{text} {marks['ranks']}" if marks.get("ranks") else text  # in the lines below it
    if known.end is not None and len(named) > SHOWN:
        named = f"... {named[-SHOWN + 4 :]}"  # a launcher prints the whole command before how it ended
    match = replace(line, check=known.check, shows=wording.shows, who=who, why=wording.why).showing(values)
    return replace(match, ranks=ranks, text=named, ended=known.end)
