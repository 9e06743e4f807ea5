"""Repetitions of known lines: a line that equals earlier ones but for numbers and addresses is counted, not read.

Two lines are equal if their speaker is, and the ranks that they name, and the traceback that they belong to. A line
repeats earlier ones if the last of these with the same numbers all showed the same, or if many with other numbers did:
many of the same speaker, or one of it and many of other speakers.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from distdoctor.logs import attempts, dialects, tracebacks
from distdoctor.logs.attribution import split
from distdoctor.logs.matches import Known
from distdoctor.logs.rank_comparison import HOST

ALIKE = 3
"""Equal lines, numbers included, that must have shown the same before the next one is only counted."""
MANY = 16
"""The same for lines that differ in numbers, or are of several speakers."""
MOST = 50_000
"""Most kinds of lines that are remembered."""
LINES = 120
"""Most lines of a traceback that are compared."""
T = TypeVar("T")
_DIGITS = bytes.maketrans(b"123456789", b"000000000")
_HEX = re.compile(rb"0x[0-9a-fA-F]+")
_LONG = re.compile(rb"\d{5,}|\d+\.\d+")
"""Number that is no rank, exit code or error code."""
_TIME = re.compile(
    r"\d{4}[-/]\d\d[-/]\d\d|\d{1,2}:\d\d:\d\d(?:[.,]\d+)?|\[\s*\d+\.\d+\]|(?<=[IWEF])[01]\d[0-3]\d (?=\d)"
    r"|(?<=[A-Z][a-z]{2}) {1,2}\d{1,2} (?=\d)|\b\d\d-\d\d (?=\d\d:)"
)
_RANK = re.compile(r"rank\W{0,3}\d{1,6}", re.I)
_STATEFUL = (*attempts.LITERALS, *dialects.LITERALS, "Failures:", HOST, " (local_rank: ", "will restart worker group")
"""Text in lines of launchers whose order and number counts."""
_NUMBERED = re.compile(r"\[\d{1,6}\]:$")
_HEAD = tracebacks.HEAD.encode()
_NUMBERS = re.compile(rb"\b(?:[0a-f]*0[0a-f]*)\b|0+")
"""Number whose digits are masked, or a hexadecimal one."""


class Line(NamedTuple):
    """Identity of a line."""

    kind: int
    """Its text without numbers, and the traceback that it belongs to."""
    own: int
    """The same with its speaker and the ranks that it names."""
    text: bytes
    """Its text with the numbers."""


@dataclass
class _Shape:
    """Line whose digits are masked."""

    kind: bytes = b""
    """The same for lines that differ only in numbers, of any length."""
    identity: tuple[slice, ...] = ()
    """Parts that identify the speaker and the ranks that it names."""
    text: int = 0
    """Offset of the text behind the prefix."""
    below: bool = False
    """True for the head of a traceback."""
    above: bool = False
    """True for the end of one."""
    counted: bool = True
    """False if every line of this kind is read."""


@dataclass(frozen=True)
class Shown:
    """Matches that one line showed."""

    matches: tuple[Known, ...]
    numbered: bool = False
    """True if a line with other numbers is none of its repetitions."""

    @property
    def of_anybody(self) -> Hashable:
        """Return the same without its speaker."""
        return tuple(known.what for known in self.matches)


@dataclass
class _Outcome(Generic[T]):
    """Result of reading equal lines."""

    shown: T | None
    times: int = 1
    varies: bool = False

    @property
    def is_sure(self) -> bool:
        """Return whether many lines showed the same, and none anything else."""
        return self.times >= MANY and not self.varies


class Repeats:
    """Lines of one file that were read, by what identifies them."""

    def __init__(self) -> None:
        self._shapes: dict[bytes, _Shape] = {}
        self._alike: dict[int, _Outcome[Shown]] = {}
        self._many: dict[int, _Outcome[Shown]] = {}
        self._kinds: dict[int, _Outcome[Hashable]] = {}
        """By the kind of line, for all speakers together."""
        self.end = 0
        """Offset of the exception's own line, if the last line was the head of a traceback that it compared."""

    def line(self, block: bytes, start: int, end: int) -> Line | None:
        """Return what identifies the line in ``block``; None if it must be read."""
        raw = block[start:end]
        if not raw.isascii() or b"&" in raw:
            return None
        masked = _masked(raw)
        shape = self._shapes.get(masked)
        if shape is None:
            if len(self._shapes) >= MOST:
                self._shapes.clear()
            shape = self._shapes[masked] = _shape(raw.decode(), masked)
        if not shape.counted:
            return None
        context, self.end = b"", 0
        if shape.below:
            traceback = _below(block, start, end, masked[: shape.text])
            if traceback is None:
                return None
            context, self.end = traceback
        elif shape.above:
            context = _above(block, start, masked[: shape.text])
        kind = hash((shape.kind, context))
        return Line(kind, hash((kind, *[raw[part] for part in shape.identity])), raw[shape.text :])

    def known(self, line: Line) -> Shown | None:
        """Return what the line shows by all equal ones before it; None if it must be read."""
        many = self._many.get(line.own)
        if many is None:
            return None
        if not many.varies and (many.times >= MANY or self._kinds[line.kind].is_sure):
            return many.shown
        alike = self._alike.get(_exact(line)) or self._alike.get(hash((line.own, line.text)))
        return alike.shown if alike is not None and alike.times >= ALIKE else None

    def learn(self, line: Line, shown: Shown | None) -> None:
        """Note what a line shows that was read; None if it depends on more than the line."""
        if len(self._many) >= MOST or len(self._alike) >= MOST:
            self.forget()
        if shown is not None and shown.numbered:
            _note(self._alike, hash((line.own, line.text)), shown)
            shown = None
        else:
            _note(self._alike, _exact(line), shown)
        _note(self._many, line.own, shown)
        _note(self._kinds, line.kind, shown and shown.of_anybody)

    def forget(self) -> None:
        """Forget all lines, as where a new attempt of the job begins."""
        self._alike.clear()
        self._many.clear()
        self._kinds.clear()


def _note(outcomes: dict[int, _Outcome[T]], one: int, shown: T | None) -> None:
    known = outcomes.get(one)
    if known is None:
        outcomes[one] = _Outcome(shown, varies=shown is None)
    else:
        same = known.shown == shown
        known.times, known.varies = known.times + 1 if same else 1, known.varies or not same
        known.shown = shown  # also if it is equal: the match may have been kept again


def _masked(raw: bytes) -> bytes:
    if b"0x" in raw:
        raw = _HEX.sub(lambda found: b"0" * len(found[0]), raw)
    return raw.translate(_DIGITS)


def _exact(line: Line) -> int:
    return hash((line.own, _LONG.sub(b"0", line.text)))


def _shape(line: str, masked: bytes) -> _Shape:
    text = split(line.rstrip())[1]
    start = len(line.rstrip()) - len(text)
    if any(literal in text for literal in _STATEFUL) or _NUMBERED.match(text):
        return _Shape(counted=False)
    identity, at = list[slice](), 0
    for found in _TIME.finditer(line, 0, start):
        identity.append(slice(at, found.start()))
        at = found.end()
    identity.append(slice(at, start))
    identity += [slice(*found.span()) for found in _RANK.finditer(line, start)]
    raised = tracebacks.exception(text) is not None
    return _Shape(_NUMBERS.sub(b"0", masked), tuple(identity), start, tracebacks.HEAD in text, raised)


def _below(block: bytes, start: int, end: int, prefix: bytes) -> tuple[bytes, int] | None:
    """Return the traceback whose head ends at ``end`` with the line above it, and the offset of its last line; None if
    others write between its lines."""
    at = end
    for _ in range(LINES):
        line = block.find(b"\n", at) + 1
        indented = block[line : line + len(prefix) + 2]
        if not line or not indented or indented[:-2].translate(_DIGITS) != prefix:
            return None
        at = block.find(b"\n", line)
        if at < 0:
            return None
        if indented[-2:] != b"  ":
            return block[_line_above(block, start) : at].translate(_DIGITS), line
    return None


def _above(block: bytes, start: int, prefix: bytes) -> bytes:
    """Return the traceback that ends at ``start``, and the line above it; nothing if there is none."""
    before = block.rfind(b"\n", 0, max(start - 1, 0)) + 1
    indented = block[before : before + len(prefix) + 2]
    if indented[:-2].translate(_DIGITS) != prefix or indented[-2:] != b"  ":
        return b""
    head = block.rfind(_HEAD, max(start - tracebacks.BACK, 0), start)
    return block[_line_above(block, head) : start].translate(_DIGITS) if head >= 0 else b""


def _line_above(block: bytes, at: int) -> int:
    """Return where the last line with text begins above the line at ``at``."""
    line = max(block.rfind(b"\n", 0, at), 0)
    while line > 0 and block[line - 1 : line] in b"\r\n ":
        line -= 1
    return block.rfind(b"\n", 0, line) + 1
