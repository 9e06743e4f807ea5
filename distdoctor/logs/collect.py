"""From files to log facts: each is told by its content, its known lines are found and put to those who said them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from distdoctor.logs import attribution, dump_comparison, ending, error_file, flight_recorder, reader, tracebacks
from distdoctor.logs.scanner import Known, Scanner
from distdoctor.model.facts import NodeFacts
from distdoctor.model.facts.files import BadFile, read
from distdoctor.model.facts.logs import LogFacts, LogSource, Match, Who
from distdoctor.model.log_line import Line
from distdoctor.model.sanitize import clean, encodable

MOST = 20_000
"""Different lines that are kept."""
SHOWN = 400
"""Characters of a line that are kept."""
_EXIT = re.compile(r"exit ?code")
_ENDED = re.compile(r"exit ?code *[:=]? *-15\b")
"""Torchrun ends the other ranks so after one has failed."""
_ROW_RANK = re.compile(r"\brank\s*: (\d{1,6}) \(local_rank: (\d{1,4})\)")
_ROW_HOST = re.compile(r"\bhost\s*: (\S{1,253})")
ROW = 700
"""Bytes before the exit code of a row of torchrun's table in which its rank and host stand."""
OWN_VIEWER = b"torch/distributed/debug/_"
"""What torch's own debug server logs: it cannot show gloo's dumps (2.13), which is no failure of the job."""
ROOT = "Root Cause (first observed failure)"


@dataclass
class Collected:
    """What the files hold."""

    logs: LogFacts = field(default_factory=LogFacts)
    facts: tuple[NodeFacts, ...] = ()


@dataclass
class _Collector:
    scanner: Scanner
    known: dict[tuple[object, ...], Match] = field(default_factory=dict)
    sources: list[LogSource] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: list[NodeFacts] = field(default_factory=list)
    dumps: list[flight_recorder.Dump] = field(default_factory=list)
    exceptions: str = ""
    """The check that takes the exceptions which no wording knows."""
    order: int = 0
    labelled: list[tuple[object, ...]] = field(default_factory=list)
    """The keys of the lines of this file that a task's number stands before."""
    logged: bool = False
    """Whether the last exception of this file was written by a program's logger."""

    def add(self, source: reader.Source) -> None:
        try:
            kind, raw = reader.opened(source)
        except reader.Empty:  # as the file of what a healthy job wrote on stderr
            self.sources.append(LogSource(encodable(source.name), "log"))
            return
        except reader.Unreadable as err:
            self.notes.append(str(err))
            return
        with raw:
            try:
                if kind == "facts" and source.path is not None:
                    self.facts.extend(read([source.path]))
                elif kind == "flight-recorder":
                    self.dumps.append(flight_recorder.load(source.name, raw.read(flight_recorder.MAX_BYTES)))
                    return
                elif kind == "error-file":
                    text = error_file.as_log(raw.read(error_file.MAX_BYTES))
                    self._blocks(source.name, "error-file", [text])
                    return
                elif kind != "binary":
                    self._blocks(source.name, kind, reader.blocks(raw))
                    return
                elif source.given:
                    self.notes.append(f"{source.name}: no text")
                    return
            except (OSError, BadFile, flight_recorder.BadDump) as err:
                self.notes.append(f"{source.name}: {err}" if source.name not in str(err) else str(err))
                return
        self.sources.append(LogSource(encodable(source.name), kind))

    def compare_dumps(self) -> None:
        """What the flight recorders of all ranks say together, as a log that they wrote."""
        if self.dumps:
            name = f"{len(self.dumps)} flight-recorder dump{'s' if len(self.dumps) > 1 else ''}"
            lines = [*dump_comparison.compare(self.dumps), *(dump.name for dump in self.dumps)]
            self.notes += dump_comparison.by_rank(self.dumps)[1]
            self._blocks(name, "flight-recorder", ["".join(f"{line}\n" for line in lines).encode()])

    def _blocks(self, name: str, kind: str, blocks: Iterable[bytes]) -> None:
        name, lines, size, tail = encodable(name), 0, 0, b""
        file = attribution.of_file(name)
        self.scanner.begin()
        self.labelled, self.logged = [], False
        try:
            for block in blocks:
                self._block(name, file, block, tail, lines)
                lines += block.count(b"\n")
                size += len(block)
                tail = block[-ending.TAIL :] if len(block) >= ending.TAIL else (tail + block)[-ending.TAIL :]
        except OSError as err:  # the file went away, or the disk does not give it
            self.notes.append(f"{name}: not read to its end: {err.strerror or err}")
        if tail and not tail.endswith(b"\n"):
            lines += 1
        self._tasks_as_ranks()
        end = ending.judge(tail)
        first = lines - tail.count(b"\n") - (0 if tail.endswith(b"\n") else 1) + 1
        self.sources.append(
            LogSource(
                name,
                kind,
                lines,
                size,
                encodable(end.last),
                first + end.progress if end.progress is not None else 0,
                first + end.finished if end.finished is not None else 0,
                first + end.record if end.record is not None else 0,
                end.starting,
            )
        )

    def _block(self, name: str, file: Who, block: bytes, before: bytes, lines: int) -> None:
        counted, number = 0, lines + 1
        for start, end, _, known in self.scanner.lines(block):
            if block.find(OWN_VIEWER, start, min(end, start + 300)) >= 0:
                continue
            number += block.count(b"\n", counted, start)
            counted = start
            who, text = attribution.split(attribution.readable(block[start:end]))
            who = attribution.within(attribution.mentioned(who, text), file)
            context, at = (block, start) if start > tracebacks.BACK else (before + block, len(before) + start)
            self._line(Match("", "cause", name, number, text, who), known, context, at)

    def _line(self, line: Match, known: Sequence[Known], context: bytes, at: int) -> None:
        text, found = line.text, False
        if tracebacks.is_source(text):
            known = [one for one in known if one.line.source]
            if not known:
                return
        for one in known:
            values = one.values(text)
            if values is None:
                continue
            found = True
            who = _about(line.who, values)
            ranks = tuple(
                int(number)
                for number in re.findall(r"\d{1,6}", f"{values.get('ranks', '')} {values.get('and_rank', '')}")
            )
            if "xit" in text and _EXIT.search(text):
                who, in_table = _of_row(who, context, at)
                if in_table and not _ENDED.search(text):
                    values["row"] = "yes"
                row = context[max(at - ROW, 0) : at]
                if row.rfind(ROOT.encode()) > row.rfind(b"exitcode"):
                    values["first"] = "yes"
            wording = one.line
            if wording.final:
                values["final"] = "yes"
            match = replace(line, check=one.check, shows=wording.shows, who=who, values=values, why=wording.why)
            self._keep(replace(match, ranks=ranks))
        if found or not self.exceptions:
            return
        raised = tracebacks.exception(text)
        if raised is not None:
            stack = tracebacks.before(context, at)
            if stack.ignored:
                return
            self.logged = stack.logged or (stack.chained and self.logged)
            told = {"traced": stack.traced, "logged": self.logged}
            values = {"message": raised[1], **{name: "yes" for name, true in told.items() if true}}
            who = line.who
            if who.rank is None and who.local_rank is None:
                who = replace(who, local_rank=tracebacks.spawned(context, at))
            line = replace(line, who=who)
            self._keep(
                replace(
                    line,
                    check=self.exceptions,
                    exception=raised[0],
                    frame=stack.frame,
                    chained=stack.chained,
                    values=values,
                )
            )

    def _keep(self, match: Match) -> None:
        self.order += 1
        text = clean(encodable(match.text.strip()))[:SHOWN]
        who = match.who
        kind = re.sub(r"\d+|0x[0-9a-f]+", "0", text)[:160]
        key = (match.check, match.shows, match.exception, replace(who, pid=None, time=None), kind, match.source)
        known = self.known.get(key)
        if known is not None:
            values = {**known.values, "last_line": str(match.line)}
            self.known[key] = replace(known, count=known.count + 1, values=values)
        elif len(self.known) < MOST:
            values = {name: clean(encodable(value))[:SHOWN] for name, value in match.values.items()}
            self.known[key] = replace(match, text=text, values=values, order=self.order)
            if who.task is not None:
                self.labelled.append(key)

    def _tasks_as_ranks(self) -> None:
        """In a file labelled by tasks these are ranks, unless a line of one says that it is from another rank."""
        lines = {key: self.known[key] for key in self.labelled}
        if any(line.who.rank not in (None, line.who.task) for line in lines.values()):
            return
        for key, line in lines.items():
            if line.who.rank is None and line.who.local_rank is None:
                self.known[key] = replace(line, who=replace(line.who, rank=line.who.task))


def _about(who: Who, values: Mapping[str, str]) -> Who:
    """Whom a line is about: its own values say more than who wrote it."""
    rank, local = values.get("rank", ""), values.get("local_rank", "")
    return replace(
        who,
        rank=int(rank) if rank.isdecimal() else who.rank,
        local_rank=int(local) if local.isdecimal() else who.local_rank,
        host=values.get("host") or who.host,
    )


def _of_row(who: Who, context: bytes, at: int) -> tuple[Who, bool]:
    """Whom an exit code is of, where it stands in torchrun's table, and whether it does."""
    row = context[max(at - ROW, 0) : at].decode("utf-8", "replace")
    ranks, hosts = _ROW_RANK.findall(row), _ROW_HOST.findall(row)
    if not ranks:
        return who, False
    host = hosts[-1] if hosts else who.host
    return replace(who, rank=int(ranks[-1][0]), local_rank=int(ranks[-1][1]), host=host), True


@lru_cache(maxsize=1)
def _scanner(wordings: tuple[tuple[str, tuple[Line, ...]], ...]) -> Scanner:
    """The scanner of these wordings; it takes longer to make than to read a small log."""
    return Scanner(dict(wordings), tracebacks.TRIGGERS)


def collect(paths: Iterable[Path], wordings: Mapping[str, Sequence[Line]]) -> Collected:
    """Everything that these files and folders hold. Raises Unreadable for one that is not there."""
    takes = (check for check, lines in wordings.items() if any(line.shows == "exception" for line in lines))
    searched = (
        (check, tuple(line for line in lines if line.shows != "exception")) for check, lines in wordings.items()
    )
    collector = _Collector(_scanner(tuple(searched)), exceptions=next(takes, ""))
    for source in reader.find(paths):
        collector.add(source)
    collector.compare_dumps()
    logs = LogFacts(tuple(collector.sources), tuple(collector.known.values()), tuple(collector.notes))
    return Collected(logs, tuple(collector.facts))
