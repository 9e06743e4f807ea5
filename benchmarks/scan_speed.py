"""Speed of reading logs, against ``grep -F -f`` with the same literals on the same file: MB/s, and the most memory.

    python benchmarks/scan_speed.py [MEGABYTES]

The file is the log of a large job: 64 ranks in one file, steps, NCCL's lines, warnings, a failure at its end.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from distdoctor.judge.catalog import load
from distdoctor.logs.scanner import Scanner
from distdoctor.logs.tracebacks import TRIGGERS

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


def write(path: Path, megabytes: int) -> None:
    """A log of that size."""
    chance = random.Random(8)
    lines = []
    for number in range(20_000):
        rank = chance.randrange(64)
        kind = chance.random()
        if kind < 0.9:
            lines.append(
                f"[rank{rank}]: 2026-01-01 12:00:{number % 60:02d},{number % 1000:03d} INFO "
                f"train.py:{chance.randrange(300)} step={number} loss={chance.random():.5f} lr=1.0e-4 "
                f"grad_norm={chance.random():.3f} tokens/s=1{number}"
            )
        elif kind < 0.98:
            lines.append(
                f"gpu{rank // 8:02d}:{4000 + rank}:{5000 + rank} [{rank % 8}] NCCL INFO Channel {number % 32:02d}/0 : "
                f"{rank}[{rank % 8}] -> {(rank + 1) % 64}[{(rank + 1) % 8}] via P2P/CUMEM/read"
            )
        else:
            lines.append(f"[rank{rank}]: /opt/lib/site.py:{number}: FutureWarning: this will change, and does no harm")
    piece = ("\n".join(lines) + "\n").encode()
    with path.open("wb") as file:
        for _ in range(max(megabytes * 1_000_000 // len(piece), 1)):
            file.write(piece)
        file.write(b"[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n")


def main() -> None:
    """Measure, and print a line for each."""
    megabytes = int(sys.argv[1]) if len(sys.argv) > 1 else 1000
    with tempfile.TemporaryDirectory() as folder:
        path, literals = Path(folder) / "job.log", Path(folder) / "literals"
        write(path, megabytes)
        size = path.stat().st_size / 1e6
        known = Scanner({check.id: check.log for check in load()}, TRIGGERS).literals
        literals.write_bytes(b"\n".join(literal.strip(b"\r\n") for literal in known) + b"\n")
        subprocess.run(["cat", str(path)], check=True, stdout=subprocess.DEVNULL)  # both find it in the page cache
        began = time.monotonic()
        subprocess.run(["grep", "-c", "-F", "-f", str(literals), str(path)], check=False, capture_output=True)
        grep = time.monotonic() - began
        done = subprocess.run([sys.executable, "-c", WORKER, str(path)], check=True, capture_output=True, text=True)
        seconds, ran, most, found = json.loads(done.stdout)
        lines = (
            f"{size:.0f} MB, {len(known)} literals",
            f"grep -F -f   {size / grep:6.0f} MB/s",
            f"distdoctor   {size / seconds:6.0f} MB/s, {size / ran:.0f} on a processor of its own, "
            f"{most:.0f} MiB at most: {', '.join(found)}",
        )
        sys.stdout.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
