"""Speed of reading and judging logs: MB/s, the most memory, and the growth of the time with the log.

    python benchmarks/scan_speed.py [MEGABYTES]     (400) the log of a large job, beside ``grep -F -f``
    python benchmarks/scan_speed.py KIND [LINES]    (100000) that kind of log, and one of twice the lines; 3 pairs
                                                    kinds: half, info, tracebacks, alike

All are of 64 ranks in one file. In ``half`` every second line is a known one; ``info`` is NCCL_DEBUG=INFO; the others
have nothing but tracebacks, or lines of one kind, no two with the same text.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from distdoctor.judge.catalog import load
from distdoctor.logs.scanner import Scanner
from distdoctor.logs.tracebacks import TRIGGERS
from tests.logs.large_logs import KINDS, write

WORKER = """
import json, resource, sys, time
from pathlib import Path
from distdoctor.judge.catalog import load
from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
checks = load()
began, ran = time.monotonic(), time.process_time()
logs = Collector({check.id: check.log for check in checks}).collect([Path(sys.argv[1])]).logs
judged = judge_logs(logs, checks)
seconds, ran = time.monotonic() - began, time.process_time() - ran
most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, ran, most, [finding.id for finding in judged.findings]]))
"""
PIECE = 100_000
"""Lines of the sparse log that are written again and again."""


def read(path: Path) -> tuple[float, float, float, list[str]]:
    """Return the seconds by the clock and of a processor, the MiB and the findings of one run."""
    done = subprocess.run([sys.executable, "-c", WORKER, str(path)], check=True, capture_output=True, text=True)
    seconds, ran, most, found = json.loads(done.stdout)
    return seconds, ran, most, found


def beside_grep(folder: Path, megabytes: int) -> None:
    """Measure the sparse log, and print a line for each reader."""
    path, literals = folder / "job.log", folder / "literals"
    piece = write(path, "sparse", PIECE)
    size = write(path, "sparse", PIECE, max(megabytes * 1_000_000 // piece, 1)) / 1e6
    known = Scanner({check.id: check.log for check in load()}, TRIGGERS).literals
    literals.write_bytes(b"\n".join(literal.strip(b"\r\n") for literal in known) + b"\n")
    subprocess.run(["cat", str(path)], check=True, stdout=subprocess.DEVNULL)  # both find it in the page cache
    began = time.monotonic()
    subprocess.run(["grep", "-c", "-F", "-f", str(literals), str(path)], check=False, capture_output=True)
    grep = time.monotonic() - began
    seconds, ran, most, found = read(path)
    lines = (
        f"{size:.0f} MB, {len(known)} literals",
        f"grep -F -f   {size / grep:6.0f} MB/s",
        f"distdoctor   {size / seconds:6.0f} MB/s, {size / ran:.0f} on a processor of its own, "
        f"{most:.0f} MiB at most: {', '.join(found)}",
    )
    sys.stdout.write("\n".join(lines) + "\n")


def growth(folder: Path, kind: str, count: int) -> None:
    """Measure logs of ``count`` lines and of twice as many in pairs, and print the medians."""
    once, twice = folder / "once.log", folder / "twice.log"
    size = write(once, kind, count) / 1e6, write(twice, kind, 2 * count) / 1e6
    pairs = [(read(once), read(twice)) for _ in range(3)]
    for number, place in ((count, 0), (2 * count, 1)):
        ran = statistics.median(pair[place][1] for pair in pairs)
        most = max(pair[place][2] for pair in pairs)
        sys.stdout.write(
            f"{kind} {number}: {size[place]:.1f} MB in {ran:.2f} s of a processor, {size[place] / ran:.1f} MB/s, "
            f"{most:.0f} MiB at most\n"
        )
    ratio = statistics.median(pair[1][1] / pair[0][1] for pair in pairs)
    sys.stdout.write(f"{kind}: twice the log takes {ratio:.2f} times the time\n")


def main() -> None:
    """Measure what the arguments name."""
    kind = sys.argv[1] if len(sys.argv) > 1 else "400"
    with tempfile.TemporaryDirectory() as folder:
        if kind in KINDS:
            growth(Path(folder), kind, int(sys.argv[2]) if len(sys.argv) > 2 else 100_000)
        else:
            beside_grep(Path(folder), int(kind))


if __name__ == "__main__":
    main()
