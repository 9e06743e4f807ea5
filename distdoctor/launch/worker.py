"""A command that leads to a host, as ClusterShell runs it: a list of words, whose lines are not kept without an end."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from ClusterShell.Event import EventHandler
from ClusterShell.Worker.Exec import ExecClient, ExecWorker

from distdoctor.launch import wire

# It warns of each line that breaks, on stderr; what that means for the host is told here.
logging.getLogger("ClusterShell").addHandler(logging.NullHandler())


class _Client(ExecClient):  # type: ignore[misc]
    """A command as a list of words, which no shell reads here."""

    def _build_cmd(self) -> tuple[list[str], None]:
        return self.worker.argv, None

    def _readlines(self, sname: str) -> Iterator[bytes]:
        """The lines that are whole; of one without an end no more is kept than any of ours has."""
        yield from super()._readlines(sname)
        stream = self.streams.get(sname)
        if stream is not None and len(stream.rbuf) > wire.MOST_LINE:
            stream.rbuf = b""


class Worker(ExecWorker):  # type: ignore[misc]
    """One command for one host."""

    SHELL_CLASS = _Client

    def __init__(self, node: str, handler: EventHandler, *, stderr: bool, argv: list[str]) -> None:
        self.argv = argv
        ExecWorker.__init__(self, node, handler, None, stderr=stderr, command=" ")
