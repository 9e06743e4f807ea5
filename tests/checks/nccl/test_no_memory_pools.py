"""nccl/no-memory-pools: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import NcclLog
from tests.checks.row import Facts, LookAlike, Row, found, left_alone, root
from tests.clusters.gpu_nodes import one
from tests.facts_builder import failing

CHECK = "nccl/no-memory-pools"
VIRTUAL = {n: {"memory_pools": False} for n in range(8)}
NOT_SUPPORTED = "init.cc:426 NCCL WARN Cuda failure 'operation not supported'"


def failed(warning: str = NOT_SUPPORTED, pools: bool | None = False) -> Facts:
    """A node whose NCCL group cannot be made, with these words."""
    (facts,) = one(gpus={n: {"memory_pools": pools} for n in range(8)})
    facts = failing(facts, "nccl", "DistBackendError: NCCL error, unhandled cuda error")
    log = NcclLog("2.27.5", warnings=(warning,))
    return (replace(facts, ranks=tuple(replace(rank, nccl=log) for rank in facts.ranks)),)


ROWS = [Row("NCCL wants one", failed, ("host0",))]

LOOK_ALIKES = [
    LookAlike("NCCL does without", lambda: one(gpus=VIRTUAL)),
    LookAlike("it has them", lambda: failed(pools=True), "nccl/init-failed"),
    LookAlike("not known", lambda: failed(pools=None), "nccl/init-failed"),
    LookAlike("something else", lambda: failed("NCCL WARN Cuda failure 'invalid argument'"), "nccl/init-failed"),
]


def test_the_remedy_is_the_hypervisors() -> None:
    told = root(*failed())
    assert "enable_uvm" in told.fixes[0].text and any(NOT_SUPPORTED in line for line in told.evidence)


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
