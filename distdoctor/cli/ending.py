"""End of a command without a report: one clear line on stderr and, with JSON, the document."""

from __future__ import annotations

import errno
import os
import resource
import sys
import threading
import time
from collections.abc import Sequence
from datetime import datetime, timezone

from distdoctor import __version__, streams
from distdoctor.cli.parsing import wants
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.plan.launchers.ancestry import launcher_environment
from distdoctor.plan.launchers.ancestry import speaks as first_of_several
from distdoctor.probes.host.process_room import threads_forbidden

_BEGAN = time.monotonic()
_REPORT = threading.Lock()
"""Held by the thread that writes the report, and never released: there is one."""


def begin() -> None:
    """Start a new command: no report has been written yet."""
    if _REPORT.locked():
        _REPORT.release()


def claim() -> bool:
    """Return whether the caller is to write the report: True for the first that asks."""
    return _REPORT.acquire(blocking=False)


def without_report(text: str, status: int, words: Sequence[str], note: str | None = None, here: bool = True) -> int:
    """Print ``text`` (in JSON ``note``, if given), and return ``status``.

    ``here``: it may concern this process alone; else the first of those that a launcher started prints it for all. The
    document is the first one's in any case.
    """
    speaks = first_of_several(os.environ, launcher_environment)
    if speaks or here:
        streams.write(f"distdoctor: {clean(text)}\n", sys.stderr)
    if wants(words, "nagios"):
        from distdoctor.render import nagios

        status = nagios.UNKNOWN
        if speaks and claim():
            streams.write(nagios.line(status, text) + "\n")
    elif speaks and wants(words, "json") and claim():
        from distdoctor.render import json

        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        seconds = round(time.monotonic() - _BEGAN, 2)
        report = Report("incomplete", __version__, None, now, seconds, {}, (), (), (), notes=(note or text,))
        streams.write(json.render(report))
    return status


def shortage(err: BaseException | None) -> str | None:
    """Return the limit of this process, or the package, that made it fail, also if that is only behind ``err``; else
    None."""
    while err is not None:
        if lack := _shortage(err):
            return lack
        err = err.__cause__ or err.__context__
    return None


def _shortage(err: BaseException) -> str | None:
    number = err.errno if isinstance(err, OSError) else None
    if number in (errno.EMFILE, errno.ENFILE):
        soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        return f"too few open files are allowed for distdoctor itself (ulimit -n is {soft}; it needs 64, a job more)"
    if number == errno.EAGAIN or (isinstance(err, RuntimeError) and "start new thread" in str(err)):
        soft = resource.getrlimit(resource.RLIMIT_NPROC)[0]
        limit = "unlimited" if soft == resource.RLIM_INFINITY else soft
        if threads_forbidden():
            return (
                "no thread can be started: clone3() is forbidden here, as by a seccomp profile that is older than "
                "it (update Docker and libseccomp on the host, or try docker run --security-opt seccomp=unconfined)"
            )
        return f"no further process or thread is allowed (ulimit -u is {limit}; a container may set pids.max)"
    if number == errno.ENOMEM or isinstance(err, MemoryError):
        return "no memory is left for distdoctor itself (ulimit -v, or the container's limit)"
    if isinstance(err, FileNotFoundError) and err.filename == os.devnull:
        return f"there is no {os.devnull}, without which few programs run: mknod -m 666 {os.devnull} c 1 3, as root"
    if isinstance(err, PermissionError) and err.filename == os.devnull:
        return f"{os.devnull} is closed to this user, few programs run without it: chmod 666 {os.devnull}, as root"
    if isinstance(err, ImportError) and (err.name or "distdoctor").partition(".")[0] != "distdoctor":
        return (
            f"{err}: a package that distdoctor needs is not there, or another one is taken for it (PYTHONPATH, "
            "~/.local: PYTHONNOUSERSITE=1), as the job's Python would take it, too"
        )
    return None
