"""Settings of a renderer: what it gets in addition to the report."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass

Given = Sequence[tuple[str, str | None]]
"""The flags that a run was started with, each with its value, None for a flag that takes none."""


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

    def explain(self, check: str) -> str:
        """Return the command that prints the page of a check, also of a site's own."""
        sites = (f" {flag} {shlex.quote(value or '')}" for flag, value in self.given or () if flag == "--checks")
        return f"{self.program} explain {check}{''.join(sites)}"


PLAIN = Style()
"""For a file or a pipe, with all that is told unasked."""
