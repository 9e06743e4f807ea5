"""``distdoctor check``: from the flags to the run, and from its report to the exit status.

It can be called with values, without a command line.
"""

from __future__ import annotations

import math
import os
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from distdoctor import streams
from distdoctor.cli.hosts.progress import observer_of
from distdoctor.cli.options import HostFlags, ReportFlags, RunFlags
from distdoctor.cli.output import Telling, leave_cause, names_of
from distdoctor.cli.program import program, require_one_of
from distdoctor.model.errors import PlanError, UsageError
from distdoctor.model.launch_settings import LEAST_LENGTH, TOKEN_PLACEHOLDER, VARIABLE
from distdoctor.model.report import Report
from distdoctor.model.stages import STAGES
from distdoctor.model.text import encodable, environment, without_userinfo
from distdoctor.plan.job_line import JobLine, refused
from distdoctor.plan.resolve import resolve
from distdoctor.plan.values import Flags
from distdoctor.render.exit_status import EXIT_STATUS_OF, INCOMPLETE, OK, own_status
from distdoctor.render.style import LINE

if TYPE_CHECKING:
    from distdoctor.judge.catalog import Check
    from distdoctor.model.facts import NodeFacts
    from distdoctor.model.observer import Observer
    from distdoctor.model.plan import Plan
    from distdoctor.session.options import Options
    from distdoctor.session.run import Outcome


WAIT_SECONDS = 60.0
WAIT_FOR_A_PERSON = 600.0
"""Seconds for which node 0 waits if a person at a terminal has to start the others."""
AGAIN = (
    "wait",
    "shared",
    "save",
    "timeout",
    "until",
    "fail_on",
    "exit_status",
    "ignore",
    "checks",
    "try_fixes",
    "baseline",
    "per_gpu",
    "placement_group",
)
"""Flags beyond the launch that matter when a check runs again, in the order in which they are printed."""

Runner = Callable[["Options", "Observer", Callable[[Report], None]], "Outcome"]


@dataclass(frozen=True)
class CheckCommand:
    """``distdoctor check`` with its flags."""

    launch: Flags
    how: RunFlags
    report: ReportFlags
    where: HostFlags = field(default_factory=HostFlags)
    line: JobLine | None = None
    """Start line whose plan is checked; the launch has its flags."""

    def run(self, runner: Runner | None = None) -> int:
        """Check, print the report, and return the exit status. Raises UsageError."""
        telling = Telling.from_flags(self.report)
        own = require_one_of("--exit-status", self.how.exit_status, EXIT_STATUS_OF) == "own"
        if self.how.per_gpu or self.how.placement_group:
            raise UsageError(f"--{'per-gpu' if self.how.per_gpu else 'placement-group'} belongs to --ray")
        options = self.options()
        if self.how.dry_run:
            from distdoctor.cli.dry_run import show

            show(options, os.environ, as_json=telling.output == "json")
            return OK
        observer = self.observer(options.plan)

        def print_report(report: Report) -> None:
            observer.close()
            if options.plan.restart:
                telling.again(report, options.plan.restart)
            else:
                telling.show(report, self.given())

        try:
            outcome = (runner or _real_runner())(options, observer, print_report)
        finally:
            observer.close()
        if own:
            here = names_of(outcome.report, socket.gethostname())
            status = own_status(outcome.report, telling.fail_on, outcome.exit_signal, here)
        else:
            status = telling.status(outcome.report, outcome.exit_signal)
        status = INCOMPLETE if status == OK and outcome.unsaved else status
        if status != OK:
            leave_cause(os.environ, outcome.report)
        return status

    def given(self) -> list[tuple[str, str | None]]:
        """Return the flags that matter when this runs again, each with its value, None for a switch."""
        engine = self.line is not None and self.line.engine
        launch = {} if engine else _given(printable_flags(self.launch))
        others = {**_given(self.how), **_given(self.report)}
        pairs = [
            *_given(self.where).items(),
            *launch.items(),
            *((name, others[name]) for name in AGAIN if name in others),
            *([("token", TOKEN_PLACEHOLDER)] if "token" in others else []),  # the token itself is in no report
        ]
        flags = [word for name, value in pairs for word in _as_flags(name, value)]
        line = self.line.typed if engine and self.line is not None else []
        return [*flags, *([LINE, *((word, None) for word in line)] if line else [])]

    def options(self) -> Options:
        """Return the run these flags ask for. Raises UsageError."""
        how = self.how
        self.check_times()
        until = require_one_of("--until", how.until, STAGES)
        from distdoctor.probes.gpu.devices import count_cpus, count_gpus
        from distdoctor.session.options import Options  # slow imports follow the checks of the flags

        save = None if how.save is None else Path(how.save) if how.dry_run else save_path(how.save)
        checks, ignore = self.judging()
        try:
            plan = resolve(printable_flags(self.launch), environment(os.environ), count_gpus, count_cpus)
        except UsageError as err:
            raise PlanError(str(err)) from None
        if self.line is not None:
            plan = with_line(plan, self.line)
        wait = how.wait
        if wait is None:
            wait = WAIT_FOR_A_PERSON if plan.announce and streams.is_terminal(sys.stderr) else WAIT_SECONDS
        return Options(
            plan=plan,
            checks=checks,
            wait=wait,
            timeout=how.timeout,
            until=until,
            try_fixes=how.try_fixes,
            ignore=ignore,
            shared=tuple(os.path.abspath(path) for path in how.shared or ()),
            save=save,
            command=(*program(), "check"),
            token=self.token(),
            baseline=read_baseline(how.baseline),
        )

    def check_times(self) -> None:
        """Raise UsageError for a time that is none."""
        for flag, seconds in (("--wait", self.how.wait), ("--timeout", self.how.timeout)):
            if seconds is not None and not (0 < seconds <= 86_400 and math.isfinite(seconds)):
                raise UsageError(f"{flag} {seconds:g} is not a number of seconds above 0, and at most 86400")

    def judging(self) -> tuple[tuple[Check, ...], tuple[str, ...]]:
        """Return the checks, and the patterns of the ignored ones. Raises UsageError."""
        from distdoctor.cli.checks import known_ids, load_checks

        checks = load_checks(self.report.checks or ())
        return checks, known_ids(self.report.ignore or (), checks)

    def token(self) -> str | None:
        """Return the token that the nodes of this run share. Raises UsageError for one that can be guessed."""
        given = self.how.token if self.how.token is not None else os.environ.get(VARIABLE) or None
        if given is not None and len(given) < LEAST_LENGTH:
            source = VARIABLE if self.how.token is None else "--token"
            raise UsageError(f"{source} is too short to keep others out: {LEAST_LENGTH} characters at least")
        return given

    def observer(self, plan: Plan) -> Observer:
        """Return the observer that prints the progress on stderr."""
        return observer_of(self.report.quiet, plan)


def with_line(plan: Plan, line: JobLine) -> Plan:
    """Return the plan with what only a start line says: the engine, its ports, the mesh, and what was not read."""
    note = "; ".join(filter(None, (line.note, line.unread, plan.note)))
    sources = {
        name: line.names.get(name, source) if source.startswith("--") else source
        for name, source in plan.sources.items()
    }
    problems = (*plan.problems, *refused(line, environment(os.environ)))
    mesh: dict[str, Any] = {} if plan.mesh else {"mesh": line.mesh, "mesh_order": line.mesh_order}
    mesh |= {"engine": line.engine, "ports": line.ports, "servers": line.servers, "log_dir": line.log_dir}
    return replace(plan, note=note, sources=sources, problems=problems, **mesh)


def read_baseline(path: Path | None) -> tuple[NodeFacts, ...]:
    """Return the facts of --baseline; none without it. Raises UsageError."""
    from distdoctor.model.facts.files import BadFile, read

    try:
        return read([path]) if path is not None else ()
    except BadFile as err:
        raise UsageError(f"--baseline: {err}") from None


def save_path(text: str) -> Path:
    """Return the path of --save. Raises UsageError if it is not writable."""
    from distdoctor.model.facts.files import unfit

    if not text:
        raise UsageError("--save: the name is empty")
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


def printable_flags(flags: Flags) -> Flags:
    """Return the flags as they may be shown: encodable, the addresses among them without a password."""

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


def _given(flags: Flags | RunFlags | ReportFlags | HostFlags) -> dict[str, Any]:
    """Return the fields that differ from their defaults."""
    values = {field.name: (getattr(flags, field.name), field.default) for field in fields(flags)}
    return {name: value for name, (value, usual) in values.items() if value != usual}


def _as_flags(name: str, value: Any) -> list[tuple[str, str | None]]:
    """Return a field as it is written on a command line."""
    flag = name.replace("_", "-")
    if isinstance(value, bool):
        return [(f"--{flag}" if value else f"--no-{flag}", None)]
    return [(f"--{flag}", _text(entry)) for entry in (value if isinstance(value, list) else [value])]


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _real_runner() -> Runner:
    from distdoctor.session.run import run

    return run
