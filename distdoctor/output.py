"""Writing to stdout and stderr without ever failing because nobody reads any more, or because the terminal is ASCII."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TextIO


def write(text: str, stream: TextIO | None = None) -> None:
    """Write ``text`` to stdout (or ``stream``) and flush; a reader that has gone away (``| head``) is not an error."""
    stream = stream or sys.stdout
    try:
        stream.write(text)
        stream.flush()
    except UnicodeEncodeError:
        encoding = stream.encoding or "ascii"
        write(text.encode(encoding, "backslashreplace").decode(encoding), stream)
    except BrokenPipeError:
        _to_nowhere(stream)
    except (OSError, ValueError):
        # A closed or full stream: there is nobody left to tell.
        _to_nowhere(stream)


def ensure_streams() -> None:
    """Open what the caller closed (``>&-``) on /dev/null: a socket must not become descriptor 1 or 2."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)  # the lowest free number, which is this one
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w"))  # noqa: SIM115 (stays open)


def flush() -> None:
    """Flush both streams, so that the interpreter's own flush at exit cannot fail."""
    for stream in (sys.stdout, sys.stderr):
        write("", stream)


def ascii_only(stream: TextIO | None) -> bool:
    """Whether ``stream`` cannot print the ticks and dots of a report."""
    try:
        "✓✗·–".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def is_terminal(stream: TextIO | None) -> bool:
    """Whether ``stream`` is a terminal that a person looks at."""
    try:
        return stream is not None and stream.isatty() and os.environ.get("TERM") != "dumb"
    except ValueError:
        return False


def wants_colour(stream: TextIO | None) -> bool:
    """Whether to colour what is written to ``stream``: a terminal, and NO_COLOR not set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def _to_nowhere(stream: TextIO) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
