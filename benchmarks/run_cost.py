"""Cost of ``distdoctor run`` for a job that prints 10 MB/s: its own time, and that of the processor.

    python benchmarks/run_cost.py [ROUNDS]          (7)

The job does a fixed amount of work in steps of some 10 ms and writes 100 kB of log lines after each. It measures its
own time, from its first step to its last, and that of its processor; in turn it is started plainly and by ``distdoctor
run``, with its output into a pipe that is read to nowhere. Its exit status and a signal that ends it are compared, too.
Figures are medians; the start of ``distdoctor run`` and its telling come before and after the job and are told apart.

What is held to the goal is the processor's time of the job: whatever else the machine does is not in it. What following
takes beside the job, on another processor, is that of the whole less the job's and a start's; it is told.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

STEPS = 400
MOST = 0.01
"""The part of the job's time that following it may add."""
JOB = f"""
import os, sys, time, hashlib
line = b"[rank0]: step 1234 | loss 2.3456 | lr 3.0e-04 | grad_norm 1.23 | tokens/s 123456 | elapsed 12:34:56\\n"
block = line * (100_000 // len(line))
data = bytes(8 << 20)
began, busy = time.perf_counter(), time.process_time()
for step in range({STEPS}):
    hashlib.sha256(data[: 1 << 20]).digest() and hashlib.blake2b(data).digest()
    os.write(1, block)
sys.stderr.write(f"{{time.perf_counter() - began}} {{time.process_time() - busy}}\\n")
sys.exit(3)
"""
PLAIN = [sys.executable, "-c", JOB]
START = [sys.executable, "-m", "distdoctor", "run", "--preflight", "off", "--"]
BY_RUN = [*START, *PLAIN]
NOTHING = [*START, sys.executable, "-c", "import sys; sys.stderr.write('0 0\\n'); sys.exit(3)"]


class Once(NamedTuple):
    """One run: seconds."""

    job: float
    job_busy: float
    """Of its processor."""
    whole: float
    busy: float
    """Of the processors, of all."""
    status: int


def once(command: list[str]) -> Once:
    """Run it."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stderr is not None
        while os.read(process.stdout.fileno(), 1 << 20):
            pass
        told = process.stderr.read().split()
        status = process.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Once(float(told[0]), float(told[1]), time.perf_counter() - began, spent, status)


def main(rounds: int) -> int:
    """Measure, tell, and return 1 where the goal is missed."""
    plain, by_run = [], []
    for _ in range(rounds):
        plain.append(once(PLAIN))
        by_run.append(once(BY_RUN))
    start = statistics.median(once(NOTHING).busy for _ in range(3))
    alone, followed = (statistics.median(one.job for one in runs) for runs in (plain, by_run))
    pairs = list(zip(plain, by_run, strict=True))
    added = statistics.median(after.job / before.job for before, after in pairs) - 1
    busier = statistics.median(after.job_busy / before.job_busy for before, after in pairs) - 1
    least = min(one.job_busy for one in by_run) / min(one.job_busy for one in plain) - 1
    whole = [statistics.median(one.whole - one.job for one in runs) for runs in (plain, by_run)]
    beside = statistics.median(after.busy - before.busy for before, after in pairs) - start
    statuses, killed = {one.status for one in (*plain, *by_run)}, [by_signal(words) for words in ([], START)]
    lines = (
        f"job alone {alone:.2f} s, {STEPS * 0.1 / alone:.1f} MB/s; by distdoctor run {followed:.2f} s",
        f"added to the job's processor time: {busier:+.2%} (median of pairs), {least:+.2%} (the least of each)",
        f"added to its time by the clock, of a machine that does nothing else: {added:+.2%} (median of pairs)",
        f"before and after it: {whole[0]:.2f} s alone, {whole[1]:.2f} s; a start takes {start:.2f} s of processor",
        f"following, beside the job: {beside:+.2f} s of processor, {beside / (STEPS / 10) * 1000:+.1f} ms for each MB",
        f"exit statuses {statuses}, by a signal {killed}",
    )
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0 if min(busier, least) < MOST and statuses == {3} and killed[0] == killed[1] else 1


def by_signal(start: list[str]) -> int:
    """Return the exit of a job that a signal ends."""
    command = [*start, "sh", "-c", "kill -USR1 $$"]
    return subprocess.run(command, stderr=subprocess.DEVNULL, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
