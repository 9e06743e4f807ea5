"""``distdoctor check -- LINE``: the check for the plan of a job's start line, of which nothing is started."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

from distdoctor import streams
from distdoctor.cli.check import CheckCommand
from distdoctor.job.subprocess import command as own_command
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_settings import BY_NAME, MASTER_PORT, NNODES, NODE_RANK, RDZV_ENDPOINT, STANDALONE
from distdoctor.plan.job_command import read_job_command
from distdoctor.plan.job_line import JobLine
from distdoctor.plan.values import Flags


def check_line(command: CheckCommand, words: Sequence[str]) -> int:
    """Check for the plan of the line, and return the exit status. Raises UsageError for a line that has none."""
    try:
        line = read_job_command(words, os.environ)
    except ValueError as err:
        raise UsageError(f"{words[0]}: {err}") from None
    os.environ.update(line.env or {})
    if line.before:
        return _by_launcher(command, line)
    launch = merged(command.launch, line)
    if command.where.any or line.hosts:
        return _on_hosts(command, line, launch)
    return replace(command, launch=launch, line=line).run()


def merged(given: Flags, line: JobLine) -> Flags:
    """Return the flags of the line; those that were given to the check itself count first."""
    texts = dict(flag.removeprefix("--").replace("-", "_").partition("=")[::2] for flag in line.flags)
    changes: dict[str, Any] = {}
    for name in {field.name for field in fields(Flags)} & texts.keys():
        text = texts[name]
        if getattr(given, name) not in (None, False):
            continue
        if name in (NODE_RANK.name, MASTER_PORT.name) and not text.isdecimal():
            raise UsageError(f"{BY_NAME[name].flag} {text} is not a number")
        number = name in (NODE_RANK.name, MASTER_PORT.name)
        changes[name] = True if name == STANDALONE.name else int(text) if number else text
    return replace(given, **changes)


def _by_launcher(command: CheckCommand, line: JobLine) -> int:
    """Start the check by the line's own srun or mpirun, on the nodes of the job."""
    own = [word for flag, value in command.given() for word in ((flag,) if value is None else (flag, value))]
    if command.how.token is not None:
        raise UsageError("--token goes into DISTDOCTOR_TOKEN here: a command line is no secret")
    streams.flush()
    sys.stdout.flush()
    done = subprocess.run([*line.before, *own_command("check", *own, "--", *line.inner)], check=False)
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _on_hosts(command: CheckCommand, line: JobLine, launch: Flags) -> int:
    """Check the hosts that the launcher starts ranks on over ssh."""
    from distdoctor.cli.hosts.check import check_hosts

    taken: dict[str, Any] = {NNODES.name: None, NODE_RANK.name: None, STANDALONE.name: False, RDZV_ENDPOINT.name: None}
    where = command.where if command.where.any else replace(command.where, hosts=",".join(line.hosts))
    return check_hosts(replace(command, launch=replace(launch, **taken), where=where, line=line))
