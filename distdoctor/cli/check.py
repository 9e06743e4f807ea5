"""What the commands do, once their flags are read. All of it can be called with values, without a command line."""

from __future__ import annotations

import math
import os
import shlex
import shutil
import socket
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from distdoctor import interrupts, streams
from distdoctor.cli import ending
from distdoctor.cli.argv import did_you_mean
from distdoctor.judge.catalog import BadCheck, Check, load
from distdoctor.launch.flags import Flags
from distdoctor.launch.resolve import resolve
from distdoctor.model.errors import UsageError
from distdoctor.model.report import Report
from distdoctor.model.sanitize import encodable, environment, without_userinfo
from distdoctor.model.stages import STAGES
from distdoctor.render.exit_status import FAIL_ON, INCOMPLETE, OK, FailOn, exit_status

if TYPE_CHECKING:
    from distdoctor.model.observer import Observer
    from distdoctor.render.next_step import Given
    from distdoctor.session.options import Options
    from distdoctor.session.session import Outcome


WAIT_SECONDS = 60.0
WAIT_FOR_A_PERSON = 600.0
"""How long node 0 waits where it has just asked a person at a terminal to start the others."""

Runner = Callable[["Options", "Observer", Callable[[Report], None]], "Outcome"]


@dataclass(frozen=True)
class Telling:
    """How the report is to be told."""

    output: Literal["text", "json"] = "text"
    quiet: bool = False
    verbose: int = 0
    fail_on: FailOn = "fail"

    @classmethod
    def from_flags(cls, output_format: str, json: bool, quiet: bool, verbose: int, fail_on: str) -> Telling:
        """The flags made sense of. Raises UsageError."""
        output_format = _one_of(
            "--output", "json" if json and output_format == "text" else output_format, ("text", "json")
        )
        fail_on = _one_of("--fail-on", fail_on, FAIL_ON)
        if quiet and verbose:
            raise UsageError("-q and -v contradict each other; give one of them")
        return cls(cast(Literal["text", "json"], output_format), quiet, verbose, cast(FailOn, fail_on))

    def show(self, report: Report, given: Given | None = None) -> None:
        """Write the report to stdout. ``given`` are the flags to start this run again with, where it can be."""
        if self.output == "json":
            from distdoctor.render import json

            told = json.render(report)
        else:
            from distdoctor.render import text

            told = text.render(
                report,
                width=shutil.get_terminal_size().columns if streams.is_terminal(streams.stdout()) else 0,
                colour=streams.wants_colour(streams.stdout()),
                ascii_only=streams.ascii_only(streams.stdout()),
                verbose=self.verbose,
                quiet=self.quiet,
                program=shlex.join(_program()),
                given=given,
                here=_here(report) if given is not None else None,
            )
        if ending.claim():
            streams.write(told, drawn=streams.wants_colour(streams.stdout()))


@dataclass(frozen=True)
class CheckCommand:
    """``distdoctor check`` with its flags."""

    flags: Flags
    telling: Telling
    wait: float | None = None
    timeout: float = 60.0
    until: str = STAGES[-1]
    try_fixes: bool = True
    ignore: Sequence[str] = ()
    folders: Sequence[Path] = ()
    save: str | None = None
    """With a slash at its end it is a folder, made where it is missing."""
    token: str | None = field(default=None, repr=False)

    def run(self, runner: Runner | None = None) -> int:
        """Check, tell, and return the exit status. Raises UsageError."""
        options = self.options()
        observer = self._observer(options)

        def tell(report: Report) -> None:
            observer.close()
            self.telling.show(report, self.given())

        try:
            outcome = (runner or _real_runner())(options, observer, tell)
        finally:
            observer.close()
        status = exit_status(outcome.report, self.telling.fail_on, outcome.exit_signal)
        return INCOMPLETE if status == OK and outcome.unsaved else status

    def given(self) -> list[tuple[str, str | None]]:
        """The flags that matter when this is run again, each with its value, None for one that takes none."""
        flags = told_flags(self.flags)
        launch = {field.name: getattr(flags, field.name) for field in fields(flags)}
        once: dict[str, object] = {"wait": self.wait, "save": self.save}
        for name in ("timeout", "until"):
            once[name] = value if (value := getattr(self, name)) != getattr(CheckCommand, name) else None
        once["fail_on"] = None if self.telling.fail_on == Telling.fail_on else self.telling.fail_on
        pairs = [
            (name, value) for name, value in {**launch, **once}.items() if value is not None and value is not False
        ]
        pairs += [("ignore", value) for value in self.ignore] + [("checks", value) for value in self.folders]
        found = [(f"--{name.replace('_', '-')}", None if value is True else _text(value)) for name, value in pairs]
        return [*found, *([] if self.try_fixes else [("--no-try-fixes", None)])]

    def options(self) -> Options:
        """The run these flags ask for. Raises UsageError."""
        from distdoctor.probes.devices import count_cpus, count_gpus
        from distdoctor.session.options import Options

        for flag, seconds in (("--wait", self.wait), ("--timeout", self.timeout)):
            if seconds is not None and not (0 < seconds <= 86_400 and math.isfinite(seconds)):
                raise UsageError(f"{flag} {seconds:g} is not a number of seconds between 0 and 86400")
        until = _one_of("--until", self.until, STAGES)
        save = save_path(self.save) if self.save is not None else None
        checks = load_checks(self.folders)
        plan = resolve(told_flags(self.flags), environment(os.environ), count_gpus, count_cpus)
        wait = self.wait
        if wait is None:
            wait = WAIT_FOR_A_PERSON if plan.announce and streams.is_terminal(sys.stderr) else WAIT_SECONDS
        return Options(
            plan=plan,
            checks=checks,
            wait=wait,
            timeout=self.timeout,
            until=until,
            try_fixes=self.try_fixes,
            ignore=known_ids(self.ignore, checks),
            save=save,
            command=(*_program(), "check"),
            token=self._token(),
        )

    def _token(self) -> str | None:
        """What the nodes of this run share. Raises UsageError for one that can be guessed."""
        from distdoctor.session.seal import LEAST_LENGTH, VARIABLE

        given = self.token if self.token is not None else os.environ.get(VARIABLE) or None
        if given is not None and len(given) < LEAST_LENGTH:
            source = VARIABLE if self.token is None else "--token"
            raise UsageError(f"{source} is too short to keep others out: {LEAST_LENGTH} characters at least")
        return given

    def _observer(self, options: Options) -> Observer:
        from distdoctor.render.progress import observer_for

        return observer_for(
            options.plan,
            quiet=self.telling.quiet,
            terminal=streams.is_terminal(sys.stderr),
            ascii_only=streams.ascii_only(sys.stderr),
            colour=streams.wants_colour(sys.stderr),
            write=lambda text: streams.write(text, sys.stderr, drawn=True),
        )


def save_path(text: str) -> Path:
    """Where --save puts the facts. Raises UsageError where it cannot."""
    from distdoctor.model.facts.files import unfit

    path = Path(text)
    if text.endswith("/") and path.parent.is_dir():
        try:
            path.mkdir(exist_ok=True)
        except OSError as err:
            raise UsageError(f"--save {text}: the folder cannot be made: {err.strerror}") from None
    if not path.is_dir():
        if text.endswith("/") or not path.parent.is_dir():
            raise UsageError(f"--save {text}: there is no folder {path.parent}")
        if not os.access(path.parent, os.W_OK):
            raise UsageError(f"--save {text}: the folder {path.parent} cannot be written")
        if why_not := unfit(path):
            raise UsageError(f"--save {text}: it {why_not}")
    return path


def diagnose_files(files: Iterable[Path], telling: Telling, ignore: Sequence[str], folders: Sequence[Path]) -> int:
    """``distdoctor diagnose``: judge saved facts and tell. Raises UsageError."""
    from distdoctor.judge.saved import diagnose
    from distdoctor.model.facts.files import BadFile, read

    checks = load_checks(folders)
    patterns = known_ids(ignore, checks)
    try:
        report = diagnose(read(files), checks, patterns)
    except BadFile as err:
        raise UsageError(str(err)) from None
    interrupts.hold()  # half a report helps nobody
    telling.show(report)
    return exit_status(report, telling.fail_on)


def load_checks(folders: Sequence[Path]) -> tuple[Check, ...]:
    """The built-in checks and those of the folders. Raises UsageError."""
    try:
        return load(folders)
    except BadCheck as err:
        raise UsageError(str(err)) from None


def known_ids(ids: Iterable[str], checks: Sequence[Check]) -> tuple[str, ...]:
    """``ids`` (or patterns such as ``gloo/*``) that each mean at least one check. Raises UsageError."""
    known = [check.id for check in checks]
    for wanted in ids:
        if not any(fnmatchcase(check_id, wanted) for check_id in known):
            raise UsageError(f"--ignore {wanted!r}: no such check{did_you_mean(wanted, known)}")
    return tuple(ids)


def told_flags(flags: Flags) -> Flags:
    """The flags as they may be told: encodable, the addresses among them without a password."""

    def address(text: str | None) -> str | None:
        return None if text is None else without_userinfo(text)

    return encodable(
        replace(
            flags,
            master_addr=address(flags.master_addr),
            rdzv_endpoint=address(flags.rdzv_endpoint),
            init_method=address(flags.init_method),
        )
    )


def _one_of(flag: str, value: str, known: Sequence[str]) -> str:
    if value in known:
        return value
    hint = did_you_mean(value, known) or f"; one of {', '.join(known)}"
    raise UsageError(f"{flag} {value!r} is not known{hint}")


def _here(report: Report) -> str | None:
    """The node of the report that this is; None where several have this host's name."""
    names = [node.name for node in report.nodes if node.hostname == socket.gethostname()]
    return names[0] if len(names) == 1 else None


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _program() -> tuple[str, ...]:
    """How this was started, as it and the others are to be started again."""
    if Path(sys.argv[0]).name == "__main__.py":
        return Path(sys.executable).name or "python3", "-m", "distdoctor"
    return ("distdoctor",)


def _real_runner() -> Runner:
    from distdoctor.session.session import run

    return run
