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
    """Limit of the rendezvous."""
    timeout: float = 60.0
    """Limit of everything after the rendezvous."""
    until: str = STAGES[-1]
    """Last stage to run."""
    try_fixes: bool = True
    ignore: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()
    """Folders that all nodes are to share, by absolute path."""
    save: Path | None = None
    baseline: tuple[NodeFacts, ...] = ()
    """Facts of an earlier run, to report changes since."""
    keep: Callable[[NodeFacts], None] | None = None
    """Receives the facts at the end, beside ``save``."""
    token: str | None = field(default=None, repr=False)
    """Secret shared by the processes of this run; it authenticates every message."""
    command: tuple[str, ...] = ("distdoctor", "check")
    """Command line of this run, for the line printed for the other nodes."""
