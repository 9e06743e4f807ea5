"""Runs the jobs of tests/lab/logged/jobs.py in the lab and keeps their logs in tests/recorded/logs.

    python scripts/record_logs.py [--only PATTERN] [--missing] [--earlier PROGRAM FOLDER]

PATTERN is part of a job's name, or a pattern as of the shell; with --missing only those that have no logs yet are run.
The jobs of an earlier torch are only run with --earlier: PROGRAM is a Python, FOLDER holds that torch; PyPI has those
without CUDA for aarch64 only, so the program may be one that starts such a Python under qemu-aarch64.
Exit status 2 where there is no lab.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.harness.case import matches
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.recording import recorded
from tests.lab.logged import earlier
from tests.lab.logged.jobs import JOBS
from tests.lab.logged.recorder import LOGS, PLACES, run, save


def main(words: list[str]) -> int:
    """Run those jobs, one after another, and keep what they wrote. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Runs jobs in the lab and keeps their logs.")
    parser.add_argument("--only", metavar="PATTERN", help="only the jobs whose names hold or match this")
    parser.add_argument("--missing", action="store_true", help="only the jobs that have no logs yet")
    parser.add_argument(
        "--earlier", nargs=2, metavar=("PROGRAM", "FOLDER"), help="run those of an earlier torch with it"
    )
    flags = parser.parse_args(words)
    jobs = [job for job in JOBS if matches(flags.only, job.name) and bool(job.torch) == bool(flags.earlier)]
    reason = (None if flags.earlier else why_not()) if jobs else "no job has such a name"
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    for job in jobs:
        if flags.missing and recorded(LOGS, job.name).exists():
            continue
        began = time.monotonic()
        if flags.earlier:
            program, folder = flags.earlier
            recording = earlier.run(job, program, folder)
            save(job, recording, {folder: "/opt/site", str(Path(program).parent): "/opt/earlier", **PLACES})
        else:
            recording = run(job)
            save(job, recording)
        seconds, size = time.monotonic() - began, recorded(LOGS, job.name).stat().st_size
        sys.stdout.write(f"{job.name}: {len(recording.lines)} lines, {size} bytes, {seconds:.0f} s\n")
        sys.stdout.flush()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
