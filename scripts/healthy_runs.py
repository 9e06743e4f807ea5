"""Many healthy runs in a row, over all shapes of tests/lab/shapes.py; counts findings of severity fail.

    python scripts/healthy_runs.py [RUNS]          (100)

Exit status 0 if no run had one and every run ended with status 0.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.cluster import why_not
from tests.lab.shapes import SHAPES, run_shape


def main(runs: int) -> int:
    """Run that many, print a line for each that is not healthy and a tally. Gives the exit status."""
    reason = why_not()
    if reason is not None:
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    began, unhealthy, failing = time.monotonic(), 0, 0
    for number in range(runs):
        shape = SHAPES[number % len(SHAPES)]
        wrong, run = run_shape(shape)
        fails = {f["id"] for one in run.ended if one.report for f in one.report["findings"] if f["severity"] == "fail"}
        failing += bool(fails)
        if wrong:
            unhealthy += 1
            sys.stdout.write(f"run {number + 1}, {shape.name}: {'; '.join(wrong)}\n{run.describe()}\n")
        sys.stdout.write(f"\r{number + 1} of {runs}" if sys.stdout.isatty() else "")
        sys.stdout.flush()
    seconds = time.monotonic() - began
    sys.stdout.write(
        f"{runs} healthy runs, {min(runs, len(SHAPES))} shapes, {seconds:.0f} s: "
        f"{failing} with a finding of severity fail, {unhealthy} not as they should be\n"
    )
    return 1 if unhealthy else 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 100))
