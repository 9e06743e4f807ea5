"""Request for one run of ``check``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from distdoctor.judge.catalog import Check
from distdoctor.model.facts import NodeFacts
from distdoctor.model.plan import Plan
from distdoctor.model.stages import STAGES


@dataclass(frozen=True)
class Options:
    """Flags of one run, resolved. Times in seconds.

    A run takes the plan from here once; afterwards ``RunContext.plan`` is the only one.
    """

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
