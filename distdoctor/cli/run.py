"""``distdoctor run -- COMMAND``: a check, the job, and the cause of its end. The job runs whatever fails here."""

from __future__ import annotations

import contextlib
import math
import os
import re
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from distdoctor import interrupts, streams
from distdoctor.cli import ending
from distdoctor.cli.checks import known_ids, load_checks
from distdoctor.cli.diagnose import LogCommand, root_line
from distdoctor.cli.options import ON_FAIL, JobFlags, LogFlags, ReportFlags
from distdoctor.cli.output import Telling
from distdoctor.cli.program import require_one_of
from distdoctor.job.preflight import Movement, report_of
from distdoctor.job.subprocess import PREFLIGHTS, command
from distdoctor.job.supervise import MESSAGE, Frames, Job, Tap, end_by, forget, handed_on
from distdoctor.judge.logs.lifelines import pids_in_tables
from distdoctor.logs.log_file import LogFile
from distdoctor.logs.reading import reader
from distdoctor.model.errors import UsageError
from distdoctor.model.launch_variables import SLURM_JOB
from distdoctor.model.report import Report
from distdoctor.model.text import clean
from distdoctor.plan import job_command
from distdoctor.plan.job_command import JobLine
from distdoctor.plan.launchers.ancestry import speaks
from distdoctor.plan.per_node import contradiction
from distdoctor.probes.host import processes
from distdoctor.render.exit_status import FINDINGS

NOT_FOUND, NOT_STARTED = 127, 126
"""Statuses as of a shell."""
REPORTING_SECONDS = 60.0
"""Limit for the watcher, once the job has ended, to read all and to report the cause."""


def run_job(words: Sequence[str], how: JobFlags) -> int:
    """Check, start the job, follow it. Return its exit status. Raises UsageError for flags that make no sense."""
    require_one_of("--preflight", how.preflight, PREFLIGHTS)
    require_one_of("--on-fail", how.on_fail, ON_FAIL)
    for flag, seconds in (("--hang-after", how.hang_after), ("--wait", how.wait), ("--timeout", how.timeout)):
        if seconds is not None and not (0 <= seconds <= 86_400 and math.isfinite(seconds)):
            raise UsageError(f"{flag} {seconds:g} is not a number of seconds between 0 and 86400")
    if not words:
        raise UsageError("run needs the job's command: distdoctor run -- torchrun ...")
    telling = Telling.from_flags(ReportFlags(output=how.output, verbose=how.verbose))
    if any("=" not in word for word in how.output or ()):
        raise UsageError("stdout is the job's: give --output a file, -o json=FILE")
    if how.ignore or how.checks:
        known_ids(how.ignore or (), load_checks(how.checks or ()))
    sys.stdout = sys.stderr  # stdout is the job's
    line, failed, apart = JobLine("other"), False, ""
    try:
        line = job_command.read_job_command(words, os.environ)
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
    """Return whether the check before the job found a failure; its report, or a pass in a line, is printed."""
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
    """Return the line of a check that passed; a quick one that ran here alone has seen this node and no other."""
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
    """Start the job and pass its output on to its end. Return its exit status, -n of signal n."""
    interrupts.deliver()
    try:
        job = Job(words)
    except OSError as err:
        tap.close()
        missing = isinstance(err, FileNotFoundError)
        _say(f"{words[0]}: {'command not found' if missing else err.strerror}; nothing was started")
        return NOT_FOUND if missing else NOT_STARTED
    tap.tell(job=job.process.pid, outputs=[output.name for output in job.outputs])
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
    """Return the tap for the copy of the job's output, and its reader; without a watcher it goes nowhere."""
    try:
        allocation = os.environ.get(SLURM_JOB) if line.before else None
        look = ("--slurm-job", allocation) if allocation else ()
        flags = () if line.before else line.flags
        what = Watching(telling, how.ignore or (), how.checks or (), how.hang_after, look, line.log_dir, apart, flags)
        return start(what)
    except Exception as err:
        _say(f"the job is not watched: {err or type(err).__name__}")
        nowhere = Tap(os.open(os.devnull, os.O_WRONLY))
        nowhere.close()
        return nowhere, None


def _wait_for(watcher: int | None, tap: Tap) -> None:
    """Wait until the watcher has read all and reported what it knows, within its time."""
    if watcher is None:
        return
    end = time.monotonic() + REPORTING_SECONDS
    with contextlib.suppress(OSError):  # the job is done; without this permission the wait is a little longer
        os.setpriority(os.PRIO_PROCESS, watcher, os.getpriority(os.PRIO_PROCESS, 0))
    tap.drain(REPORTING_SECONDS)
    while os.waitpid(watcher, os.WNOHANG)[0] == 0:
        if time.monotonic() > end:
            os.kill(watcher, signal.SIGKILL)
            _say(f"what killed the job could not be told within {REPORTING_SECONDS:.0f} s")
            os.waitpid(watcher, 0)
            return
        time.sleep(0.01)


def _say(text: str) -> None:
    streams.write(f"distdoctor: {clean(text)}\n", sys.stderr)


# Watcher beside a job that ``distdoctor run`` started: a process of its own, which may fail without harm.
#
# It reads a copy of the job's output, looks at the job if nothing moves, and reports on stderr the cause of its end.


NICE = 10
"""Niceness: the job comes first."""
MUCH, ENOUGH = 16 << 10, 512 << 10
"""Bytes in one read between which the next one waits for more: a megabyte at once costs less than in many pieces."""
GATHER_SECONDS = 0.05
KILLED = re.compile(r"(?:Kill(?:ed)? process |reaped process |,pid=)(\d{1,9})\b")
"""Pattern of the kernel's lines on processes that it killed for lack of memory."""
LOOK_SECONDS = 90.0
ENDING_SECONDS = 60.0
"""Seconds after which a job that was asked to end counts as going on: torchrun gives its ranks 30 s."""
FORGET_SECONDS = 1.0
"""Seconds for which a signal to the whole group is visible here; a repetition within them counts as one."""
SELDOM = 8
"""A job that moves though it writes nothing is looked at less and less often: at most so many times --hang-after."""


@dataclass(frozen=True)
class Watching:
    """Settings of the watch, and of its report."""

    telling: Telling
    ignore: Sequence[str] = ()
    checks: Sequence[Path] = ()
    hang_after: float = 0.0
    """Seconds without movement after which the job is looked at; 0: never."""
    look: Sequence[str] = ()
    """Selection of the job for ``distdoctor hang``; empty: by its process."""
    log_dir: str = ""
    """Folder that the ranks write to, too."""
    apart: str = ""
    """Line on the nodes that will never join; it is repeated last if the job hangs."""
    flags: Sequence[str] = ()
    """Flags of ``distdoctor check`` for the plan by which this node's launcher was started."""
    began: float = field(default_factory=time.time)


def start(watching: Watching) -> tuple[Tap, int]:
    """Start the watcher. Return the tap for the copies, and its process. Raises OSError."""
    reads, writes = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.close(writes)
            before = signal.pthread_sigmask(signal.SIG_BLOCK, handed_on())
            os.nice(NICE)
            Watcher(watching, reads, before).run()
        except BaseException:
            if os.environ.get("DISTDOCTOR_DEBUG") == "1":
                import traceback

                streams.write(traceback.format_exc(), sys.stderr)
        finally:
            streams.flush()
            os._exit(0)
    os.close(reads)
    return Tap(writes), pid


class Watcher:
    """Watcher's side of the tap."""

    def __init__(self, watching: Watching, pipe: int, mask: Iterable[int]) -> None:
        self._watching, self._pipe, self._mask = watching, pipe, mask
        checks = load_checks(watching.checks)
        ignore = known_ids(watching.ignore, checks)
        self._judging = LogCommand((), checks, ignore, LogFlags(), whole=watching.telling.verbose > 0)
        self._judging.collector.launched(watching.flags)
        self._logs: dict[int, tuple[LogFile, reader.Cutter]] = {}
        self._movement = Movement()
        self._between = watching.hang_after
        """Seconds without movement until the next look."""
        self._looked = time.monotonic()
        self._last_reported: tuple[object, ...] = ()
        self._hung = "", -ENDING_SECONDS
        """What the last look at a hang found, and its time."""
        self._job = 0
        self._outputs: list[str] = []
        """Names of the job's outputs, in the order of their numbers."""
        self._asked_at = -ENDING_SECONDS
        """Time at which the job was asked to end: what it then writes follows from that."""

    @property
    def _asked(self) -> bool:
        return time.monotonic() - self._asked_at < ENDING_SECONDS

    def run(self) -> None:
        """Watch until the job has ended."""
        frames, forgot = Frames(), time.monotonic()
        while True:
            if time.monotonic() - forgot > FORGET_SECONDS:
                forgot = time.monotonic()
                forget()
            ready, _, _ = select.select([self._pipe], [], [], 1.0)
            if ready:
                read = frames.read(self._pipe)
                if not read:
                    return  # the parent is gone, and the job with it
                for kind, block in frames.take():
                    if kind != MESSAGE:
                        self._hear(kind, block)
                    elif self._heard(json_of(block)):
                        return
                if MUCH < read < ENOUGH:
                    time.sleep(GATHER_SECONDS)
            if self._watching.hang_after and self._job and not self._asked:
                self._look_where_nothing_moves()

    def _hear(self, number: int, data: bytes) -> None:
        if self._asked:
            return
        if number not in self._logs:
            name = self._outputs[number]
            self._logs[number] = self._judging.collector.log(name, "log"), reader.Cutter()
        log, cutter = self._logs[number]
        log.feed(cutter.cut(data))
        self._movement.hear(data)

    def _heard(self, message: Mapping[str, Any]) -> bool:
        """Return whether the job has ended."""
        self._job, self._outputs = message.get("job", self._job), message.get("outputs", self._outputs)
        if "asked" in message:
            self._asked_at = time.monotonic()
        if "ended" not in message:
            return False
        if message["ended"]:
            self._report_cause(int(message["ended"]), int(message.get("lost", 0)))
        return True

    # A job that died

    def _report_cause(self, status: int, lost: int) -> None:
        collector = self._judging.collector
        for log, cutter in self._logs.values():
            log.feed(cutter.end())
            collector.end(log)
        if self._watching.log_dir and not self._asked:
            for source in collector.arranged(self._new_files()):
                collector.add(source)
        spared = self._hear_the_kernel()
        found = collector.collected()
        report = self._judging.report(found)
        if spared and any(one.ended is not None and one.ended.signal == signal.SIGKILL for one in found.logs.matches):
            report = _with_note(report, f"{spared}: a program sent signal 9 (kill, a scheduler, systemd-oomd)")
        hang, seen_at = self._hung
        if hang and time.monotonic() - seen_at < self._between + ENDING_SECONDS:
            report = _with_note(report, f"before it ended the job hung: {hang}")
        if lost:
            note = f"{lost >> 20} MiB of its output came too fast to be looked at"
            report = _with_note(report, note)
        if not speaks(os.environ):  # one of many, of which the first prints the whole
            if line := root_line(report.findings):
                streams.write(f"distdoctor: {clean(line)}\n", sys.stderr)
        elif report.verdict == "fail" or (report.candidates and not self._asked):
            self._show(report)
        elif not self._asked:
            what = f"signal {-status}" if status < 0 else f"exit status {status}"
            streams.write(
                f"distdoctor: the job ended with {what}; its output shows no failure that is known\n", sys.stderr
            )

    def _hear_the_kernel(self) -> str:
        """Read the kernel's lines, since the job began, on killed processes of the job: the one that was started, and
        those whose numbers its launcher reports. In a container with other numbers it finds none.

        Return a sentence if that log is whole and the kernel killed nothing on this host.
        """
        collector = self._judging.collector
        own = {str(self._job), *pids_in_tables(collector.collected().logs.matches)}
        records, since = processes.read_kernel_log() or (), self._watching.began - 1
        killed = [(text, found[1]) for at, text in records if at >= since and (found := KILLED.search(text))]
        name = f"the kernel's log of {socket.gethostname()}"
        if lines := [text for text, pid in killed if pid in own]:
            log = collector.log(name, "kernel")
            log.feed("".join(f"{line}\n" for line in lines).encode())
            collector.end(log)
        whole = records and records[0][0] < since
        return f"{name} shows no process that it killed since the job began" if whole and not killed else ""

    def _new_files(self) -> list[reader.Source]:
        try:
            files = reader.find([Path(self._watching.log_dir)])
        except reader.Unreadable:
            return []
        return [
            file for file in files if file.path is not None and file.path.stat().st_mtime >= self._watching.began - 1
        ]

    # A job that hangs

    def _look_where_nothing_moves(self) -> None:
        now = time.monotonic()
        if now - max(self._movement.since, self._looked) < self._between:
            if self._movement.since > self._looked:
                self._between = self._watching.hang_after
            return
        report = self._look()
        self._looked = time.monotonic()
        self._between = min(self._between * 2, self._watching.hang_after * SELDOM)
        if report is None or not (report.findings or report.verdict == "incomplete"):
            return
        reported = tuple((finding.check, finding.nodes, finding.ranks) for finding in report.findings) or (
            report.verdict,
        )
        if report.findings:
            self._hung = report.findings[0].summary, self._looked
        if reported == self._last_reported:
            return
        self._last_reported = reported
        when, seconds = time.strftime("%H:%M:%S"), time.monotonic() - self._movement.since
        more = "" if report.findings else "; what it waits for cannot be known from here: distdoctor hang on its nodes"
        streams.write(f"\ndistdoctor: {when} nothing has moved for {seconds:.0f} s{more}\n", sys.stderr)
        if report.findings:
            self._show(report)
        if self._watching.apart:
            streams.write(f"distdoctor: {clean(self._watching.apart)}\n", sys.stderr)

    def _look(self) -> Report | None:
        how = self._watching.look or ("--pid", str(self._job))
        try:
            done = subprocess.run(
                command("hang", "--json", *how),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_SETMASK, self._mask),
                timeout=LOOK_SECONDS,
                check=False,
            )
            return report_of(done.stdout)
        except (OSError, ValueError, subprocess.TimeoutExpired):
            return None

    def _show(self, report: Report) -> None:
        ending.begin()
        self._watching.telling.show(report)


def json_of(block: bytes) -> dict[str, Any]:
    """Return a message, which is one of our own."""
    import json

    document: dict[str, Any] = json.loads(block)
    return document


def _with_note(report: Report, note: str) -> Report:
    from dataclasses import replace

    return replace(report, notes=(*report.notes, note))
