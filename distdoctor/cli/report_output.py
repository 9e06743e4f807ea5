"""How a command tells its report: in which format, and to whom."""

from __future__ import annotations

import shlex
import shutil
import socket
import sys
from dataclasses import dataclass
from typing import cast

from distdoctor import streams
from distdoctor.cli import ending
from distdoctor.cli.flags import ReportFlags
from distdoctor.cli.words import one_of, program
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean
from distdoctor.render.exit_status import FAIL_ON, FailOn
from distdoctor.render.formats import FORMATS, USUAL
from distdoctor.render.style import Given, Style


@dataclass(frozen=True)
class Telling:
    """How the report is to be told."""

    output: str = USUAL
    quiet: bool = False
    verbose: int = 0
    fail_on: FailOn = "fail"

    @classmethod
    def from_flags(cls, flags: ReportFlags) -> Telling:
        """The flags made sense of. Raises UsageError."""
        output = one_of("--output", "json" if flags.json and flags.output == USUAL else flags.output, tuple(FORMATS))
        fail_on = one_of("--fail-on", flags.fail_on, FAIL_ON)
        if flags.quiet and flags.verbose:
            raise UsageError("-q and -v contradict each other; give one of them")
        return cls(output, flags.quiet, flags.verbose, cast(FailOn, fail_on))

    def show(self, report: Report, given: Given | None = None) -> None:
        """Write the report to stdout. ``given`` are the flags to start this run again with, where it can be."""
        stdout = streams.stdout()
        colour = streams.wants_colour(stdout)
        style = Style(
            width=shutil.get_terminal_size().columns if streams.is_terminal(stdout) else 0,
            colour=colour,
            ascii_only=streams.ascii_only(stdout),
            verbose=self.verbose,
            quiet=self.quiet,
            program=shlex.join(program()),
            given=given,
            here=_here(report) if given is not None else None,
        )
        told = FORMATS[self.output](report, style)
        self._write(told, colour)

    def again(self, report: Report, restart: int) -> None:
        """One line for a run of the launcher's after the first, whose report is there already; where that is to be one
        document, the line goes to stderr."""
        found = ", ".join(finding.id for finding in report.findings if finding.because_of is None) or "no findings"
        line = f"distdoctor: started again ({restart}): {report.verdict.upper()}: {clean(found)}\n"
        if self.output == USUAL:
            self._write(line, False)
        elif ending.claim():
            streams.write(line, sys.stderr)

    def _write(self, told: str, colour: bool) -> None:
        if ending.claim():
            streams.write(told, drawn=colour)


def _here(report: Report) -> str | None:
    """The node of the report that this is; None where several have this host's name."""
    names = names_of(report, socket.gethostname())
    return names[0] if len(names) == 1 else None


def names_of(report: Report, hostname: str) -> list[str]:
    """The nodes of the report that are on this host."""
    return [node.name for node in report.nodes if node.hostname == hostname]
