"""Many healthy runs in a row, over all shapes of tests/lab/cases/healthy.py; counts findings of severity fail.

    python scripts/healthy_runs.py [RUNS] [--only PATTERN] [--busy] [--record [DIR]]          (each shape once)

PATTERN is part of a shape's name, or a pattern as of the shell. With --busy every core of the machine has as much to
do as it can meanwhile; --record keeps the facts of each healthy run in DIR (tests/recorded/healthy). Exit status 0 if
every run passed without any finding, 2 where there is no lab.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.cases.healthy import SHAPES
from tests.lab.harness.case import matches
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.recording import RECORDED, record
from tests.lab.harness.shape import run_shape
from tests.lab.harness.speed import load


def main(words: list[str]) -> int:
    """Run that many, print a line for each that is not healthy and a tally. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Many healthy runs in a row; counts findings of severity fail.")
    parser.add_argument("runs", nargs="?", type=int, metavar="RUNS")
    parser.add_argument("--only", metavar="PATTERN", help="only the shapes whose names hold or match this")
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--record", nargs="?", type=Path, const=RECORDED / "healthy", metavar="DIR", help="keep facts")
    flags = parser.parse_args(words)
    shapes = [shape for shape in SHAPES if matches(flags.only, shape.name)]
    runs = flags.runs or len(shapes)
    reason = why_not() if shapes else "no shape has such a name"
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    began, unhealthy, failing = time.monotonic(), 0, 0
    with load(flags.busy):
        for number in range(runs):
            shape = shapes[number % len(shapes)]
            wrong, run = run_shape(shape)
            found = [f for one in run.ended if one.report for f in one.report["findings"]]
            failing += any(f["severity"] == "fail" for f in found)
            if flags.record is not None and run.saved and not wrong:
                record(flags.record, shape.name, run.saved)
            if wrong:
                unhealthy += 1
                sys.stdout.write(f"run {number + 1}, {shape.name}: {'; '.join(wrong)}\n{run.describe()}\n")
            sys.stdout.write(f"\r{number + 1} of {runs}" if sys.stdout.isatty() else "")
            sys.stdout.flush()
    where = " on a busy machine" if flags.busy else ""
    sys.stdout.write(
        f"{runs} healthy runs{where}, {min(runs, len(shapes))} shapes, {time.monotonic() - began:.0f} s: "
        f"{failing} with a finding of severity fail, {unhealthy} not as they should be\n"
    )
    return 1 if unhealthy else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
