"""A page of text being written: lines of styled pieces, wrapped at words where a terminal needs it."""

from __future__ import annotations

import io
import re
from itertools import groupby

from distdoctor.model.text import clean

_WORD = re.compile(r"\s*((?:`[^`\n]*`|\S)+)")
"""A word, or a command between backticks, which is there to be copied; with the space before it."""

Piece = tuple[str, str]
"""Text and its style (a rich style such as ``bold red``; empty for none)."""


class Page:
    """Collects lines. ``width`` 0: never wrap."""

    def __init__(self, width: int = 0) -> None:
        self.width = width
        self.lines: list[tuple[Piece, ...]] = []

    def line(self, *pieces: Piece | str) -> None:
        """One line as it is, never wrapped: it may be there to be copied."""
        self.lines.append(_styled(pieces))

    def blank(self) -> None:
        """An empty line, unless the last one is."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def prose(self, *pieces: Piece | str, hang: int = 0) -> None:
        """A line that is wrapped between words, each further line set in by ``hang`` columns."""
        styled = _styled(pieces)
        if self.width <= 0:
            self.lines.append(styled)
        else:
            self.lines += wrapped(styled, max(self.width, hang + 20), hang)

    def plain(self) -> str:
        """The page without styles."""
        return "".join("".join(text for text, _ in line).rstrip() + "\n" for line in self.lines)

    def coloured(self) -> str:
        """The page with ANSI colours."""
        from rich.console import Console
        from rich.text import Text

        out = io.StringIO()
        console = Console(
            file=out, force_terminal=True, color_system="standard", no_color=False, width=10_000, legacy_windows=False
        )
        for line in self.lines:
            # Text, never markup: markup eats "[rank0]".
            console.print(Text.assemble(*line), soft_wrap=True, highlight=False, markup=False, emoji=False)
        return out.getvalue()


def wrapped(pieces: tuple[Piece, ...], width: int, hang: int) -> list[tuple[Piece, ...]]:
    """``pieces`` as lines of at most ``width`` columns, broken between words only; a longer word stays whole.

    What stands between backticks counts as a word.
    """
    text = "".join(piece for piece, _ in pieces)
    styles = [style for piece, style in pieces for _ in piece]
    spans: list[tuple[int, int]] = []
    for word in _WORD.finditer(text):
        indent = hang if len(spans) > 1 else 0
        if spans and indent + word.end() - spans[-1][0] <= width:
            spans[-1] = (spans[-1][0], word.end())
        else:
            # The first word keeps what sets the line in.
            spans.append((word.start(1) if spans else 0, word.end()))
    lines = []
    for number, (begin, end) in enumerate(spans):
        runs = groupby(range(begin, end), key=lambda place: styles[place])
        made = [("".join(text[i] for i in places), style) for style, places in runs]
        lines.append(((" " * hang, ""), *made) if number else tuple(made))
    return lines or [pieces]


def _styled(pieces: tuple[Piece | str, ...]) -> tuple[Piece, ...]:
    """The pieces as they may be shown. All of a page goes through here: nothing in it acts on a terminal."""
    return tuple((clean(piece), "") if isinstance(piece, str) else (clean(piece[0]), piece[1]) for piece in pieces)


# The colours, by severity, status and verdict.


STYLES = {
    "pass": "green",
    "warn": "yellow",
    "fail": "bold red",
    "skip": "dim",
    "error": "bold red",
    "info": "cyan",
    "incomplete": "bold yellow",
}
