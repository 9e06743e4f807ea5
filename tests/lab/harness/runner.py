"""Starts distdoctor on every host of a launch at once, and keeps what each said, when, and the facts it saved."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.helpers.report_schema import report_in
from tests.lab.harness.host import ROOT, SHARED, Process, clean_environment
from tests.lab.harness.launch import Launch, Start
from tests.lab.harness.speed import Others

RUN_LIMIT = 180.0
"""Seconds after which a run is killed: longer than any case may take."""
JSON = dict[str, Any]


@dataclass
class Ended:
    """How one start ended. Times are in seconds from the last start of the run."""

    start: Start
    status: int = 0
    report: JSON | None = None
    reported_at: float | None = None
    """When the first byte of its report came."""
    ended_at: float = 0.0
    stdout: str = ""
    stderr: list[tuple[float, str]] = field(default_factory=list)
    """Its lines on stderr, each with the time when it came."""

    @property
    def name(self) -> str:
        """The host's name."""
        return self.start.host.name


@dataclass
class Run:
    """One run of a launch: how every start ended, and what ``diagnose`` says of all their facts together."""

    ended: list[Ended]
    diagnosis: JSON | None = None
    saved: dict[str, bytes] = field(default_factory=dict)
    """The facts that its processes saved, by the names of the files."""
    others: Others | None = None
    """What others than the run took of the processors meanwhile."""
    began: float = 0.0
    """When its last start was, of the monotonic clock."""

    def slowness(self, until: float) -> float:
        """Return how many times slower others made this machine, up to ``until`` (in seconds from the last start)."""
        return self.others.slowness(self.began, self.began + until) if self.others else 1.0

    def first_naming(self, check: str) -> float | None:
        """Return when the first report with ``check`` as a root came, None if none did."""
        times = [e.reported_at for e in self.ended if e.report and check in root_checks(e.report)]
        return min((t for t in times if t is not None), default=None)

    def describe(self) -> str:
        """Everything it printed, for the message of a comparison that failed."""
        lines = []
        for one in self.ended:
            lines.append(f"--- {one.name}: status {one.status}, ended at {one.ended_at:.1f} s")
            lines += [f"    {at:5.1f}  {line}" for at, line in one.stderr[-25:]]
            lines.append(summary(one.report) if one.report else f"    no report: {one.stdout[:600]!r}")
        lines += ["--- diagnose", summary(self.diagnosis) if self.diagnosis else "    nothing"]
        return "\n".join(lines)


def roots(report: JSON) -> list[JSON]:
    """The findings that follow from no other."""
    return [f for f in report["findings"] if f["because_of"] is None]


def root_checks(report: JSON) -> set[str]:
    """The check ids of the roots."""
    return {f["check"] for f in roots(report)}


def summary(report: JSON) -> str:
    """A report in a few lines."""
    lines = [f"    verdict {report['verdict']} after {report['seconds']:.1f} s"]
    for f in report["findings"]:
        cause = f" (because of {f['because_of']})" if f["because_of"] else ""
        lines.append(f"    {f['severity']} {f['id']} {f['nodes']} {f['blame']}{cause}: {f['summary']}")
        lines += [f"        fix {x['option']} {x['nodes']} {x['env'] or x['flags'] or x['commands'] or x['text']}"
                  for x in f["fixes"]]  # fmt: skip
    return "\n".join(lines)


def run(launch: Launch, diagnose: bool = True) -> Run:
    """Start everything that is to be started, wait for its end and collect what it said. Kills what takes too long."""
    place = Path(tempfile.mkdtemp(prefix="saved-", dir=launch.cluster.shared))
    place.chmod(0o777)
    try:
        with Others() as others:
            ended, began = _run(launch, f"{SHARED}/{place.name}/")
        files = sorted(place.glob("*"))
        saved = {file.name: file.read_bytes() for file in files}
        return Run(ended, diagnosed(files) if diagnose and files else None, saved, others, began)
    finally:
        shutil.rmtree(place)


def diagnosed(files: Sequence[Path]) -> JSON:
    """Return what ``distdoctor diagnose`` says of these files. Raises RuntimeError where that is nothing, or late."""
    command = [sys.executable, "-m", "distdoctor", "diagnose", "--json", *map(str, files)]
    env = {**clean_environment(), "TMPDIR": tempfile.gettempdir()}
    try:
        done = subprocess.run(
            command, cwd=ROOT, env=env, capture_output=True, text=True, check=False, timeout=RUN_LIMIT
        )
        document: JSON = report_in(done.stdout)
    except subprocess.TimeoutExpired:
        raise RuntimeError(f"diagnose: nothing within {RUN_LIMIT} s") from None
    except ValueError:
        raise RuntimeError(f"diagnose: status {done.returncode}: {done.stderr or done.stdout}") from None
    return document


def _run(launch: Launch, place: str) -> tuple[list[Ended], float]:
    starts = sorted((s for s in launch.starts if s.started), key=lambda s: s.delay)
    began = time.monotonic()
    running: list[tuple[Process, Ended]] = []
    threads: list[threading.Thread] = []
    # Reading starts before the time of the last start is known: times are taken absolute and shifted at the end.
    for start in starts:
        time.sleep(max(0.0, began + start.delay - time.monotonic()))
        process, ended = launch.popen(start, "--json", "--save", place), Ended(start)
        running.append((process, ended))
        for reader in (_read_report, _read_lines):
            threads.append(threading.Thread(target=reader, args=(process, ended), daemon=True))
            threads[-1].start()
    last = time.monotonic()
    for process, ended in running:
        try:
            process.wait(timeout=max(0.1, last + RUN_LIMIT - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
        ended.status = process.wait()
    for thread in threads:
        thread.join(timeout=5)
    for _, ended in running:
        ended.ended_at = (ended.ended_at or time.monotonic()) - last
        ended.stderr = [(at - last, line) for at, line in ended.stderr]
        ended.reported_at = ended.reported_at - last if ended.reported_at else None
        ended.report = _parsed(ended.stdout)
    return [ended for _, ended in running], last


def _read_report(process: Process, ended: Ended) -> None:
    assert process.stdout is not None
    first = process.stdout.read(1)
    if first:
        ended.reported_at = time.monotonic()
    ended.stdout = first + process.stdout.read()
    ended.ended_at = time.monotonic()


def _read_lines(process: Process, ended: Ended) -> None:
    assert process.stderr is not None
    for line in process.stderr:
        ended.stderr.append((time.monotonic(), line.rstrip("\n")))


def _parsed(text: str) -> JSON | None:
    try:
        report: JSON = report_in(text)
    except ValueError:
        return None
    return report
