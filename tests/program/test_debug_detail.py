"""TORCH_DISTRIBUTED_DEBUG=DETAIL: what monitored_barrier() does to later collectives, in plain PyTorch and here."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.helpers.runs import check, environment, failures, stages
from tests.helpers.servers import unused_port

PLAIN = """
import os, sys
from datetime import timedelta
import torch, torch.distributed as dist
port, world, own = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3] == "own"
children = []
for rank in range(world):
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            store = dist.TCPStore("127.0.0.1", port, None, rank == 0, timedelta(seconds=20), False)
            dist.init_process_group("gloo", store=store, rank=rank, world_size=world, timeout=timedelta(seconds=20))
            group = dist.new_group() if own else None
            dist.monitored_barrier(group, timedelta(seconds=10), wait_all_ranks=True)
            value = torch.ones(1)
            dist.all_reduce(value)
            status = 0 if value.item() == world else 2
            store.add("done", 1)
            while rank == 0 and store.add("done", 0) < world:
                pass
        except RuntimeError as err:
            status = 3 if "Detected mismatch between collectives" in str(err) else 4
            os._exit(status)
        finally:
            os._exit(status)
    children.append(pid)
print(*(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children))
"""


@pytest.mark.parametrize(("group", "statuses"), [("the default", {3}), ("own", {0})])
def test_plain_torch_with_a_barrier_in_the_group(group: str, statuses: set[int]) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(unused_port()), "4", group],
        env=environment(TORCH_DISTRIBUTED_DEBUG="DETAIL"),
        capture_output=True,
        text=True,
        check=True,
        timeout=90,
    )
    assert {int(word) for word in done.stdout.split()} == statuses, done.stderr[-2000:]


@pytest.mark.parametrize(
    "level", ["DETAIL", *(pytest.param(level, marks=pytest.mark.scoreboard) for level in ("OFF", "INFO"))]
)
def test_four_ranks_pass(level: str) -> None:
    status, report = check("--nproc-per-node", "4", TORCH_DISTRIBUTED_DEBUG=level)
    assert (status, failures(report), stages(report)["collective"]) == (0, [], "pass")
