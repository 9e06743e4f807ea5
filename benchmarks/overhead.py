"""Time of a healthy check against the smallest job of the same shape under torchrun.

    python benchmarks/overhead.py [PAIRS]          (7)

The job only does init_process_group("gloo") and a barrier. The two are run in turn, pair by pair, so that both see
the same machine; the figure is the median of the pairs' ratios. Times are from the first start to the last end.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import DISTDOCTOR, PORT
from tests.lab.harness.namespaces import why_not

JOB = "import torch.distributed as d\nd.init_process_group('gloo')\nd.barrier()\nd.destroy_process_group()\n"
SHAPES = ((2, 2, 0.55), (1, 8, 0.25))
"""Hosts, ranks on each, and what the ratio is to be at most."""


def seconds(cluster: Cluster, command: tuple[str, ...], nproc: int, *after: str) -> float:
    """Start the command on all hosts at once and wait for all. Raises RuntimeError where one fails."""
    shape = ("--nnodes", str(len(cluster)), "--nproc-per-node", str(nproc), "--master-port", str(PORT))
    began = time.perf_counter()
    processes = [
        host.popen(
            [*command, *shape, "--node-rank", str(host.index), "--master-addr", cluster[0].name, *after],
            stdout=subprocess.DEVNULL,
        )
        for host in cluster
    ]
    errors = [process.communicate(timeout=120)[1] for process in processes]
    taken = time.perf_counter() - began
    if any(process.returncode for process in processes):
        raise RuntimeError(f"{' '.join(command)} failed: {errors}")
    return taken


def main(pairs: int) -> int:
    """Measure and print. Gives exit status 1 where a ratio is above its limit."""
    reason = why_not()
    if reason is not None:
        sys.stderr.write(f"no lab here: {reason}\n")
        return 2
    too_slow = False
    for hosts, nproc, limit in SHAPES:
        with Cluster(hosts) as cluster:
            job = cluster.put("job.py", JOB)
            measured = []
            for _ in range(pairs):
                check = seconds(cluster, (*DISTDOCTOR, "check"), nproc)
                torchrun = seconds(cluster, (sys.executable, "-m", "torch.distributed.run"), nproc, job)
                measured.append((check, torchrun))
        ratio = statistics.median(check / torchrun for check, torchrun in measured)
        too_slow |= ratio > limit
        sys.stdout.write(
            f"{hosts} host(s) x {nproc} ranks: check {statistics.median(c for c, _ in measured):.2f} s, "
            f"torchrun {statistics.median(t for _, t in measured):.2f} s, "
            f"median ratio of {pairs} pairs {ratio:.2f} (at most {limit})\n"
        )
        sys.stdout.flush()
    return int(too_slow)


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else 7))
