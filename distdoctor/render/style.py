"""Settings of a renderer: what it gets in addition to the report."""

from __future__ import annotations

import shlex
from collections.abc import Collection, Sequence
from dataclasses import dataclass

Given = Sequence[tuple[str, str | None]]
"""The flags that a run was started with, each with its value, None for a flag that takes none."""
LINE = ("--", None)
"""Among the flags of a run: what follows is the start line of an engine, word by word."""


@dataclass(frozen=True)
class Style:
    """Settings of a renderer; a format uses those that it can show."""

    width: int = 0
    """Columns to wrap prose at, 0 for none; commands are never wrapped."""
    colour: bool = False
    ascii_only: bool = False
    verbose: int = 0
    """More than 0: all evidence, where the plan came from, and the values seen where all is well."""
    quiet: bool = False
    """Only the verdict and the root causes with their fixes."""
    program: str = "distdoctor"
    """Command that starts distdoctor here: ``python3 -m distdoctor`` works where ``distdoctor`` is not on PATH."""
    torchrun: str = "torchrun"
    """Command that starts torchrun here."""
    given: Given | None = None
    """The flags of this run; None where the report is on saved facts, which were gathered by another."""
    here: str | None = None
    """The name of the node that the report is printed on, where that is known."""
    checks: Sequence[str] = ()
    """The folders of ``--checks``."""
    site_checks: Sequence[str] = ()
    """The ids of the checks in these folders."""
    unknown_checks: Collection[str] = ()
    """The checks of the report that this process does not have: only node 0 was given their folder."""

    def explain(self, check: str, node0: str = "node 0") -> str:
        """Return the command that prints the page of a check, also of a site's own."""
        if check in self.unknown_checks:
            return f"{self.program} explain {check} --checks DIR    (on {node0}, with its DIR of --checks)"
        return " ".join([self.program, "explain", check, *(f"--checks {shlex.quote(one)}" for one in self.checks)])


PLAIN = Style()
"""Style for a file or a pipe, with everything that is printed by default."""
