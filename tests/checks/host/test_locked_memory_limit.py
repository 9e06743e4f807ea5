"""host/locked-memory-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.limits import nccl_limits, on

CHECK = "host/locked-memory-limit"


ROWS = [Row("memlock 8 MiB", lambda: nccl_limits(rdma_devices=("mlx5_0",)), ("host1",), "warn", together=True)]

LOOK_ALIKES = [
    LookAlike("unlimited", lambda: on((0, 1), open_files=-1, locked_memory=-1, rdma_devices=("mlx5_0",))),
    LookAlike("root, or a pod with IPC_LOCK", lambda: nccl_limits(rdma_devices=("mlx5_0",), may_lock_memory=True)),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
