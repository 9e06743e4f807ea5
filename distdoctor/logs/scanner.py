"""Scanner for the lines that checks know: all literals are searched at once, and an expression only where its literal
stands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from ahocorasick_rs import BytesAhoCorasick, Implementation

from distdoctor.logs.dialects import WORDINGS
from distdoctor.logs.dialects.dialect import Wording
from distdoctor.model.facts.logs import ProcessExit
from distdoctor.model.log_line import Line

WINDOW = 2000
"""Characters around a literal that expressions see."""
BEFORE = 600
MOST = 4000
"""Most lines with one literal per file that are read, without repetitions; more of them add nothing."""

WASTED = 20_000
"""Matches of exhausted literals after which a search without them is cheaper."""


@dataclass
class Search:
    """State of the search in one file."""

    automaton: BytesAhoCorasick
    numbers: list[int]
    """Index of the literal for each number of the automaton."""
    counts: list[int]
    """Number of lines with each literal that were read."""
    wasted: int = 0
    """Number of matches of exhausted literals."""
    repeated: bool = False
    """Set by the caller while it has a line: True if the line repeats known ones, which costs nearly nothing."""


@dataclass
class KnownLine:
    """Wording of a check."""

    check: str
    line: Line

    end: ProcessExit | None = None
    """End that a launcher reports in the line."""

    def values(self, text: str) -> dict[str, str] | None:
        """Return the values in ``text``, None where it is not this wording."""
        match = self._pattern.search(text)
        if match is None or self._is_void(text):
            return None
        values = {name: value for name, value in match.groupdict().items() if value}
        more, less = self.line.above
        return None if more and not int(values.get(more, 0)) > int(values.get(less, 0)) else values

    def is_in(self, text: str) -> bool:
        """Return whether ``text`` contains the whole wording."""
        return any(literal in text for literal in self.line.literals) and self.values(text) is not None

    def takes(self, end: ProcessExit, text: str) -> bool:
        """Return whether the end that ``text`` reports belongs to its class."""
        ended = self.line.ended
        return (
            ended is not None and ended.has(end.reason, end.code, end.signal, end.launcher) and not self._is_void(text)
        )

    def _is_void(self, text: str) -> bool:
        return self._unless is not None and self._unless.search(text) is not None

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(self.line.pattern)

    @cached_property
    def _unless(self) -> re.Pattern[str] | None:
        return re.compile(self.line.unless) if self.line.unless else None


class EndWording(KnownLine):
    """Wording of a launcher, and the entries of checks that take its ends."""

    def __init__(self, wording: Wording, takers: Sequence[KnownLine]) -> None:
        super().__init__("", Line(wording.literal))
        self.wording, self.takers = wording, takers


class KnownEnd(KnownLine):
    """End of a process in ``text`` that a launcher reports and a check takes."""

    def __init__(
        self, taker: KnownLine, entry: EndWording, text: str, end: ProcessExit, values: dict[str, str]
    ) -> None:
        super().__init__(taker.check, taker.line, end)
        self._taker, self._entry, self._text, self._values = taker, entry, text, values

    def values(self, text: str) -> dict[str, str] | None:
        """Return the values in ``text``, None where it reports no such end."""
        if text == self._text:
            return dict(self._values)
        found, _ = read([EndWording(self._entry.wording, [self._taker])], text)
        return found[0].values(text) if found else None

    def is_in(self, text: str) -> bool:
        """Return whether ``text`` contains the whole report."""
        return any(literal in text for literal in self._entry.wording.literals) and self.values(text) is not None


def read(entries: Iterable[KnownLine], text: str) -> tuple[list[KnownLine], list[ProcessExit]]:
    """Return the wordings of checks that may be in ``text``, and the ends that launchers report in it."""
    known: list[KnownLine] = []
    ended: list[ProcessExit] = []
    for entry in entries:
        if not isinstance(entry, EndWording):
            known.append(entry)
            continue
        for end, values in entry.wording.read(text):
            ended.append(end)
            known += [KnownEnd(one, entry, text, end, values) for one in entry.takers if one.takes(end, text)]
    return known, ended


class Scanner:
    """Scanner for the wordings of all checks and the caller's ``extra`` literals.

    Every line with a ``background`` literal counts towards the most, repeated or not: jobs that run write many.
    """

    def __init__(
        self, wordings: Mapping[str, Sequence[Line]], extra: Sequence[str] = (), background: Sequence[str] = ()
    ) -> None:
        self._known: dict[bytes, list[KnownLine]] = {literal.encode(): [] for literal in (*extra, *background)}
        every = [KnownLine(check, line) for check, lines in wordings.items() for line in lines]
        for wording in WORDINGS:
            takers = [one for one in every if one.line.ended and wording.reason in one.line.ended.reasons]
            if takers:
                self._add(wording.literals, EndWording(wording, takers))
        for known in every:
            self._add(known.line.literals, known)
        self.literals = tuple(self._known)
        self._entries = [self._known[literal] for literal in self.literals]
        steady = {literal.encode() for literal in background} - {literal.encode() for literal in extra}
        self._background = [literal in steady and not self._known[literal] for literal in self.literals]
        self._candidates: dict[tuple[int, ...], list[KnownLine]] = {}
        self._automaton = BytesAhoCorasick(list(self.literals), implementation=Implementation.DFA)

    def _add(self, literals: Sequence[str], known: KnownLine) -> None:
        for literal in literals:
            self._known.setdefault(literal.encode(), []).append(known)

    def begin(self) -> Search:
        """Begin the search in a file."""
        return Search(self._automaton, [*range(len(self.literals))], [0] * len(self.literals))

    def lines(self, block: bytes, search: Search) -> Iterator[tuple[int, int, list[KnownLine]]]:
        """Yield the bounds of each line that has a literal in it, with the wordings that may match."""
        if search.wasted > WASTED:
            self._narrow(search)
        start, end, redrawn = -1, -1, b"\r" in block
        found: list[int] = []
        numbers, counts = search.numbers, search.counts
        for index, at, _ in search.automaton.find_matches_as_indexes(block, overlapping=True):
            number = numbers[index]
            if counts[number] >= MOST:
                search.wasted += 1
                continue
            if at >= end:
                if found:
                    yield start, end, self._known_by(found)
                    self._count(found, search)
                    found = []
                start, end = _bounds(block, at, redrawn)
            found.append(number)
        if found:
            yield start, end, self._known_by(found)
            self._count(found, search)

    def _known_by(self, numbers: list[int]) -> list[KnownLine]:
        """Return the wordings that may match a line with these literals."""
        key = tuple(numbers)
        known = self._candidates.get(key)
        if known is None:
            entries = {id(one): one for number in numbers for one in self._entries[number]}
            if len(self._candidates) >= MOST:
                self._candidates.clear()
            known = self._candidates[key] = [*entries.values()]
        return known

    def _count(self, numbers: list[int], search: Search) -> None:
        for number in numbers:
            if not search.repeated or self._background[number]:
                search.counts[number] += 1
        search.repeated = False

    def _narrow(self, search: Search) -> None:
        search.numbers = [number for number in search.numbers if search.counts[number] < MOST]
        left = [self.literals[number] for number in search.numbers]
        search.automaton = BytesAhoCorasick(left, implementation=Implementation.DFA)
        search.wasted = 0


def _bounds(block: bytes, at: int, redrawn: bool) -> tuple[int, int]:
    """Return the bounds of the line around ``at``, at most the window apart; ``redrawn``: if \\r ends lines, too."""
    low, high = at - BEFORE if at > BEFORE else 0, at + WINDOW
    start, end = block.rfind(b"\n", low, at), block.find(b"\n", at, high)
    if end < 0:
        end = high if high < len(block) else len(block)
    if redrawn:
        start, shorter = max(start, block.rfind(b"\r", low, at)), block.find(b"\r", at, end)
        end = shorter if shorter >= 0 else end
    return (start + 1 if start >= 0 else low), end
