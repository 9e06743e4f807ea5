"""host/shared-memory-permission: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import SharedMemory
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import ROOMY, nccl_limits, nccl_warns, on
from tests.clusters.rdma_nodes import with_nccl

REFUSED = (
    "misc/shmutils.cc:73 NCCL WARN Error: failed to create shared memory file /dev/shm/nccl-K54hnb, error "
    "Read-only file system (30)"
)
CLOSED = replace(ROOMY, writable=False, read_only=True)
CHECK = "host/shared-memory-permission"


def read_only() -> Facts:
    return on((1,), shared_memory=CLOSED)


ROWS = [
    Row("closed", lambda: on((1,), shared_memory=replace(ROOMY, writable=False)), ("host1",), "warn", together=True),
    Row("closed, NCCL", lambda: nccl_limits(shared_memory=replace(ROOMY, writable=False)), ("host1",), together=True),
    Row(
        "closed, and NCCL did without",
        lambda: with_nccl(nccl_limits(shared_memory=replace(ROOMY, writable=False))),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("read-only, NCCL says so", lambda: nccl_warns(REFUSED, shared_memory=CLOSED), ("host1",), together=True),
    Row(
        "missing",
        lambda: on((0,), shared_memory=SharedMemory(error="No such file or directory", writable=False)),
        ("host0",),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [LookAlike("roomy", lambda: on((0, 1), shared_memory=ROOMY))]

CURES = [Cure("read-only", read_only, {"host1": {"commands": ("mount -o remount,rw /dev/shm",)}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
