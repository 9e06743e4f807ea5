"""Cost of starting each command that answers at once: time, processor time and memory.

    python benchmarks/start.py [--runs 9]
    python benchmarks/start.py --imports    the import of each dependency alone, beside an empty start of Python

Each is run as by hand, on this machine alone, after one run that does not count (compiled files, caches): its help, a
usage error, a page, a message, a log of a few lines, the search for jobs that hang, what a prolog runs, and a whole
check of two ranks, which imports torch. It prints medians; of the memory the most that one process of it had.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
MESSAGE = "connect [127.0.1.1]:41904: Connection refused"
LOG = f"step 1 loss 2.1\n[rank0]: Traceback (most recent call last):\n[rank0]: RuntimeError: {MESSAGE}\n"
COMMANDS = (
    ("--version", ()),
    ("--help", ()),
    ("check --until X", ("check", "--until", "X")),
    ("list", ()),
    ("explain ID", ("explain", "gloo/loopback-address")),
    ("explain MESSAGE", ("explain", MESSAGE)),
    ("diagnose LOG", ("diagnose", "{log}")),
    ("hang", ()),
    ("check --dry-run", ("check", "--dry-run")),
    ("check --until network", ("check", "--until", "network")),
    ("check", ("check", "--standalone")),
)
"""Label of each, and its words if these are others. None of them finds anything but what its words say."""


IMPORTS = (
    "typer",
    "rich.console",
    "psutil",
    "msgspec",
    "ClusterShell.NodeSet",
    "ahocorasick_rs",
    "jinja2",
    "mcp",
    "grpc",
)
"""The dependencies and extras; py-spy is a program of its own."""


def started(*words: str) -> tuple[float, float, float]:
    """Seconds, processor seconds and MiB of one run of this Python."""
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**env, "PYTHONPATH": str(ROOT)},
    )
    _, status, spent = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return time.perf_counter() - began, spent.ru_utime + spent.ru_stime, spent.ru_maxrss / 1024


def _measured(label: str, runs: int, *words: str) -> tuple[float, float]:
    """Print the medians of some runs after one that does not count; return the least time and processor time."""
    started(*words)
    seconds, busy, memory = zip(*(started(*words) for _ in range(runs)), strict=True)
    sys.stdout.write(
        f"{label:<22} {statistics.median(seconds):5.2f} s, at best {min(seconds):.2f}; of the processor "
        f"{statistics.median(busy):.2f} s, at best {min(busy):.2f}; {statistics.median(memory):.0f} MiB\n"
    )
    sys.stdout.flush()
    return min(seconds), min(busy)


def main(words: Sequence[str]) -> int:
    """Measure and print. Gives the exit status."""
    parser = argparse.ArgumentParser(description="Measure what it costs to start a command.")
    parser.add_argument("--runs", type=int, default=9)
    parser.add_argument("--imports", action="store_true")
    flags = parser.parse_args(words)
    runs = flags.runs
    for name in ("sys", *IMPORTS) if flags.imports else ():
        _seconds, busy, memory = zip(*(started("-c", f"import {name}") for _ in range(runs)), strict=True)
        sys.stdout.write(f"{name:<22} {min(busy) * 1000:5.0f} ms of the processor, {min(memory):.0f} MiB\n")
    if flags.imports:
        return 0
    bare = _measured("python -c pass", runs, "-c", "pass")
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "train.log"
        log.write_text(LOG)
        for label, given in COMMANDS:
            command = [word.format(log=log) for word in given or (label,)]
            busy = _measured(label, runs, "-m", "distdoctor", *command)
            if label == "--help":
                ratios = (one / of_bare for one, of_bare in zip(busy, bare, strict=True))
                sys.stdout.write("  of bare Python's time: {:.1f}; of its processor time: {:.1f}\n".format(*ratios))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
