"""The scoreboard: every fault of the table, what was named, who was blamed, how soon, and whether the fix works.

    python scripts/scoreboard.py [--only PATTERN] [--part K/N] [--busy] [--repeat N] [--record [DIR]]

PATTERN is part of a case's name, or a pattern as of the shell (``two: *``). --part 1/2 and --part 2/2 run every second
case each, so that two may run side by side, each the other's load. With --busy every core of the machine has as much to
do as it can meanwhile; --repeat runs the table N times; --record keeps the facts of each case that is diagnosed rightly
in DIR (tests/recorded/cases), for ``distdoctor diagnose``. Beside each case stands plain PyTorch's own time to its
first error for the same fault. --program runs any other program on the same faults (benchmark/README.md). Exit status
0 only if every case is exact and its fix verified, 2 where there is no lab.
"""

from __future__ import annotations

import argparse
import compileall
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.cases import ALL_CASES
from tests.lab.harness.case import Case, matches
from tests.lab.harness.examine import Result, examine, unfit
from tests.lab.harness.host import ROOT
from tests.lab.harness.namespaces import LabUnavailable, why_not
from tests.lab.harness.recording import RECORDED, record
from tests.lab.harness.speed import load, slowness
from tests.lab.harness.torch_times import torch_time

NAME, NAMED, BLAMED, TORCH = 64, 40, 26, 27
"""Widths of the columns."""


def cell(text: str, width: int) -> str:
    """The text in a column: cut where it is too long."""
    return text.ljust(width) if len(text) <= width else f"{text[: width - 1]}…"


def row(case: Case, result: Result) -> str:
    """The line of one case."""
    named = " + ".join(dict.fromkeys(finding["check"] for finding in result.named)) or "nothing"
    nodes = [f"{'|' if f['blame'] == 'one-of' else ','}".join(f["nodes"]) for f in result.named]
    seconds = f"{result.seconds:5.1f} s" if result.seconds is not None else "      -"
    columns = (cell(case.name, NAME), cell(named, NAMED), cell(" + ".join(nodes), BLAMED), seconds)
    return "  ".join((*columns, "fixed" if result.cured else "NOT  ", cell(torch_time(case), TORCH), word(result)))


def word(result: Result) -> str:
    """Return ``exact`` or ``NOT EXACT``."""
    return "NOT EXACT" if result.complaints else "exact"


def heading() -> str:
    """The line above all others."""
    columns = (cell("case", NAME), cell("named", NAMED), cell("blamed", BLAMED), "seconds", "fix  ")
    return "  ".join((*columns, cell("plain PyTorch's first error", TORCH), ""))


def progress(text: str) -> None:
    """Print the running case on a terminal; the next line overwrites it."""
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[K{text}")
        sys.stderr.flush()


def say(text: str) -> None:
    """A line of the scoreboard, at once."""
    progress("")
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def run(case: Case, slow: float) -> Result:
    """The case, run to its end whatever happens to the lab, on a machine that others make ``slow`` times slower."""
    try:
        return examine(case, slow)
    except (RuntimeError, OSError, subprocess.SubprocessError) as err:
        return Result([f"{type(err).__name__}: {err}"], [], None, False, slowness=slow)


def tally(results: list[tuple[Case, Result]], skipped: int, seconds: float, where: str) -> str:
    """The lines below: how many are exact, the median time to the verdict and the slowest."""
    exact = sum(not result.complaints for _, result in results)
    lines = [f"{exact} of {len(results)} exact, {skipped} skipped, in {seconds:.0f} s{where}"]
    for what, few in (("2 and 3 nodes", True), ("4 and 5 nodes", False)):
        times = [(r.seconds, c.name) for c, r in results if r.seconds is not None and (c.size <= 3) is few]
        if times:
            slowest, name = max(times)
            median = statistics.median(seconds for seconds, _ in times)
            lines.append(
                f"{what}: median {median:.1f} s to the verdict, slowest {slowest:.1f} s ({name}), of {len(times)}"
            )
    return "\n".join(lines)


def run_all(cases: list[Case], where: str, folder: Path | None = None) -> list[tuple[Case, Result]]:
    """Run the cases in turn, print a line for each and the tally. Gives the results of those that were run.

    The facts of each are kept in ``folder``. A case waits for its nodes as much longer as others made the one before it
    slower, and the first as much as the machine is slow when it begins.
    """
    began, results, skipped, slow = time.monotonic(), list[tuple[Case, Result]](), 0, slowness()
    for number, case in enumerate(cases, start=1):
        progress(f"{number} of {len(cases)}: {case.name}")
        try:
            if reason := unfit(case.needs):
                raise LabUnavailable(reason)
            result = run(case, slow)
        except LabUnavailable as err:
            skipped += 1
            say(f"{cell(case.name, NAME)}  skipped: {err}")
            continue
        slow = result.slowness
        results.append((case, result))
        if folder is not None and result.saved:
            record(folder, case.name, result.saved)
        say(row(case, result))
        for complaint in result.complaints:
            say(f"    {complaint}")
    say(tally(results, skipped, time.monotonic() - began, where))
    return results


def compile_all() -> None:
    """Write the program's bytecode, as whoever installs it does; without, each start would compile all of it anew.

    Where the environment says that none is to be written (PYTHONDONTWRITEBYTECODE), each start would take a second more
    of a slow core.
    """
    for folder in ("distdoctor", "checks"):
        compileall.compile_dir(ROOT / folder, quiet=2)


def part(text: str) -> slice:
    """Return the slice that ``K/N`` names: every Nth case from the Kth on. Raises argparse.ArgumentTypeError."""
    first, _, count = text.partition("/")
    if not (first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part such as 1/2")
    return slice(int(first) - 1, None, int(count))


def main(words: list[str]) -> int:
    """Run the table and print it. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Run the table of faults and print the scoreboard.")
    parser.add_argument("--only", metavar="PATTERN", help="only the cases whose names hold or match this")
    parser.add_argument(
        "--part", type=part, default=slice(None), metavar="K/N", help="only every Nth of them from the Kth on"
    )
    parser.add_argument("--busy", action="store_true", help="keep every core busy meanwhile")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="run the table N times")
    parser.add_argument(
        "--record", nargs="?", type=Path, const=RECORDED / "cases", metavar="DIR", help="keep the facts"
    )
    parser.add_argument("--program", metavar="CMD", help="run this program in distdoctor's place (benchmark/README.md)")
    parser.add_argument("--adapter", default="status", help="how its answer is read: status, torchrun or json")
    flags = parser.parse_args(words)
    if flags.program:
        from benchmark.lab import main as with_program

        only = ["--only", flags.only] if flags.only else []
        return with_program(["--program", flags.program, "--adapter", flags.adapter, *only])
    cases = [case for case in ALL_CASES if matches(flags.only, case.name)][flags.part]
    reason = "no case has such a name" if not cases else why_not()
    if reason is not None:
        sys.stderr.write(f"{reason}\n")
        return 2
    compile_all()
    results: list[tuple[Case, Result]] = []
    say(heading())
    with load(flags.busy):
        for turn in range(1, flags.repeat + 1):
            where = ", on a busy machine" if flags.busy else ""
            where += f", run {turn} of {flags.repeat}" if flags.repeat > 1 else ""
            results += run_all(cases, where, flags.record)
    return 1 if not results or any(r.complaints or not r.cured for _, r in results) else 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        sys.exit(130)
