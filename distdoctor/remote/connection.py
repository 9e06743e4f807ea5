"""Connection to one host of a remote run: its command, its messages, its result."""

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
from distdoctor.remote.transports import ABSENT, HostTarget

SSH_FAILED = 255
NO_COMMAND = (126, 127)
"""Statuses of a shell for a command that it could not start: the host is up, and our line did not reach its end."""
LINES_KEPT = 20
MOST_CALLS = 3
"""Limit of the calls of a host whose sshd, or that of a jump host, refused the login for the moment."""
BUSY = ("kex_exchange_identification", "ssh_exchange_identification")
"""Texts of ssh then (sshd_config(5), MaxStartups: from 10 that are logging in, some are dropped at random)."""


@dataclass
class HostConnection:
    """Connection to one host."""

    target: HostTarget
    order: Mapping[str, Any]
    began: float = 0.0
    heard: float = 0.0
    """Time of the last message."""
    ended: float | None = None
    hello: bool = False
    facts: bytes | None = None
    nothing: str = ""
    """Its own reason for having no facts."""
    sent: bool = False
    """True if all requested files arrived."""
    status: int | None = None
    distdoctor: str = ""
    machine: str = ""
    """Key that it shares with another name of the same machine."""
    said: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    printed: deque[str] = field(default_factory=lambda: deque(maxlen=LINES_KEPT))
    """Output on its stdout before its hello: a login shell's, or the reason for a missing one."""
    outcome: CallOutcome | None = None
    """Result, if it was given up here."""
    stopped: bool = False
    """True if the run was interrupted while it was open: what it did not send by then is nobody's fault."""
    worker: Any = None
    calls: int = 0
    due: float = 0.0
    """Time from which it may be called (again)."""

    @property
    def answered(self) -> bool:
        """Return whether the host carried out its order."""
        return self.facts is not None or bool(self.nothing) or self.sent

    def send(self, message: Mapping[str, Any]) -> None:
        """Send one message."""
        if self.ended is None and self.worker is not None:
            self.worker.write(packed(message))

    def hang_up(self) -> None:
        """Reset it to be called again."""
        self.worker = self.status = self.outcome = None
        self.hello, self.machine, self.distdoctor = False, "", ""
        self.said.clear()
        self.printed.clear()

    def refused_for_now(self) -> bool:
        """Return whether to call again: nothing was started there, as too many were logging in."""
        busy = any(sign in one for one in self.said for sign in BUSY)
        return busy and not self.hello and self.status == SSH_FAILED and self.calls < MOST_CALLS

    def call(self, rank: int) -> HostCall:
        """Return the result."""
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
            # 255 is ssh's own, 137 kubectl's and srun's for a killed process; 2 and 3 are distdoctor's.
            return "failed" if self.status in (1, 2, 3) else "lost"
        if self.status == ABSENT:
            return "absent"
        if self.status in NO_COMMAND:
            return "failed"
        # ssh returns the status of the remote command, and 255 if it could start none (ssh(1), EXIT STATUS).
        return "failed" if self.target.way == "ssh" and self.status not in (None, SSH_FAILED) else "unreached"


# Wire format between the machine that starts a run and ``distdoctor remote`` on each host.
#
# A line is a mark and a JSON object. To the host: the order (its ``task``, ``check`` unless it is ``hang`` or
# ``files``, and its inputs; ``way``, ``env``, ``cwd``), ``go`` with who is ``missing``, ``beat``, ``stop``. From it:
# ``hello``, ``beat``, ``stage``, ``note``, ``facts``; ``nothing``: why there are none; ``file``, ``data``, ``unread``,
# and ``sent`` once there are no more files.


WIRE_MARK = b"@distdoctor "
"""Start of a message; a login shell's output is left out, also before it on the same line, as the title of a
terminal."""
BEAT_SECONDS = 1.0
SILENT_SECONDS = 10.0
"""Silence after which the other end counts as gone: ssh may hold a dead connection for minutes. A connection that ends,
as after a kill, is noticed at once. Not less: TCP retransmits lost packets after 0.2, 0.6, 1.4, 3.0 and 6.2 s (from 0.2
s on, doubled), so that after an outage of 3.1 s nothing arrives until 6.2 s; and a machine without a free processor is
silent, too. Neither may end a run."""
MOST_LINE = 16 << 20
"""Limit of a line that is kept until its end arrives, in bytes: facts of 64 MB become less."""
MOST_BYTES = 2 << 30
"""Limit of all files that are taken from one host."""
MOST_FACTS = 64 << 20
"""Limit of the bytes of facts that are taken from one host."""


def packed(message: Mapping[str, Any]) -> bytes:
    """Return a message as the line that carries it."""
    return WIRE_MARK + json.dumps(message).encode() + b"\n"


def unpacked(line: bytes) -> dict[str, Any] | None:
    """Return the message of a line; None if it is none."""
    _, mark, text = line.partition(WIRE_MARK)
    if not mark:
        return None
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return message if isinstance(message, dict) else None


def deflated(data: bytes) -> str:
    """Return facts as the text of a message."""
    return base64.b64encode(zlib.compress(data, 1)).decode()


def inflated(text: object) -> bytes | None:
    """Return facts from the text of a message; None if they are none, or too large."""
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(str(text), validate=True), MOST_FACTS)
    except (ValueError, zlib.error):
        return None
    return data if unpacker.eof else None


# Command of a connection, as ClusterShell runs it: a list of words, with a limit for lines without an end.


# It warns on stderr of each connection that breaks, which the report covers.
logging.getLogger("ClusterShell").addHandler(logging.NullHandler())


class _Client(ExecClient):  # type: ignore[misc]
    """Command as a list of words, which no shell reads here."""

    def _build_cmd(self) -> tuple[list[str], None]:
        return self.worker.argv, None

    def _readlines(self, sname: str) -> Iterator[bytes]:
        """Yield the complete lines; of one without an end no more is kept than any of ours has."""
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
