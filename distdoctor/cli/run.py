"""``distdoctor run -- COMMAND``: a check, the job, and what became of it. The job runs whatever fails here."""

from __future__ import annotations

import contextlib
import math
import os
import signal
import sys
import time
from collections.abc import Sequence

from distdoctor import interrupts, streams
from distdoctor.cli import ending
from distdoctor.cli.catalog import known_ids, load_checks
from distdoctor.cli.flags import ON_FAIL, JobFlags, ReportFlags
from distdoctor.cli.report_output import Telling
from distdoctor.cli.words import one_of
from distdoctor.job.own_process import PREFLIGHTS
from distdoctor.job.process import Job
from distdoctor.job.signals import end_by
from distdoctor.job.tap import Tap
from distdoctor.launch import job_line
from distdoctor.launch.job_line import JobLine
from distdoctor.launch.spokesman import speaks
from distdoctor.launch.too_few import contradiction
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_variables import SLURM_JOB
from distdoctor.model.report import Report
from distdoctor.model.sanitize import clean
from distdoctor.render.exit_status import FINDINGS

NOT_FOUND, NOT_STARTED = 127, 126
"""As a shell says it."""
TELLING_SECONDS = 60.0
"""How long the watcher may take, once the job has ended, to have read all and to tell what killed it."""


def run_job(words: Sequence[str], how: JobFlags) -> int:
    """Check, start the job, follow it; its exit status. Raises UsageError for flags that make no sense."""
    one_of("--preflight", how.preflight, PREFLIGHTS)
    one_of("--on-fail", how.on_fail, ON_FAIL)
    for flag, seconds in (("--hang-after", how.hang_after), ("--wait", how.wait), ("--timeout", how.timeout)):
        if seconds is not None and not (0 <= seconds <= 86_400 and math.isfinite(seconds)):
            raise UsageError(f"{flag} {seconds:g} is not a number of seconds between 0 and 86400")
    if not words:
        raise UsageError("run needs the line that starts the job: distdoctor run -- torchrun ...")
    telling = Telling.from_flags(ReportFlags(output=how.output, verbose=how.verbose))
    if any("=" not in word for word in how.output or ()):
        raise UsageError("stdout is the job's: give --output a file, -o json=FILE")
    if how.ignore or how.checks:
        known_ids(how.ignore or (), load_checks(how.checks or ()))
    sys.stdout = sys.stderr  # stdout is the job's
    line, failed, apart = JobLine("other"), False, ""
    try:
        line = job_line.read(words, os.environ)
        if speaks(os.environ) and (apart := contradiction(line.flags, line.before, {**os.environ, **(line.env or {})})):
            _say(apart)
        failed = how.preflight != "off" and _failed(line, how)
    except Exception as err:
        _say(f"not checked before the job: {err or type(err).__name__}")
    if failed and how.on_fail == "stop":
        _say("the job was not started (--on-fail stop)")
        return FINDINGS
    status = _followed(words, *_watched(line, telling, how, apart))
    if status and apart:
        _say(apart)
        streams.flush()
    if status >= 0:
        return status
    end_by(-status)
    return 128 - status


def _failed(line: JobLine, how: JobFlags) -> bool:
    """Whether the check before the job found a failure; it is told, and a pass in a line."""
    from distdoctor.job.preflight import check_before

    report = check_before(line, os.environ, how.preflight, how.wait, how.timeout)
    if isinstance(report, int):
        return report == FINDINGS
    if report.verdict == "pass" and speaks(os.environ):
        _say(_passed(report, line, how.preflight))
    elif report.verdict != "pass":
        ending.begin()
        Telling(quiet=True).show(report)
    return report.verdict == "fail"


def _passed(report: Report, line: JobLine, preflight: str) -> str:
    """The line of a check that passed; a quick one that ran here alone has seen this node and no other."""
    nodes, ranks = report.plan.get("nnodes"), report.plan.get("nproc_per_node")
    if line.before or not report.apart:
        return f"preflight ({preflight}) passed in {report.seconds:.1f} s: nodes {nodes}, ranks per node {ranks}"
    text = (
        f"preflight ({preflight}) passed on this node in {report.seconds:.1f} s (nodes {nodes}, ranks per node {ranks})"
    )
    text += "; the other nodes were not checked from here"
    if any(node.get("master_port_refused") for node in report.details.get("nodes", {}).values()):
        text += "; MASTER_PORT is refused so far: node 0 has not started"
    return text


def _followed(words: Sequence[str], tap: Tap, watcher: int | None) -> int:
    """Start the job and hand on what it does, to its end; its exit status, -n of signal n."""
    interrupts.deliver()
    try:
        job = Job(words)
    except OSError as err:
        tap.close()
        missing = isinstance(err, FileNotFoundError)
        _say(f"{words[0]}: {'command not found' if missing else err.strerror}; nothing was started")
        return NOT_FOUND if missing else NOT_STARTED
    tap.tell(job=job.process.pid, outputs=[one.name for one in job.outputs])
    try:
        status = job.follow(tap, watcher)
    except Exception as err:
        _say(f"the job is no longer watched: {type(err).__name__}: {err}")
        status = job.copy()
    tap.tell(ended=status, lost=tap.lost)
    _wait_for(watcher, tap)
    streams.flush()
    return status


def _watched(line: JobLine, telling: Telling, how: JobFlags, apart: str) -> tuple[Tap, int | None]:
    """Where the copy of what the job writes goes, and who reads it; without a watcher it goes nowhere."""
    try:
        from distdoctor.cli.run_watcher import Watching, start

        allocation = os.environ.get(SLURM_JOB) if line.before else None
        look = ("--slurm-job", allocation) if allocation else ()
        what = Watching(telling, how.ignore or (), how.checks or (), how.hang_after, look, line.log_dir, apart)
        return start(what)
    except Exception as err:
        _say(f"the job is not watched: {err or type(err).__name__}")
        nowhere = Tap(os.open(os.devnull, os.O_WRONLY))
        nowhere.close()
        return nowhere, None


def _wait_for(watcher: int | None, tap: Tap) -> None:
    """Until the watcher has read all and told what it knows, within its time."""
    if watcher is None:
        return
    end = time.monotonic() + TELLING_SECONDS
    with contextlib.suppress(OSError):  # the job is done; who may not do this waits a little longer
        os.setpriority(os.PRIO_PROCESS, watcher, os.getpriority(os.PRIO_PROCESS, 0))
    tap.drain(TELLING_SECONDS)
    while os.waitpid(watcher, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(watcher, signal.SIGKILL)
            _say(f"what killed the job could not be told within {TELLING_SECONDS:.0f} s")
            os.waitpid(watcher, 0)
            return
        time.sleep(0.01)


def _say(text: str) -> None:
    streams.write(f"distdoctor: {clean(text)}\n", sys.stderr)
