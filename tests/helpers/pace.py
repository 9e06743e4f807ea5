"""Time as a ratio: what a piece of work costs beside other work that is timed in the same test.

A bound in seconds says as much about the machine as about the program. Tests of time are marked ``perf`` and run alone,
after all others.
"""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence

COUNT = 1024


def yardstick() -> float:
    """Processor seconds of this process for a fixed piece of work: tuples, names and a large dict.

    A quarter of a second on a quiet machine. A core that shares its caches and its clock with others takes up to twice
    as long, also by its own clock.
    """
    started = time.process_time()
    links = {(f"gpu{n % COUNT:04}", n): (n, n + 1) for n in range(300_000)}
    assert sum(n % 3 == 0 for _, n in links) == 100_000
    return time.process_time() - started


def yardsticks(work: Callable[[], object]) -> float:
    """Processor time of ``work`` in this process, in yardsticks timed right before and right after it."""
    before, started = yardstick(), time.process_time()
    work()
    spent = time.process_time() - started
    return spent / max(before, yardstick())


def cost(command: Sequence[str], env: Mapping[str, str] | None = None) -> float:
    """Processor seconds of a command and of all that it waits for; raises if the command fails."""
    before = sum(os.times()[2:4])
    subprocess.run(command, env=env, stdout=subprocess.DEVNULL, check=True)
    return sum(os.times()[2:4]) - before
