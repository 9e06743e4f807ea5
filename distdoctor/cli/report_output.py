"""How a command tells its report: in which format, and to whom."""

from __future__ import annotations

import os
import shlex
import shutil
import socket
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from distdoctor import streams
from distdoctor.cli import ending, report_files
from distdoctor.cli.flags import ReportFlags
from distdoctor.cli.report_files import report_path
from distdoctor.cli.words import one_of, program, torchrun
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean
from distdoctor.render import nagios
from distdoctor.render.exit_status import FAIL_ON, INCOMPLETE, OK, FailOn, exit_status
from distdoctor.render.formats import FORMATS, USUAL
from distdoctor.render.github import SUMMARY_FILE
from distdoctor.render.style import Given, Style


@dataclass(frozen=True)
class Telling:
    """How the report is to be told."""

    output: str = USUAL
    """The format of what goes to stdout."""
    files: tuple[tuple[str, Path], ...] = ()
    """Further ones, each with the file that it goes to."""
    quiet: bool = False
    verbose: int = 0
    fail_on: FailOn = "fail"

    @classmethod
    def from_flags(cls, flags: ReportFlags) -> Telling:
        """The flags made sense of. Raises UsageError."""
        spoken, files = ["json"] if flags.json else [], []
        for word in flags.output or ():
            name, equals, path = word.partition("=")
            one_of("--output", name, tuple(FORMATS))
            if not equals:
                spoken.append(name)
            else:
                files.append((name, report_path(name, path)))
        if len(set(spoken)) > 1:
            raise UsageError(f"{' and '.join(spoken)} cannot both go to stdout: -o {spoken[1]}=FILE")
        fail_on = one_of("--fail-on", flags.fail_on, FAIL_ON)
        if flags.quiet and flags.verbose:
            raise UsageError("-q and -v contradict each other; give one of them")
        output = spoken[0] if spoken else USUAL
        return cls(output, tuple(files), flags.quiet, flags.verbose, cast(FailOn, fail_on))

    @property
    def lines(self) -> bool:
        """Whether every line of a log that is known is to be in the report, and not only what they come to."""
        return self.verbose > 0 or "html" in (self.output, *(name for name, _ in self.files))

    def show(self, report: Report, given: Given | None = None) -> None:
        """Write the report to stdout and to the files. ``given`` are the flags to start this run again with, where it
        can be."""
        stdout = streams.stdout()
        colour = streams.wants_colour(stdout)
        style = Style(
            width=shutil.get_terminal_size().columns if streams.is_terminal(stdout) else 0,
            colour=colour,
            ascii_only=streams.ascii_only(stdout),
            verbose=self.verbose,
            quiet=self.quiet,
            program=shlex.join(program()),
            torchrun=shlex.join(torchrun()),
            given=given,
            here=_here(report) if given is not None else None,
        )
        told = FORMATS[self.output](report, style)
        if not ending.claim():
            return
        report_files.begin()
        streams.write(told, drawn=colour)
        if self.output == "github" and (summary := os.environ.get(SUMMARY_FILE)):
            report_files.append(Path(summary), FORMATS["markdown"](report, style))
        in_file = replace(style, width=0, colour=False, ascii_only=False)
        for name, path in self.files:
            report_files.write(path, FORMATS[name](report, in_file))

    def status(self, report: Report, signal: int | None = None) -> int:
        """The exit status for ``report``; ``signal`` is the number of the signal that ended the run, None without one.

        What reads Nagios' line reads its statuses, too. A file that could not be written is no success.
        """
        if self.output == "nagios":
            return nagios.UNKNOWN if signal is not None else nagios.STATUS[report.verdict]
        status = exit_status(report, self.fail_on, signal)
        return INCOMPLETE if status == OK and report_files.failed() else status

    def again(self, report: Report, restart: int) -> None:
        """One line for a run of the launcher's after the first, whose report is there already; where that is to be one
        document, the line goes to stderr."""
        found = ", ".join(finding.id for finding in report.findings if finding.because_of is None) or "no findings"
        line = f"distdoctor: started again ({restart}): {report.verdict.upper()}: {clean(found)}\n"
        if ending.claim():
            streams.write(line, streams.stdout() if self.output == USUAL else sys.stderr)


def _here(report: Report) -> str | None:
    """The node of the report that this is; None where several have this host's name."""
    names = names_of(report, socket.gethostname())
    return names[0] if len(names) == 1 else None


def names_of(report: Report, hostname: str) -> list[str]:
    """The nodes of the report that are on this host."""
    return [node.name for node in report.nodes if node.hostname == hostname]
