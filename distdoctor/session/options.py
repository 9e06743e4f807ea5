"""What a run of ``check`` needs to know."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distdoctor.judge.catalog import Check
from distdoctor.model.facts import NodeFacts
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES


@dataclass(frozen=True)
class Options:
    """One run of the doctor. Times in seconds."""

    plan: Plan
    checks: Sequence[Check]
    wait: float = 60.0
    """Bounds the meeting of the nodes."""
    timeout: float = 60.0
    """Bounds everything after the meeting."""
    until: str = STAGES[-1]
    """The last stage to climb."""
    try_fixes: bool = True
    ignore: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Folders that all nodes are to have in common, by their absolute paths."""
    save: Path | None = None
    baseline: tuple[NodeFacts, ...] = ()
    """The facts of an earlier run, to tell what changed since."""
    keep: Callable[[NodeFacts], None] | None = None
    """Gets the facts at the end, beside ``save``."""
    token: str | None = field(default=None, repr=False)
    """What the processes of this run share and nobody else knows; every message is authenticated with it."""
    command: tuple[str, ...] = ("distdoctor", "check")
    """How this was started, for the line printed for the other nodes."""

    def waits_until(self, started: float) -> float:
        """When a process that began at ``started`` and now begins to wait for others stops it; both of the monotonic
        clock, in seconds. That is --wait after its start, and half of --wait from now at least: where the processors
        are taken, the import of torch alone outlasts a short one, and the others come as late, for the same reason."""
        return max(started + self.wait, time.monotonic() + self.wait / 2)
