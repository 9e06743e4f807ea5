"""The table of hung jobs: what ``distdoctor hang`` named on each host, whom it blamed, and how soon.

    python scripts/hang_table.py [--only PATTERN] [--times N] [--at-once N]

PATTERN is part of a row's name, or a pattern as of the shell. Each host is inspected --times (20) times in a row before
its job goes on, and once where it cannot; --at-once jobs run side by side. Exit status 0 only if every row is exact and
every job that can go on ends with right results, 2 where there is no lab.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.hang.examine import TIMES, Result, run_all
from tests.lab.hang.table import ALL_JOBS, ROWS
from tests.lab.harness.case import matches
from tests.lab.harness.namespaces import why_not
from tests.lab.harness.runner import roots

NAME, FROM, NAMED, BLAMED = 50, 6, 40, 22
"""Widths of the columns."""


def cell(text: str, width: int) -> str:
    """The text in a column: cut where it is too long."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def line(result: Result) -> str:
    """The line of one look."""
    named, blamed, seconds = "no report", "", "     -"
    if result.look is not None and result.look.nothing:
        named = "no job there"
    elif result.report is not None:
        found = [finding for finding in roots(result.report) if finding["severity"] == "fail"]
        named = " + ".join(finding["check"] for finding in found) or f"nothing ({result.report['verdict']})"
        blamed = " + ".join(f"{','.join(f['nodes'])} {f['ranks'] or ''}".strip() for f in found)
    if result.seconds is not None:
        seconds = f"{result.seconds:4.1f} s"
    place = f"host{result.look.on}" if result.look else ""
    columns = (cell(result.row.name, NAME), cell(place, FROM), cell(named, NAMED), cell(blamed, BLAMED), seconds)
    return "  ".join((*columns, "NOT EXACT" if result.complaints else "exact"))


def tell(results: list[Result]) -> None:
    """Print the lines of one job, as soon as it has ended."""
    lines = [one for result in results for one in (line(result), *(f"    {said}" for said in result.complaints))]
    sys.stdout.write("".join(f"{one}\n" for one in lines))
    sys.stdout.flush()


def tally(results: list[Result], seconds: float) -> str:
    """The lines below: how many are exact, and the times to the report."""
    by_row = {row.name: [result for result in results if result.row is row] for row in ROWS}
    mine = {name: found for name, found in by_row.items() if found}
    healthy = [row.name for row in ROWS if row.moves and row.name in mine]
    exact = [name for name, found in mine.items() if not any(result.complaints for result in found)]
    looks = sum(not result.complaints for result in results)
    text = (
        f"{len(exact)} of {len(mine)} rows exact ({len(healthy)} healthy, {len(set(healthy) & set(exact))} of them "
        f"exact), {looks} of {len(results)} looks, in {seconds:.0f} s"
    )
    times = [(result.seconds, result.row.name) for result in results if result.seconds is not None]
    if times:
        slowest, name = max(times)
        text += (
            f"\nmedian {statistics.median(t for t, _ in times):.1f} s to the report, slowest {slowest:.1f} s ({name})"
        )
    return text


def main(words: list[str]) -> int:
    """Run the table and print it. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Run the table of hung jobs and print it.")
    parser.add_argument("--only", metavar="PATTERN", help="only the rows whose names hold or match this")
    parser.add_argument("--times", type=int, default=TIMES, metavar="N", help="inspect each host N times in a row")
    parser.add_argument("--at-once", type=int, default=4, metavar="N", help="run N jobs side by side")
    flags = parser.parse_args(words)
    chosen = {row.name for row in ROWS if matches(flags.only, row.name)}
    reason = "no row has such a name" if not chosen else why_not()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    began = time.monotonic()
    results = run_all(ALL_JOBS, chosen, at_once=flags.at_once, times=flags.times, tell=tell)
    sys.stdout.write(f"{tally(results, time.monotonic() - began)}\n")
    return 1 if any(result.complaints for result in results) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
