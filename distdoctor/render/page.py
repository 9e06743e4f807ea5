"""A page of text being written: lines of styled pieces, wrapped where a terminal needs it."""

from __future__ import annotations

import io
import textwrap

Piece = tuple[str, str]
"""Text and its style (a rich style such as ``bold red``; empty for none)."""


class Page:
    """Collects lines. ``width`` 0: never wrap."""

    def __init__(self, width: int = 0) -> None:
        self.width = width
        self.lines: list[tuple[Piece, ...]] = []

    def line(self, *pieces: Piece | str) -> None:
        """One line as it is, never wrapped: it may be there to be copied."""
        self.lines.append(tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces))

    def blank(self) -> None:
        """An empty line, unless the last one is."""
        if self.lines and self.lines[-1]:
            self.lines.append(())

    def prose(self, text: str, indent: str = "", hang: str | None = None, style: str = "") -> None:
        """``text``, wrapped to the width with ``hang`` (else ``indent``) before each further line."""
        following = indent if hang is None else hang
        if self.width <= 0:
            self.line((indent + text, style))
            return
        wrapped = textwrap.wrap(
            text,
            max(self.width, len(following) + 20),
            initial_indent=indent,
            subsequent_indent=following,
            break_long_words=False,
            break_on_hyphens=False,
        )
        for line in wrapped or [indent]:
            self.line((line, style))

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
