"""Cost of `hang` on a job: the time to the verdict, and what a job that trains loses meanwhile.

    python benchmarks/inspect_cost.py [ROUNDS]          (5)

One host of 8 ranks, started by plain ``env://``. First they are held (rank 5 sleeps), and the time from the start of
``distdoctor hang`` to its end is taken, with its stacks and without. Then they train: in turn, steps are counted while
nobody looks and while one inspection after the other looks. Figures are medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.hang.row import Job
from tests.lab.hang.running import Running
from tests.lab.hang.table_words import USER_CODE
from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.runner import roots

RANKS = 8
WITHIN = {"off": 3.0, "auto": 3.0, "on": 10.0}
"""Values of ``--stacks``, each with the longest allowed time to the verdict in seconds."""
WINDOW = 5.0
"""Seconds for which steps are counted at a time."""
HELD = 5
JOB = Job("8 ranks", ("init", f"sleep@{HELD}:s", "count:t"), hosts=1, nproc=RANKS)


def verdict_time(running: Running, stacks: str) -> float:
    """Seconds that one inspection takes. Raises RuntimeError where it does not name the rank that is held."""
    began = time.perf_counter()
    done = running.cluster[0].run([*DISTDOCTOR, "hang", "--json", "--stacks", stacks], timeout=60)
    seconds = time.perf_counter() - began
    named = [(found["check"], found["ranks"]) for found in roots(json.loads(done.stdout or '{"findings": []}'))]
    if named != [(USER_CODE, [HELD])]:
        raise RuntimeError(f"status {done.returncode}, {named or 'nothing'} is named: {done.stderr}")
    return seconds


def steps_per_second(running: Running, stacks: str | None) -> tuple[float, int]:
    """Steps per second of the job in one window, and how many inspections were made in it."""
    before, began, looks = _steps(running), time.perf_counter(), 0
    process = None
    while time.perf_counter() - began < WINDOW:
        if stacks is not None and (process is None or process.poll() is not None):
            command = [*DISTDOCTOR, "hang", "--json", "--stacks", stacks]
            process = running.cluster[0].popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            looks += 1
        time.sleep(0.02)
    speed = (_steps(running) - before) / (time.perf_counter() - began)
    if process is not None:
        process.wait(timeout=60)
    return speed, looks


def _steps(running: Running) -> int:
    return (running.folder / "steps").stat().st_size


def main(rounds: int) -> int:
    """Measure and print. Gives exit status 1 where a verdict takes longer than it should."""
    reason = why_not()
    if reason is not None:
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    too_slow = False
    with Cluster(1) as cluster:
        running = Running(JOB, cluster)
        running.start(0)
        running.wait_for(1, set(range(RANKS)), 120)
        for stacks, limit in WITHIN.items():
            times = [verdict_time(running, stacks) for _ in range(rounds)]
            too_slow |= statistics.median(times) > limit
            say(
                f"{RANKS} ranks that hang, --stacks {stacks}: verdict in {statistics.median(times):.2f} s, "
                f"slowest {max(times):.2f} s (goal {limit:g} s)"
            )
        running.release(JOB.steps[1])
        running.wait_for(2, set(range(RANKS)), 60)
        time.sleep(2)
        measured: dict[str | None, list[tuple[float, int]]] = {None: [], **{stacks: [] for stacks in WITHIN}}
        for _ in range(rounds):
            for kind, found in measured.items():
                found.append(steps_per_second(running, kind))
        alone = statistics.median(speed for speed, _ in measured[None])
        say(f"{RANKS} ranks that train: {alone:.1f} steps/s while nobody looks")
        for kind in WITHIN:
            speed = statistics.median(speed for speed, _ in measured[kind])
            looks = sum(looks for _, looks in measured[kind])
            say(
                f"    {speed:.1f} steps/s ({speed / alone - 1:+.0%}) while one inspection with --stacks {kind} follows "
                f"the other, {looks} in {rounds * WINDOW:g} s"
            )
        running.release(JOB.steps[2])
        if wrong := running.ends_well(60):
            say(f"the job did not end well: {wrong}")
            return 1
    return int(too_slow)


def say(text: str) -> None:
    """A line of the result, at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
