"""What the real torchrun does where its nodes are started with different rendezvous backends: it hangs in silence."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from tests.lab.harness.cluster import Cluster
from tests.lab.harness.launch import PORT

JOB = "import torch.distributed as d; d.init_process_group('gloo'); d.barrier(); d.destroy_process_group()\n"
HANGS = 15.0
"""Seconds after which a start that takes some five counts as hanging."""


def statuses(cluster: Cluster, c10d: tuple[int, ...], seconds: float) -> list[int | None]:
    """How torchrun ends on each host, None where it has not after ``seconds``; the hosts of ``c10d`` use that."""
    processes, script = [], cluster.put("job.py", JOB)
    for host in cluster:
        if host.index in c10d:
            flags = ["--rdzv-backend", "c10d", "--rdzv-endpoint", f"{cluster[0].address}:{PORT}"]
        else:
            flags = ["--node-rank", str(host.index), "--master-addr", cluster[0].address]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--nnodes", "2", "--nproc-per-node", "1"]
        processes.append(host.popen([*torchrun, *flags, script], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    end = time.monotonic() + seconds
    while any(p.poll() is None for p in processes) and time.monotonic() < end:
        time.sleep(0.05)
    ended = [p.poll() for p in processes]
    for process in processes:
        process.kill()
    return ended


@pytest.mark.scoreboard
@pytest.mark.long
@pytest.mark.parametrize("c10d", [(0,), (1,)])
def test_nodes_with_different_rendezvous_backends_hang(c10d: tuple[int, ...]) -> None:
    with Cluster(2) as cluster:
        assert 0 not in statuses(cluster, c10d, HANGS)
    with Cluster(2) as cluster:
        assert statuses(cluster, (), 60) == [0, 0]
    with Cluster(2) as cluster:
        assert statuses(cluster, (0, 1), 60) == [0, 0]
