"""Time of a healthy check with four groups of a mesh, as a ratio to one without, on two hosts of four ranks.

    python benchmarks/groups.py [PAIRS]          (5)

The two are run in turn, so that both see the same machine; the figure is the ratio of the medians, in one run. Times
are from the first start to the last end, and those of the processor.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR, PORT
from tests.lab.harness.namespaces import why_not

SHAPE = ("--nnodes", "2", "--nproc-per-node", "4", "--master-port", str(PORT))
GROUPS = ("--mesh", "dp=2,tp=4", "--groups", "2")
"""Each rank belongs to four groups and the default one."""
MOST = 1.5
"""The ratio is to be at most this."""


def seconds(cluster: Cluster, *more: str) -> tuple[float, float]:
    """Run one check on all hosts. Return its seconds, and those of the processor. Raises RuntimeError if one fails."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    running = [
        host.popen(
            [*DISTDOCTOR, "check", *SHAPE, "--node-rank", str(host.index), "--master-addr", cluster[0].name, *more],
            stdout=subprocess.DEVNULL,
        )
        for host in cluster
    ]
    errors = [process.communicate(timeout=240)[1] for process in running]
    taken, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if any(process.returncode for process in running):
        raise RuntimeError(f"a check did not pass: {errors}")
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main(pairs: int) -> int:
    """Measure and print. Return 1 if the ratio is too high, 2 without a lab."""
    if (reason := why_not()) is not None:
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    plain, grouped = [], []
    with Cluster(2) as cluster:
        seconds(cluster)  # compiled files and caches
        for _ in range(pairs):
            plain.append(seconds(cluster))
            grouped.append(seconds(cluster, *GROUPS))
    ratios = []
    for which, name in enumerate(("time", "processor")):
        alone, more = (statistics.median(one[which] for one in runs) for runs in (plain, grouped))
        ratios.append(more / alone)
        sys.stdout.write(f"{name}: {alone:.2f} s without groups, {more:.2f} s with 4: ratio {more / alone:.2f}\n")
    return int(ratios[0] > MOST)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 5))
