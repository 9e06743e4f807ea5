"""Output on stdout and stderr: nothing from outside acts on a terminal, and a missing reader or an ASCII terminal is no
error."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import select
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import BinaryIO, TextIO

from distdoctor.model.launch_variables import HYDRA, OPENMPI, SLURM_STEP, SLURM_TERMINAL
from distdoctor.model.text import clean

_OURS = re.compile(r"\r\x1b\[K|\x1b\[[0-9;]*m")
"""Sequences of a coloured page and the spinner: restart of the line, and colours."""
_LEFT = (errno.EPIPE, errno.EBADF)
_reserved: list[TextIO] = []
_unread: set[str] = set()
"""Names of the streams whose reader has gone."""
_lost: list[str] = []
"""Errors of writing to stdout, except a reader that left."""


def write(text: str, stream: TextIO | None = None, *, drawn: bool = False) -> None:
    """Write ``text`` to stdout (or ``stream``) and flush; a reader that has gone away (``| head``) is not an error.

    Whatever could act on a terminal is written out; ``drawn`` lets colours and the spinner's own control sequences
    through, for text whose pieces were cleaned before these were put in.
    """
    stream = stream or stdout()
    text = safe(text, drawn=drawn)
    try:
        stream.flush()
        buffer = getattr(stream, "buffer", None)
        if buffer is None:
            stream.write(text)
        else:
            _write_all(buffer, text.encode(stream.encoding or "ascii", "backslashreplace"))
    except (OSError, ValueError) as err:
        # A closed or full stream: there is no way to report it here.
        note_unwritable(err, stream)


def _write_all(buffer: BinaryIO, data: bytes) -> None:
    """Write all of it. Without a buffer (PYTHONUNBUFFERED), a text stream drops what a full disk did not take at once,
    and so does a non-blocking one."""
    left = memoryview(data)
    while left:
        try:
            count = buffer.write(left)
        except BlockingIOError as err:
            count = err.characters_written
        left = left[count or 0 :]
        if left and not count:
            _wait(buffer)
    while True:
        try:
            return buffer.flush()
        except BlockingIOError:
            _wait(buffer)


def _wait(buffer: BinaryIO) -> None:
    ready = select.poll()
    ready.register(buffer.fileno(), select.POLLOUT)
    ready.poll()


def safe(text: str, *, drawn: bool = False) -> str:
    r"""Return ``text`` with its line breaks and, with ``drawn``, its colours; all else is spelled (``\x1b``)."""
    if not drawn:
        return "\n".join(map(clean, text.split("\n")))
    parts, place = [], 0
    for match in _OURS.finditer(text):
        parts += [safe(text[place : match.start()]), match[0]]
        place = match.end()
    return "".join([*parts, safe(text[place:])])


def note_unwritable(err: Exception, stream: TextIO | None = None) -> None:
    """Note that ``stream`` (stdout) cannot be written, and write to nowhere from now on."""
    stream = stream or stdout()
    if stream is stdout() and isinstance(err, OSError) and err.errno not in _LEFT:
        _lost.append(err.strerror or str(err))
    _unread.update(name for name in ("stdout", "stderr") if stream is getattr(sys, name))
    _to_nowhere(stream)


def nobody_reads() -> bool:
    """Return whether the readers of both streams have gone: the ssh or the pipe that started this has ended.

    A file, a terminal and /dev/null have no reader to lose.
    """
    seen = select.poll()
    for number in (1, 2):
        seen.register(number, 0)
    gone = {number for number, events in seen.poll(0) if events & (select.POLLERR | select.POLLHUP)}
    return all(name in _unread or number in gone for number, name in ((1, "stdout"), (2, "stderr")))


def finish() -> bool:
    """Return whether all output on stdout has arrived; if not, print that. Call it last."""
    flush()
    if _lost:
        write(f"distdoctor: cannot write to stdout: {_lost[0]}; what is there is not whole\n", sys.stderr)
    return not _lost


def stdout() -> TextIO:
    """Return the stdout of the report, also while :func:`reserved` gives others another one."""
    return _reserved[0] if _reserved else sys.stdout


@contextlib.contextmanager
def reserved() -> Iterator[None]:
    """Send the body's output to stderr: stdout belongs to the report."""
    _reserved.append(stdout())
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        _reserved.pop()


def ensure_streams() -> None:
    """Open streams that the caller closed (``>&-``) on /dev/null: a socket must not become descriptor 1 or 2."""
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
    """Return whether ``stream`` cannot print the ticks and dots of a report."""
    try:
        "✓✗·–".encode(getattr(stream, "encoding", None) or "ascii")
    except (UnicodeEncodeError, LookupError):
        return True
    return False


def is_terminal(stream: TextIO | None) -> bool:
    """Return whether ``stream`` is a terminal that a person looks at, and no launcher's (mpirun, srun -u), which copies
    it."""
    try:
        person = os.environ.get("TERM") != "dumb" and not _copied(os.environ)
        return stream is not None and stream.isatty() and person
    except ValueError:
        return False


def _copied(env: Mapping[str, str]) -> bool:
    """Return whether a launcher started this process as one of several: its terminal is the launcher's, except for srun
    --pty."""
    step = SLURM_STEP in env and SLURM_TERMINAL not in env
    return step or any(name in env for name in (OPENMPI.rank, HYDRA.local_rank))


def wants_colour(stream: TextIO | None) -> bool:
    """Return whether to colour output on ``stream``: a terminal, and NO_COLOR not set (https://no-color.org)."""
    return is_terminal(stream) and not os.environ.get("NO_COLOR")


def _to_nowhere(stream: TextIO) -> None:
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
    except (OSError, ValueError):
        pass
