"""Command line: commands and flags, wired to their implementations.

Light by design: nothing here imports torch, and asyncio, rich and the checks are imported by the command that needs
them.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from distdoctor import interrupts, streams
from distdoctor.cli import completion, ending
from distdoctor.cli import help as texts
from distdoctor.cli.options import (
    OPTIONS,
    ChecksFlag,
    HangFlags,
    HostFlags,
    JobFlags,
    JsonFlag,
    LogFlags,
    ReportFlags,
    RunFlags,
    by_flags,
)
from distdoctor.cli.parsing import (
    COMMANDS,
    HIDDEN,
    REMOTE,
    did_you_mean,
    normalized,
    split_line,
    with_empty,
    without_secrets,
)
from distdoctor.cli.typer_patches import complaint_of, parser_of, without_value
from distdoctor.interrupts import Interrupted
from distdoctor.job.subprocess import INSIDE
from distdoctor.plan.values import Flags
from distdoctor.render.exit_status import INCOMPLETE, OK, USAGE

app = typer.Typer(
    name="distdoctor",
    help=texts.HELP,
    epilog=texts.EXAMPLES,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _start(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit; -v adds Python, torch and their paths.")
    ] = False,
    verbose: Annotated[int, typer.Option("-v", "--verbose", count=True, hidden=True)] = 0,
) -> None:
    if version:
        from distdoctor.cli.program import versions

        streams.write(versions(verbose=verbose > 0))
        raise typer.Exit(OK)
    if verbose:
        from distdoctor.model.errors import UsageError

        raise UsageError("-v goes after the command: distdoctor check -v")
    if context.invoked_subcommand is None:
        streams.write(context.get_help() + "\n")
        # Not 0: a script without the word "check" must not read this as a healthy cluster.
        raise typer.Exit(USAGE)


@app.command(
    help=texts.CHECK_HELP,
    epilog=texts.CHECK_EXAMPLES,
    short_help="Check the nodes before the job.",
    options_metavar="[OPTIONS] [-- LINE]",
)
@by_flags
def check(context: typer.Context, launch: Flags, how: RunFlags, report: ReportFlags, where: HostFlags) -> int:
    from distdoctor.cli.check import CheckCommand

    command = CheckCommand(launch, how, report, where)
    if context.obj:
        from distdoctor.cli.check_line import check_line

        return check_line(command, context.obj)
    if where.any:
        from distdoctor.cli.hosts.check import check_hosts

        return check_hosts(command)
    return command.run()


@app.command(
    "run",
    help=texts.RUN_HELP,
    epilog=texts.RUN_EXAMPLES,
    short_help="Check, start a job, and report what killed it or where it hangs.",
)
@by_flags
def run_(
    how: JobFlags,
    command: Annotated[
        list[str] | None, typer.Argument(metavar="-- COMMAND", help="The command that starts the job.")
    ] = None,
) -> int:
    try:
        from distdoctor.cli.run import run_job
    except Exception as err:  # the job runs all the same, as if this were not there
        streams.write(f"distdoctor: cannot go on, and starts the job alone: {err}\n", sys.stderr)
        os.execvp((command or ["false"])[0], command or ["false"])
    return run_job(command or (), how)


@app.command(REMOTE, hidden=True)
def remote_(until: Annotated[str, typer.Option("--until")] = "") -> int:
    # Its value has been read: the import of torch has begun (distdoctor.cli.preload).
    from distdoctor.cli.hosts.agent import remote

    return remote()


@app.command(INSIDE, hidden=True)
def inside_() -> int:
    from distdoctor.cli.api_worker import inside

    return inside()


@app.command(help=texts.HANG_HELP, epilog=texts.HANG_EXAMPLES, short_help="Report why a running job makes no progress.")
@by_flags
def hang(how: HangFlags, report: ReportFlags, where: HostFlags) -> int:
    if where.any:
        from distdoctor.cli.hosts.hang import hang_on_hosts

        return hang_on_hosts(how, report, where)
    from distdoctor.cli.hang import hang_command

    return hang_command(how, report)


@app.command(
    help=texts.DIAGNOSE_HELP, epilog=texts.DIAGNOSE_EXAMPLES, short_help="Report what killed a job, from its logs."
)
@by_flags
def diagnose(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Logs, facts files, or folders of them.")],
    which: LogFlags,
    report: ReportFlags,
    where: HostFlags,
) -> int:
    if where.any:
        from distdoctor.cli.hosts.diagnose import diagnose_on_hosts

        return diagnose_on_hosts(files, which, report, where)
    from distdoctor.cli.diagnose import diagnose_files

    return diagnose_files(files, which, report)


@app.command(
    help=texts.EXPLAIN_HELP, epilog=texts.EXPLAIN_EXAMPLES, short_help="Explain one failure or an error message."
)
def explain(
    check_id: Annotated[
        str | None,
        typer.Argument(
            metavar="ID|MESSAGE",
            help="Id of a check, the beginning of ids, or an error message in quotes (- for stdin).",
            autocompletion=completion.check_ids,
        ),
    ] = None,
    checks: ChecksFlag = None,
    json: JsonFlag = False,
) -> int:
    from distdoctor.cli.explain import explain_check

    return explain_check(check_id, checks or (), as_json=json)


@app.command("list", help="List the checks: id, severity and title.")
def list_(
    prefix: Annotated[
        str | None,
        typer.Argument(
            metavar="PREFIX", help="Only ids that begin so: gloo, nccl/infiniband.", autocompletion=completion.check_ids
        ),
    ] = None,
    checks: ChecksFlag = None,
    json: JsonFlag = False,
) -> int:
    from distdoctor.cli.explain import list_checks

    return list_checks(prefix, checks or (), as_json=json)


@app.command("schema", help="Print the JSON Schema of the report.")
def schema_() -> int:
    from distdoctor.cli.explain import print_schema

    return print_schema()


@app.command(
    "mcp", help=texts.MCP_HELP, epilog=texts.MCP_EXAMPLES, short_help="Offer these commands as tools to agents (MCP)."
)
def mcp_() -> int:
    with _needing("mcp", "mcp"):
        from distdoctor.cli.mcp import serve

    return serve()


@app.command(
    help=texts.HEALTH_HELP,
    epilog=texts.HEALTH_EXAMPLES,
    short_help="Answer a launcher's node health requests on a Unix socket.",
)
def health(
    socket: Annotated[Path, typer.Argument(metavar="SOCKET", help="Path of the Unix socket.")],
    every: Annotated[
        float, typer.Option(metavar="TIME", help="Longest age of an answer. [60s]", show_default=False)
    ] = 60.0,
    ignore: Annotated[list[str] | None, OPTIONS["ignore"]] = None,
) -> int:
    with _needing("grpc", "grpc", "google"):
        from distdoctor.cli.health import serve_health

    return serve_health(socket, every, ignore or ())


@app.command("help", help="Print the help of a command.")
def help_(
    command: Annotated[str | None, typer.Argument(metavar="COMMAND", autocompletion=completion.commands)] = None,
) -> int:
    return run([command, "--help"] if command else ["--help"])


@contextmanager
def _needing(extra: str, *packages: str) -> Iterator[None]:
    """Say which extra to install if one of these packages is missing. Raises UsageError."""
    try:
        yield
    except ImportError as err:
        if (err.name or "").partition(".")[0].partition("_")[0] not in packages:
            raise
        from distdoctor.model.errors import UsageError

        raise UsageError(
            f"{err.name} is not installed: {sys.executable} -m pip install 'distdoctor[{extra}]'"
        ) from None


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with the report's status."""
    interrupts.begin()
    streams.ensure_streams()
    status = run(sys.argv[1:] if arguments is None else arguments)
    if not streams.finish() and status == OK:
        status = INCOMPLETE
    status = interrupts.status_after(status)
    interrupts.ignore_further()
    sys.exit(status)


def run(arguments: Sequence[str]) -> int:
    """Run the command line. Return the exit status; nothing is raised and no traceback printed."""
    arguments, line = split_line(arguments)
    words = normalized(arguments)
    ending.begin()
    try:
        interrupts.deliver()
        if words and not words[0].startswith("-") and words[0] not in (*COMMANDS, *HIDDEN):
            hint = did_you_mean(words[0], COMMANDS) or f"; the commands are {', '.join(COMMANDS)}"
            return _bad_usage(f"no command {words[0]!r}{hint}", words)
        parser = parser_of(app, words)
        own = words[: words.index("--")] if "--" in words else words
        if words[:1] == ["run"] and own == words and not {"-h", "--help"} & set(words):
            return _bad_usage("run needs -- before the job's command: distdoctor run -- torchrun ...", words)
        if problem := without_value(parser, own):
            return _bad_usage(problem, words)
        status = parser.main(args=words, prog_name="distdoctor", standalone_mode=False, obj=line)
        return status if isinstance(status, int) else OK
    except typer.TyperException as err:
        return _bad_usage(with_empty(complaint_of(err), words), words)
    except BaseException as err:
        return _status_after(err, words)
    finally:
        interrupts.hold()


def _status_after(err: BaseException, words: Sequence[str]) -> int:
    """Return the exit status of a command that ended by a signal, by the parser's own exit, or by a crash."""
    signalled = interrupts.interrupted_in(err)
    if signalled is not None or isinstance(err, typer.Abort):
        number = signalled.number if isinstance(signalled, Interrupted) else signal.SIGINT
        text = f"interrupted by {signal.Signals(number).name} before there was anything to tell"
        return ending.without_report(text, 128 + number, words)
    if isinstance(err, SystemExit) and completion.completes(words):
        return err.code if isinstance(err.code, int) else OK
    cause = err.__context__ if isinstance(err, SystemExit) else err
    if {"-h", "--help", "help"} & set(words) and isinstance(cause, OSError):
        # The parser prints its help itself, and its reader is gone or the disk is full.
        streams.note_unwritable(cause)
        return OK
    return _crashed(err, words)


def _bad_usage(text: str, words: Sequence[str], here: bool = False) -> int:
    return ending.without_report(text, USAGE, words, here=here)


def _crashed(err: BaseException, words: Sequence[str]) -> int:
    """Print one line for a fault of our own: a traceback would end with status 1, which means findings."""
    from distdoctor.model.errors import PlanError, UsageError

    if isinstance(err, UsageError):
        return _bad_usage(str(err), words, here=not isinstance(err, PlanError))
    if short := ending.shortage(err):
        return ending.without_report(f"could not go on: {short}", INCOMPLETE, words)
    if os.environ.get("DISTDOCTOR_DEBUG") == "1":
        import traceback

        streams.write(traceback.format_exc(), sys.stderr)
    text = " ".join(str(err).split()) or "no message"
    crashed = f"crashed: {type(err).__name__}: {text}"
    ask = f" (please report this with the output of DISTDOCTOR_DEBUG=1 distdoctor {' '.join(without_secrets(words))})"
    return ending.without_report(crashed + ask, INCOMPLETE, words, note=f"distdoctor {crashed}")
