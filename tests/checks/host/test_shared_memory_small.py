"""host/shared-memory-small: what it finds, and what it leaves alone."""

from __future__ import annotations

from distdoctor.model.facts import NodeFacts, SharedMemory
from tests.checks.row import BOTH, Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.limits import MIB, ROOMY, nccl_limits, nccl_warns, on
from tests.clusters.rdma_nodes import with_nccl
from tests.facts_builder import judged, with_plan

REFUSED = (
    "misc/shmutils.cc:87 NCCL WARN Error: failed to extend /dev/shm/nccl-wfygza to 34210180 bytes, error: "
    "No space left on device (28)"
)
CHECK = "host/shared-memory-small"


def of_engine(free: int, ranks: int = 2) -> tuple[NodeFacts, ...]:
    """Nodes of vLLM, of which the second has so many MiB of free shared memory, and so many ranks."""
    facts = on((1,), shared_memory=SharedMemory(64 * MIB, free * MIB))
    return tuple(with_plan(one, engine="vLLM", nproc_per_node=ranks, world_size=2 * ranks) for one in facts)


ROWS = [
    Row("64 MiB", lambda: on((1,), shared_memory=SharedMemory(64 * MIB, 64 * MIB)), ("host1",), "warn", together=True),
    Row("64 MiB, NCCL", lambda: nccl_limits(shared_memory=SharedMemory(64 * MIB, 64 * MIB)), ("host1",), together=True),
    Row(
        "64 MiB, and NCCL did without",
        lambda: with_nccl(nccl_limits(shared_memory=SharedMemory(64 * MIB, 64 * MIB))),
        ("host1",),
        "warn",
        together=True,
    ),
    Row("NCCL says so", lambda: nccl_warns(REFUSED, shared_memory=SharedMemory(MIB, MIB)), ("host1",), together=True),
    Row("full, with an engine", lambda: of_engine(0), ("host1",), together=True),
    Row("64 MiB, with an engine", lambda: of_engine(64), ("host1",), "warn", together=True),
    Row("full, with one worker of an engine", lambda: of_engine(0, ranks=1), ("host1",), "warn", together=True),
    Row("full", lambda: on((0, 1), shared_memory=SharedMemory(1 << 34, MIB)), BOTH, "warn", together=True),
]

LOOK_ALIKES = [LookAlike("roomy", lambda: on((0, 1), shared_memory=ROOMY))]

CURES = [
    Cure(
        "a larger /dev/shm",
        lambda: on((1,), shared_memory=SharedMemory(MIB, MIB)),
        {"host1": {"commands": ("mount -o remount,size=16g /dev/shm",)}},
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_less_than_a_mebibyte_is_not_told_as_none() -> None:
    (finding,) = judged(*on((1,), shared_memory=SharedMemory(1 << 16, 1 << 16))).roots
    assert finding.summary == "/dev/shm on host1 is 64 KiB large."
    assert "has 64 KiB, 64 KiB of it free" in finding.evidence[0]
