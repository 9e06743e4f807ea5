"""Output of a report: its format, its files, torchrun's error file."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import socket
import stat
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

from distdoctor import streams
from distdoctor.cli import ending
from distdoctor.cli.options import ReportFlags
from distdoctor.cli.program import program, require_one_of, torchrun
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_variables import ERROR_FILE
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.render import nagios
from distdoctor.render.exit_status import FAIL_ON, INCOMPLETE, OK, FailOn, exit_status
from distdoctor.render.formats import FORMATS, USUAL
from distdoctor.render.github import SUMMARY_FILE
from distdoctor.render.style import Given, Style


@dataclass(frozen=True)
class Telling:
    """Output flags of a report."""

    output: str = USUAL
    """Format of stdout."""
    files: tuple[tuple[str, Path], ...] = ()
    """Further formats, each with its file."""
    quiet: bool = False
    verbose: int = 0
    fail_on: FailOn = "fail"
    checks: tuple[Path, ...] = ()
    """Folders of ``--checks``."""

    @classmethod
    def from_flags(cls, flags: ReportFlags) -> Telling:
        """Return the parsed flags. Raises UsageError."""
        spoken, files = ["json"] if flags.json else [], []
        for word in flags.output or ():
            name, equals, path = word.partition("=")
            require_one_of("--output", name, tuple(FORMATS))
            if not equals:
                spoken.append(name)
            else:
                files.append((name, report_path(name, path)))
        if len(set(spoken)) > 1:
            raise UsageError(f"{' and '.join(spoken)} cannot both go to stdout: -o {spoken[1]}=FILE")
        fail_on = require_one_of("--fail-on", flags.fail_on, FAIL_ON)
        if flags.quiet and flags.verbose:
            raise UsageError("-q and -v contradict each other; give one of them")
        output = spoken[0] if spoken else USUAL
        return cls(output, tuple(files), flags.quiet, flags.verbose, cast(FailOn, fail_on), tuple(flags.checks or ()))

    @property
    def lines(self) -> bool:
        """Return whether every known line of a log is to be in the report, and not only the conclusions."""
        return self.verbose > 0 or "html" in (self.output, *(name for name, _ in self.files))

    def show(self, report: Report, given: Given | None = None) -> None:
        """Write the report to stdout and to the files. ``given``: flags that start this run again, if that is
        possible."""
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
        style = with_checks(style, self.checks, report)
        output = FORMATS[self.output](report, style)
        if not ending.claim():
            return
        begin_report_file()
        streams.write(output, drawn=colour)
        if self.output == "github" and (summary := os.environ.get(SUMMARY_FILE)):
            append_report(Path(summary), FORMATS["markdown"](report, style))
        in_file = replace(style, width=0, colour=False, ascii_only=False)
        for name, path in self.files:
            write_report(path, FORMATS[name](report, in_file))

    def status(self, report: Report, signal: int | None = None) -> int:
        """Return the exit status for ``report``; ``signal`` is the number of the signal that ended the run, None
        without one.

        A reader of Nagios' line reads its statuses, too. A file that could not be written is no success.
        """
        if self.output == "nagios":
            return nagios.UNKNOWN if signal is not None else nagios.STATUS[report.verdict]
        status = exit_status(report, self.fail_on, signal)
        return INCOMPLETE if status == OK and report_file_failed() else status

    def again(self, report: Report, restart: int) -> None:
        """Print one line for a launcher's restart after the first, whose report is there already; on stderr, if stdout
        is to be one document."""
        ids = ", ".join(finding.id for finding in report.findings if finding.because_of is None) or "no findings"
        line = f"distdoctor: started again ({restart}): {report.verdict.upper()}: {clean(ids)}\n"
        if ending.claim():
            streams.write(line, streams.stdout() if self.output == USUAL else sys.stderr)


def with_checks(style: Style, folders: Sequence[Path], report: Report) -> Style:
    """Return the style for a command with these folders of ``--checks``."""
    from distdoctor.judge.catalog import built_in_folder, ids_in  # slow, and loaded wherever there is a report

    site_checks = ids_in(folders)
    unknown = {finding.check for finding in report.findings} - {*site_checks, *ids_in([built_in_folder()])}
    return replace(style, checks=tuple(map(str, folders)), site_checks=site_checks, unknown_checks=unknown)


def _here(report: Report) -> str | None:
    """Return the node of the report that this is; None if several have this host's name."""
    names = names_of(report, socket.gethostname())
    return names[0] if len(names) == 1 else None


def names_of(report: Report, hostname: str) -> list[str]:
    """Return the nodes of the report that are on this host."""
    return [node.name for node in report.nodes if node.hostname == hostname]


# Files of reports: written whole or not at all, with a reported error.


MODE = 0o644
"""Mode for a metrics collector and a web server, which run as other users."""
_failed: list[Path] = []


def begin_report_file() -> None:
    """Start a new report: nothing has failed yet."""
    _failed.clear()


def report_path(name: str, path: str) -> Path:
    """Return the file for a report of format ``name``. Raises UsageError if it is not writable."""
    file = Path(path)
    if not path or file.is_dir():
        raise UsageError(f"--output {name}={path}: needs the name of a file")
    if file.is_symlink() and file.absolute().parts[1] in ("dev", "proc"):
        # /dev/stdout: a new file in its place would replace it for all.
        raise UsageError(f"--output {name}={path}: is no plain file; --output {name} alone writes to stdout")
    for part in (file.absolute(), *file.absolute().parents):
        if _planted(part):
            raise UsageError(f"--output {name}={path}: {part} is a link that another user left in a folder for all")
    file = Path(os.path.realpath(file))  # a link stays one
    if not file.parent.is_dir():
        raise UsageError(f"--output {name}={path}: there is no folder {file.parent}")
    if file.exists() and not file.is_file():
        raise UsageError(f"--output {name}={path}: is no plain file")
    return file


def _planted(path: Path) -> bool:
    """Return whether the kernel would not follow this link (fs.protected_symlinks in its sysctl/fs.rst), which
    replacing the file would bypass."""
    if not path.is_symlink():
        return False
    folder, link = path.parent.stat(), path.lstat()
    for_all = stat.S_ISVTX | stat.S_IWOTH
    return folder.st_mode & for_all == for_all and link.st_uid not in (os.geteuid(), folder.st_uid)


def write_report(path: Path, text: str) -> None:
    """Replace the file with ``text``: a reader sees the old one or the new one, whole."""
    try:
        number, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace") as file:
                file.write(text)
                os.fchmod(file.fileno(), MODE & ~_umask())
            os.replace(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as err:
        _say(path, err)


def append_report(path: Path, text: str) -> None:
    try:
        with path.open("a", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
    except OSError as err:
        _say(path, err)


def report_file_failed() -> bool:
    """Return whether a file could not be written."""
    return bool(_failed)


def _say(path: Path, err: OSError) -> None:
    _failed.append(path)
    streams.write(f"distdoctor: {clean(path)}: could not be written: {err.strerror}\n", sys.stderr)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


# Root causes in torchrun's error file: its table of failures then names them, not only an exit status.
#
# In the form in which torch writes it (torch/distributed/elastic/multiprocessing/errors/error_handler.py,
# record_exception), which the agent reads (errors/__init__.py, ProcessFailure).


VARIABLE = ERROR_FILE


def leave_cause(env: Mapping[str, str], report: Report) -> None:
    """Write the root causes of ``report`` to the agent's error file; without one, or if it is not writable, nothing."""
    path = env.get(VARIABLE)
    if not path:
        return
    roots = [f for f in report.findings if f.because_of is None and f.severity == "fail"]
    roots = roots or [f for f in report.findings if f.because_of is None]
    causes = [f"{finding.check}: {finding.summary}" for finding in roots] or list(report.notes[:1])
    text = f"distdoctor: {clean(' '.join(causes) or f'the check is {report.verdict}')}"
    # The table prints the call stack and not the message (errors/__init__.py, _format_failure).
    message = {"message": text, "extraInfo": {"py_callstack": text, "timestamp": str(int(time.time()))}}
    try:
        with open(path, "w") as file:
            json.dump({"message": message}, file)
    except OSError:
        return
