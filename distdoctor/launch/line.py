"""The line to one host of a run that is started from one place: what came over it, and how it went."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from distdoctor.launch.ways import ABSENT, Target
from distdoctor.launch.wire import packed
from distdoctor.model.calls import CallOutcome, HostCall

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
        """Whether it did what it was told."""
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
        """Whether to call again: nothing was started there, as too many were logging in."""
        said = any(sign in one for one in self.said for sign in BUSY)
        return said and not self.hello and self.status == SSH_FAILED and self.calls < MOST_CALLS

    def call(self, rank: int) -> HostCall:
        """How it went."""
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
