"""Check before a job: the same plan, on the same nodes, within a time limit, and without disturbing the job."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping

import msgspec

from distdoctor.job.subprocess import command, end
from distdoctor.logs.endings import PROGRESS
from distdoctor.model.launch_variables import SLURM_JOB
from distdoctor.model.report import Report
from distdoctor.model.stages import STAGES
from distdoctor.plan.job_command import JobLine
from distdoctor.render.exit_status import FINDINGS, INCOMPLETE, OK

QUICK_STAGE = "network"
"""Last stage of the quick check: each node is checked alone, without torch."""
QUICK_SECONDS = 20.0
MARGIN_SECONDS = 15.0
ENDED = (OK, FINDINGS, INCOMPLETE)
"""Exit statuses of a check that reached its end."""


class NotChecked(Exception):
    """The check did not reach its end; the text has the reason."""


def check_before(line: JobLine, env: Mapping[str, str], which: str, wait: float | None, timeout: float) -> Report | int:
    """Return the report of the check, whose progress goes to stderr; its exit status if another process of the
    launcher's prints for all. Raises NotChecked."""
    if line.before[:1] and os.path.basename(line.before[0]) == "srun" and SLURM_JOB not in env:
        raise NotChecked("outside an allocation srun would wait in the queue for it; salloc or sbatch first")
    words = ["check", "--json"]
    if which == "quick":
        seconds = QUICK_SECONDS
        words += ["-q", "--until", QUICK_STAGE, "--timeout", f"{seconds / 2:g}", "--wait", f"{seconds / 2:g}"]
    else:
        seconds = (wait or 60.0) + timeout + MARGIN_SECONDS
        words += ["--until", STAGES[-1], "--timeout", f"{timeout:g}", "--wait", f"{wait or 60.0:g}"]
    try:
        process = subprocess.Popen(
            [*line.before, *command(*words, "--", *line.inner)],
            env={**env, **(line.env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
    except OSError as err:
        raise NotChecked(str(err)) from None
    try:
        out, _ = process.communicate(timeout=seconds)
        return report_of(out) if out.strip() or process.returncode not in ENDED else process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        raise NotChecked(f"it did not end within {seconds:.0f} s") from None
    except ValueError:
        raise NotChecked(f"it ended with exit status {process.returncode}, without a report") from None
    except BaseException:
        end(process)
        raise


def report_of(document: bytes) -> Report:
    """Return the report of a ``--json`` document. Raises ValueError."""
    try:
        return msgspec.convert(json.loads(document), Report)
    except msgspec.ValidationError as err:
        raise ValueError(str(err)) from None


# Movement of a job by its output: steps whose numbers change, and lines of a new kind.
#
# A job that hangs may go on writing: an agent that still waits for others, a watchdog that counts the seconds.


EVERY = 1.0
"""Seconds between two samples: a job that writes much is not read twice."""
SAMPLE = 4096
KINDS = 5000
_VALUE = re.compile(rb"0x[0-9a-f]+|\d+")


class Movement:
    """Movement in the output of a job."""

    def __init__(self) -> None:
        self._kinds: set[bytes] = set()
        self._last: set[bytes] = set()
        self._heard = 0.0
        self.since = time.monotonic()
        """Time of the last movement."""

    def hear(self, data: bytes) -> None:
        """Take a piece of its output."""
        now = time.monotonic()
        if now - self._heard < EVERY:
            return
        self._heard = now
        lines = {line.strip() for line in re.split(rb"[\r\n]+", data[-SAMPLE:])} - {b""}
        kinds = {_VALUE.sub(b"0", line)[:160] for line in lines}
        steps = any(PROGRESS.search(line[-600:].decode(errors="replace")) for line in lines - self._last)
        if steps or not kinds <= self._kinds:
            self.since = now
        self._last = lines
        if len(self._kinds) < KINDS:
            self._kinds |= kinds
