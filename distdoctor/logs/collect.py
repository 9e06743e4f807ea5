"""Collector of log facts: recognizes each file by its content, finds its known lines and attributes them to
speakers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from io import BufferedReader
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from distdoctor.logs import (
    attempts,
    dialects,
    matches,
    nccl_inspector,
    rank_comparison,
    settings,
    tracebacks,
    watchdogs,
)
from distdoctor.logs.log_file import LogFile
from distdoctor.logs.matches import Matches, Places
from distdoctor.logs.reading import file_names, formats, reader
from distdoctor.logs.reading.budget import Budget, Spent
from distdoctor.logs.scanner import Scanner
from distdoctor.model.facts import NodeFacts
from distdoctor.model.facts.files import BadFile, read
from distdoctor.model.facts.logs import LineOrigin, LogFacts, LogSource, Match, ProcessExit
from distdoctor.model.log_line import Line
from distdoctor.model.text import encodable

if TYPE_CHECKING:
    from distdoctor.logs.flight_recorder import Dump

NOT_TO_ITS_END = "not read to its end"


@dataclass
class Collected:
    """Facts and logs found in the files."""

    logs: LogFacts = field(default_factory=LogFacts)
    facts: tuple[NodeFacts, ...] = ()


class Collector:
    """Collector of facts from any number of files; ``since`` as for :class:`LogFile`."""

    def __init__(self, wordings: Mapping[str, Sequence[Line]], since: float | None = None) -> None:
        takes = (check for check, lines in wordings.items() if any(line.shows == "exception" for line in lines))
        searched = (
            (check, tuple(line for line in lines if line.shows != "exception")) for check, lines in wordings.items()
        )
        self._scanner = _scanner(tuple(searched))
        self.budget = Budget()
        self._exceptions, self._since = next(takes, ""), since
        self._matches = Matches()
        self._sources: list[LogSource] = []
        self._notes: list[str] = []
        self._facts: dict[str, NodeFacts] = {}
        self._dumps: list[Dump] = []
        self._places: dict[str, Places] = {}
        self._files: list[str] = []
        self._named: dict[str, LineOrigin] = {}
        self._above: dict[str, int] = {}
        """By file name, the number of its first characters that do not name a speaker."""
        self._launch = ""
        self._settings, self._watchdogs = settings.Settings(), watchdogs.Watchdogs()
        self._stacks, self._ports, self._roll = tracebacks.Stacks(), settings.Ports(), rank_comparison.Roll()
        self._exits, self._progress = rank_comparison.Exits(), nccl_inspector.Progress()

    @property
    def known(self) -> int:
        """Return the number of known lines so far."""
        return self._matches.order

    def collect(self, paths: Iterable[Path]) -> Collected:
        """Collect all files and folders in ``paths``. Raises Unreadable for one that does not exist."""
        for source in self.arranged(reader.find(paths)):
            self.add(source)
        return self.collected()

    def arranged(self, found: Iterable[reader.Source]) -> list[reader.Source]:
        """Return the files in the order in which to add them, all of one job: archives unpacked, speakers known by the
        names of all files together."""
        files, notes = reader.unpack_archives(found, self.budget)
        self._notes += notes
        self.name(files)
        return reader.oldest_first(files)

    def name(self, files: Iterable[reader.Source]) -> None:
        """Register all file names: together they name the speaker of each file."""
        above = {
            encodable(one.name): file_names.prefix_length(encodable(one.name), encodable(one.folder)) for one in files
        }
        if (names := [*above]) != self._files:
            self._files, self._named, self._above = names, file_names.owners_by_name(names), above

    def add(self, source: reader.Source) -> None:
        """Read one file of any kind from beginning to end."""
        with self.budget.running():
            self._add(source)

    def _add(self, source: reader.Source) -> None:
        try:
            kind, raw = reader.opened(source, self.budget)
        except reader.Empty:  # as an empty stderr file of a healthy job
            self._sources.append(LogSource(encodable(source.name), "log"))
            return
        except reader.Unreadable as err:
            self._notes.append(str(err))
            return
        with raw:
            try:
                self._take(source, kind, raw)
            except (OSError, EOFError, BadFile, ValueError) as err:
                why = str(getattr(err, "strerror", None) or err or NOT_TO_ITS_END)
                self._notes.append(f"{source.name}: {why}" if source.name not in why else why)

    def launched(self, flags: Sequence[str]) -> None:
        """Take flags of ``distdoctor check`` for the plan of the job that writes all logs from here on."""
        self._launch = " ".join(flags)

    def log(self, name: str, kind: str) -> LogFile:
        """Return a log to feed with its content."""
        where = self._places.setdefault(encodable(name), Places())
        log = LogFile(
            name,
            kind,
            self._scanner,
            self._matches,
            self._exceptions,
            self._since,
            partial(self._hear, encodable(name)),
            where.hear,
            encodable(name)[self._above.get(encodable(name), 0) :],
        )
        log.named(self._named.get(log.name, LineOrigin()))
        if self._launch:
            where.hear(LineOrigin(), self._launch)
            self._exits.take(log.name, LineOrigin(), self._launch, ())
        return log

    def end(self, log: LogFile) -> None:
        """Finish a log that gets no more content."""
        self._sources.append(log.source())

    def collected(self, open_logs: Iterable[LogFile] = ()) -> Collected:
        """Return everything known so far, including ``open_logs``, which may go on."""
        sources, between = [*self._sources, *(one.source() for one in open_logs)], Matches(self.known)
        own = self._matches.all(self._places)
        for name, kind, lines in self._compared(own):
            log = LogFile(name, kind, self._scanner, between)
            log.feed("".join(f"{line}\n" for line in lines).encode())
            if kind in ("flight-recorder", "beside"):  # the other dumps are in logs that are reported
                sources.append(log.source())
        notes = [*self._notes, *self._left_out()]
        matches = (*own, *(replace(one, compared=True) for one in between.all({})))
        logs = LogFacts(tuple(sources), matches, tuple(notes), self._settings.values_by_kind())
        return Collected(logs, tuple(self._facts.values()))

    def _take(self, source: reader.Source, kind: reader.Kind, raw: BufferedReader) -> None:
        """Take an open file by its kind, and by its first bytes."""
        head = raw.peek(reader.HEAD)[: reader.HEAD]
        if kind == "flight-recorder":
            from distdoctor.logs import flight_recorder  # the pickle reader is imported only where a dump is read

            self._dumps.append(flight_recorder.load(source.name, reader.up_to(raw, flight_recorder.MAX_BYTES + 1)))
        elif kind == "error-file":
            text = reader.up_to(raw, rank_comparison.MAX_ERROR_FILE_BYTES)
            self._read(source, kind, [rank_comparison.error_file_as_log(text)])
        elif kind == "binary" or (kind == "facts" and source.path is not None):
            self._take_no_log(source, kind)
        elif kind not in ("log", "beside") or not self._take_tool_output(source, kind, raw, head):
            self._take_log(source, kind, raw, head)

    def _take_no_log(self, source: reader.Source, kind: reader.Kind) -> None:
        """Take a file of facts, or one that is no text."""
        if kind == "binary" and source.given:
            self._notes.append(f"{source.name}: no text")
            return
        if kind == "facts" and source.path is not None:
            self._facts.update({one.key: one for one in read([source.path])})
        elif reader.PACKED_SUFFIXES.search(source.name):
            self._notes.append(f"{source.name}: an archive; unpack it first")
        self._sources.append(LogSource(encodable(source.name), kind))

    def _take_tool_output(self, source: reader.Source, kind: str, raw: BufferedReader, head: bytes) -> bool:
        """Take the output of py-spy, torch's debug server or ibstat; return whether it is such a file."""
        if tracebacks.begins_with_stack(head, kind == "beside"):
            self._stacks.take(source.name, text := reader.up_to(raw, tracebacks.MAX_STACK_BYTES))
            if tracebacks.BY_SERVER.match(text):  # faulthandler's lines would look like those of a crash
                self._sources.append(LogSource(encodable(source.name), "beside"))
            else:
                self._read(source, "beside", chain([text], reader.blocks(raw)))
        elif settings.PORT_HEAD.match(head):
            text = reader.up_to(raw, settings.MAX_PORT_BYTES)
            self._read(source, "beside", chain([text], reader.blocks(raw)))
            self._ports.take(text, self._sources[-1].who.host)
        elif kind == "beside" and file_names.is_quoted(source.name, head):
            self._sources.append(LogSource(encodable(source.name), kind))
        else:
            return False
        return True

    def _take_log(self, source: reader.Source, kind: str, raw: BufferedReader, head: bytes) -> None:
        """Take a log in any form: gathered by a service, of NCCL's Inspector, with one mark on each line, or plain."""
        if (as_text := formats.gathered(head)) is not None:
            text = as_text(reader.up_to(raw, formats.ARRAY))
            self._read(source, kind, *_oldest_first(chain([text], reader.blocks(raw))))
        elif nccl_inspector.BEGINS.match(head):
            self._read(source, "beside", self._progress.take(reader.blocks(raw)))
        elif mark := formats.common_mark(head):
            self._read(source, kind, (mark.sub(b"", block) for block in reader.blocks(raw)))
        else:
            self._read(source, kind, *_oldest_first(reader.blocks(raw)))

    def _read(self, source: reader.Source, kind: str, blocks: Iterable[bytes], numbers: Sequence[int] = ()) -> None:
        log = self.log(source.name, kind)
        log.numbers = numbers
        try:
            for block in blocks:
                log.feed(block)
        except OSError as err:  # the file was removed, or the disk does not return it
            why = str(err.strerror or err)
            self._notes.append(f"{source.name}: {why if isinstance(err, Spent) else f'{NOT_TO_ITS_END}: {why}'}")
        self._sources.append(replace(log.source(), part_of=encodable(source.part_of)))

    def _hear(self, name: str, who: LineOrigin, text: str, ended: Sequence[ProcessExit]) -> None:
        self._settings.take(who, text)
        self._watchdogs.take(who, text)
        self._roll.take(name, text)
        self._exits.take(name, who, text, ended)

    def _left_out(self) -> list[str]:
        """Return the dumps that are not compared, each with the reason."""
        if not self._dumps:
            return []
        from distdoctor.logs import flight_recorder

        return flight_recorder.dumps_by_rank(self._dumps)[1]

    def _compared(self, own: Sequence[Match]) -> Iterator[tuple[str, str, list[str]]]:
        """Yield comparisons of ranks as logs of their own: name, kind, lines."""
        if self._dumps:
            from distdoctor.logs import flight_recorder

            name = f"{len(self._dumps)} flight-recorder dump{'s' if len(self._dumps) > 1 else ''}"
            lines = [*flight_recorder.compare_dumps(self._dumps), *(dump.name for dump in self._dumps)]
            yield name, "flight-recorder", lines
        for name, kind, one in (
            ("the stacks of the ranks", "beside", self._stacks),
            ("the ports of the hosts", "beside", self._ports),
            ("the files of NCCL's Inspector", "beside", self._progress),
            ("the watchdogs of all ranks", "watchdogs", self._watchdogs),
            ("what NCCL says of itself", "settings", self._settings),
            ("which ranks started", "roll", self._roll),
            ("how the ranks ended", "exits", self._exits),
        ):
            if lines := one.compared():
                yield name, kind, lines
        if lines := rank_comparison.compare_calls(own, self._exits.ranks()):
            yield "what the ranks called", "calls", lines


def _oldest_first(blocks: Iterator[bytes]) -> tuple[Iterable[bytes], Sequence[int]]:
    """Return the blocks of a log in chronological order, and the original line numbers if the order differs."""
    first = next(blocks, b"")
    head = first[: reader.HEAD]
    if formats.is_newest_first(head):
        in_order = formats.oldest_first
    elif formats.is_report_first(head):
        in_order = formats.report_last
    else:
        return chain([first], blocks), ()
    read, size, lines = [first], len(first), first.count(b"\n")
    for block in chain([b""], blocks):
        read.append(block)
        size, lines = size + len(block), lines + block.count(b"\n")
        if size > formats.LARGEST or lines > formats.MOST_LINES:
            return chain(read, blocks), ()
    text, numbers = in_order(b"".join(read))
    return [text], numbers


@lru_cache(maxsize=1)
def _scanner(wordings: tuple[tuple[str, tuple[Line, ...]], ...]) -> Scanner:
    """Return the scanner of these wordings, cached: building it takes longer than reading a small log."""
    own = (tracebacks.TRIGGERS, watchdogs.LITERALS, attempts.LITERALS, dialects.LITERALS, rank_comparison.ROLL_LITERALS)
    return Scanner(
        dict(wordings),
        [literal for literals in (*own, rank_comparison.EXIT_LITERALS) for literal in literals],
        (*settings.LITERALS, *matches.PLACE_LITERALS),
    )
