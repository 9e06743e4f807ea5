"""Logs in which LSF tells how the job ended above what the job wrote (``bsub -o``): that is put behind it."""

from __future__ import annotations

import re

_BEGIN = b"Sender: LSF System <"
_REPORT = re.compile(
    rb"^Sender: LSF System <(?:[^\n]*\n){1,400}?-{40,}[ \r]*\n(?P<how>(?:[^\n]*\n){1,9}?Resource usage summary:"
    rb"(?:[^\n]*\n){1,40}?The output \(if any\) follows:[^\n]*\n?)",
    re.M,
)
"""``how``: what stands below the lines of the job's script."""
LARGEST = 64 << 20
"""Bytes of a log that is put in order; a larger one is read as it is."""
MOST_LINES = 1_000_000


def begins(head: bytes) -> bool:
    """Whether a log that begins with ``head`` begins with such a report."""
    before, begin, _ = head.partition(_BEGIN)
    return bool(begin) and not before.strip(b"- \r\n")


def in_order(text: bytes) -> tuple[bytes, list[int]]:
    """The lines of ``text`` with what each report tells of the end behind the output that follows it, of several jobs
    one after the other; and at which line of ``text`` each stands."""
    told = [found.span("how") for found in _REPORT.finditer(text)]
    ends = [text.rfind(_BEGIN, 0, start) for start, _ in told] + [len(text)]
    lines, above = list[tuple[int, bytes]](), 0
    for (start, end), until in zip(told, ends[1:], strict=True):
        lines += [*_numbered(text, above, start), *_numbered(text, end, until), *_numbered(text, start, end)]
        above = until
    lines += _numbered(text, above, len(text))
    return b"".join(line + b"\n" for _, line in lines), [number for number, _ in lines]


def _numbered(text: bytes, start: int, end: int) -> list[tuple[int, bytes]]:
    """The lines that begin from ``start`` on and before ``end``, each with its number."""
    lines = text[start:end].split(b"\n")
    return [*enumerate(lines if lines[-1] else lines[:-1], text.count(b"\n", 0, start) + 1)]
