"""The check before a job: the same plan, on the same nodes, within a bound, and never in the job's way."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping

import msgspec

from distdoctor.job.own_process import command, end
from distdoctor.launch.job_line import JobLine
from distdoctor.model.launch_variables import SLURM_JOB
from distdoctor.model.report import Report
from distdoctor.model.stages import STAGES
from distdoctor.render.exit_status import FINDINGS, INCOMPLETE, OK

QUICK_STAGE = "network"
"""Up to it each node is looked at alone, without torch."""
QUICK_SECONDS = 20.0
MARGIN_SECONDS = 15.0
TOLD = (OK, FINDINGS, INCOMPLETE)
"""How a check ends that came to its end."""


class NotChecked(Exception):
    """The check did not come to its end; the text says why."""


def check_before(line: JobLine, env: Mapping[str, str], which: str, wait: float | None, timeout: float) -> Report | int:
    """The report of the check, whose progress goes to stderr; its exit status where another process of the launcher's
    tells for all. Raises NotChecked."""
    if line.before and SLURM_JOB not in env:
        raise NotChecked("outside an allocation srun would wait in the queue for it; salloc or sbatch first")
    words = ["check", "--json", *line.flags]
    if which == "quick":
        seconds = QUICK_SECONDS
        words += ["-q", "--until", QUICK_STAGE, "--timeout", f"{seconds / 2:g}", "--wait", f"{seconds / 2:g}"]
    else:
        seconds = (wait or 60.0) + timeout + MARGIN_SECONDS
        words += ["--until", STAGES[-1], "--timeout", f"{timeout:g}", "--wait", f"{wait or 60.0:g}"]
    try:
        process = subprocess.Popen(
            [*line.before, *command(*words)],
            env={**env, **(line.env or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
        )
    except OSError as err:
        raise NotChecked(str(err)) from None
    try:
        out, _ = process.communicate(timeout=seconds)
        return report_of(out) if out.strip() or process.returncode not in TOLD else process.returncode
    except subprocess.TimeoutExpired:
        end(process)
        raise NotChecked(f"it did not end within {seconds:.0f} s") from None
    except ValueError:
        raise NotChecked(f"it ended with exit status {process.returncode}, without a report") from None
    except BaseException:
        end(process)
        raise


def report_of(document: bytes) -> Report:
    """The report that ``--json`` told. Raises ValueError."""
    try:
        return msgspec.convert(json.loads(document), Report)
    except msgspec.ValidationError as err:
        raise ValueError(str(err)) from None
