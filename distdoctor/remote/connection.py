"""The line to one host of a run that is started from one place: what came over it, and how it went."""

from __future__ import annotations

import base64
import json
import logging
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ClusterShell.Event import EventHandler
from ClusterShell.Worker.Exec import ExecClient, ExecWorker

from distdoctor.model.host_calls import CallOutcome, HostCall
from distdoctor.remote.transports import ABSENT, Target

SSH_FAILED = 255
NO_COMMAND = (126, 127)
"""A shell's statuses for a command that it could not start: it is there, and our line did not get to its end."""
LINES_KEPT = 20
MOST_CALLS = 3
"""How often a host is called whose sshd, or that of the host on the way to it, took no further login just then."""
BUSY = ("kex_exchange_identification", "ssh_exchange_identification")
"""What ssh says then (sshd_config(5), MaxStartups: from 10 that are logging in, some are dropped at random)."""


@dataclass
class Line:
    """The line to one host."""

    target: Target
    order: Mapping[str, Any]
    began: float = 0.0
    heard: float = 0.0
    """When something came last."""
    ended: float | None = None
    hello: bool = False
    facts: bytes | None = None
    nothing: str = ""
    """Why it has no facts to tell, in its own words."""
    sent: bool = False
    """All files that were asked for came."""
    status: int | None = None
    distdoctor: str = ""
    machine: str = ""
    """What it has in common with another that leads to the same one."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    printed: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """What came on its stdout before its hello: what a login shell prints, or the reason why there is none."""
    outcome: CallOutcome | None = None
    """Where it was given up here."""
    stopped: bool = False
    """The run was broken off while it was open: what it did not tell by then is nobody's fault."""
    worker: Any = None
    calls: int = 0
    due: float = 0.0
    """When it may be called (again)."""

    @property
    def answered(self) -> bool:
        """Return whether it did what it was told."""
        return self.facts is not None or bool(self.nothing) or self.sent

    def tell(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        if self.ended is None and self.worker is not None:
            self.worker.write(packed(message))

    def hang_up(self) -> None:
        """As before it was called: it is to be called anew."""
        self.worker = self.status = self.outcome = None
        self.hello, self.machine, self.distdoctor = False, "", ""
        self.said.clear()
        self.printed.clear()

    def refused_for_now(self) -> bool:
        """Return whether to call again: nothing was started there, as too many were logging in."""
        said = any(sign in one for one in self.said for sign in BUSY)
        return said and not self.hello and self.status == SSH_FAILED and self.calls < MOST_CALLS

    def call(self, rank: int) -> HostCall:
        """Return how it went."""
        seconds, outcome = (self.ended or time.monotonic()) - self.began, self._outcome()
        unbegun = outcome == "failed" and not self.hello
        return HostCall(
            self.target.host.name,
            rank,
            self.target.way,
            outcome,
            self.status,
            (*self.said, *(self.printed if unbegun else ())),
            self.distdoctor,
            round(seconds, 3),
        )

    def _outcome(self) -> CallOutcome:
        if self.answered:
            return "told"
        if self.stopped:
            return "stopped"
        if self.outcome is not None:
            return self.outcome
        if self.hello:
            # 255 is ssh's own, 137 kubectl's and srun's for what was killed; 2 and 3 are distdoctor's.
            return "failed" if self.status in (1, 2, 3) else "lost"
        if self.status == ABSENT:
            return "absent"
        if self.status in NO_COMMAND:
            return "failed"
        # ssh gives the status of what it started, and 255 where it could start nothing (ssh(1), EXIT STATUS).
        return "failed" if self.target.way == "ssh" and self.status not in (None, SSH_FAILED) else "unreached"


# The lines between the place that a run is started from and ``distdoctor remote`` on each of its hosts.
#
# A line is a mark and a JSON object. To the host: the order (its ``task``, ``check`` unless it is ``hang`` or
# ``files``,
# and what that needs; ``way``, ``env``, ``cwd``), ``go`` with who is ``missing``, ``beat``, ``stop``. From it:
# ``hello``,
# ``beat``, ``stage``, ``note``, ``facts``; ``nothing``: why there are none; ``file``, ``data``, ``unread``, and
# ``sent``
# once there are no more files.


WIRE_MARK = b"@distdoctor "
"""Begins what is meant for the other end; what a login shell prints is left out, also before it on the same line, as
the title of a terminal."""
BEAT_SECONDS = 1.0
SILENT_SECONDS = 10.0
"""After so much silence the other end is taken for gone: ssh may hold a dead connection for minutes. A connection that
ends, as where a process is killed, is noticed at once. Not less: what the network lost, TCP sends again 0.2, 0.6, 1.4,
3.0 and 6.2 s later (from 0.2 s on, doubled), so that after an outage of 3.1 s nothing comes until 6.2 s; and a place
that gets no processor says nothing either. Neither may end a run."""
MOST_LINE = 16 << 20
"""The longest line that is kept until its end comes, in bytes: facts of 64 MB become less."""
MOST_BYTES = 2 << 30
"""Of all files that are taken from one host."""
MOST_FACTS = 64 << 20
"""The most bytes of facts that are taken from one host."""


def packed(message: Mapping[str, Any]) -> bytes:
    """A message as the line that carries it."""
    return WIRE_MARK + json.dumps(message).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any] | None:
    """The message of a line; None where it is none."""
    _, mark, text = line.partition(WIRE_MARK)
    if not mark:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def deflated(data: bytes) -> str:
    """Facts as they go into a message."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def inflated(text: object) -> bytes | None:
    """Facts out of a message; None where they are none, or too large."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(str(text), validate=True), MOST_FACTS)
    except (ValueError, zlib.error):
        return None
    return data if unpacker.eof else None


# A command that leads to a host, as ClusterShell runs it: a list of words, whose lines are not kept without an end.


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
        if stream is not None and len(stream.rbuf) > MOST_LINE:
            stream.rbuf = b""


class Worker(ExecWorker):  # type: ignore[misc]
    """One command for one host."""

    SHELL_CLASS = _Client

    def __init__(self, node: str, handler: EventHandler, *, stderr: bool, argv: list[str]) -> None:
        self.argv = argv
        ExecWorker.__init__(self, node, handler, None, stderr=stderr, command=" ")
