"""gpu/one-visible-per-rank: what it finds, and what it leaves alone.

It has no case in the lab, whose torch has no CUDA.
"""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import GpuFacts, NcclLog, NodeFacts
from tests.checks.row import BOTH, LookAlike, Row, found, left_alone, root
from tests.clusters.gpu_nodes import visible
from tests.clusters.odd import gpu_masks, once_per_rank
from tests.facts_builder import failing, with_identity, with_plan

CHECK = "gpu/one-visible-per-rank"


def seeing(*devices: tuple[int, ...], backend: str = "nccl") -> tuple[NodeFacts, ...]:
    """Ranks of one host, each started by itself, and the GPUs that each sees, from 0 anew."""
    ones = []
    for one, own in zip(once_per_rank(len(devices), len(devices)), devices, strict=True):
        seen = tuple(replace(visible(number), index=place) for place, number in enumerate(own))
        gpu = GpuFacts(seen, cuda_visible_devices=",".join(map(str, own)), architectures=("sm_90",))
        one = with_identity(with_plan(one, backend=backend), backends=("gloo", "nccl"), cuda="12.8")
        ones.append(replace(one, ranks=tuple(replace(rank, gpu=gpu) for rank in one.ranks)))
    return tuple(ones)


def p2p_refused() -> tuple[NodeFacts, ...]:
    """Four tasks of SLURM, whose NCCL cannot open the memory of a GPU that each does not see."""
    log = NcclLog("2.27.5", warnings=("transport/p2p.cc:275 NCCL WARN Cuda failure 101 'invalid device ordinal'",))
    failed = (failing(one, "nccl", "NCCL error") for one in seeing((0,), (1,), (2,), (3,)))
    return tuple(replace(one, ranks=tuple(replace(rank, nccl=log) for rank in one.ranks)) for one in failed)


ROWS = [
    Row("and NCCL says so", p2p_refused, ("host0",), together=True),
    Row("one for each task", gpu_masks, BOTH, severity="warn", together=True),
    Row("of four ranks of a host", lambda: seeing((0,), (1,), (2,), (3,)), ("host0",), "warn", together=True),
    Row("two for each", lambda: seeing((0, 1), (2, 3), (4, 5)), ("host0",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("all GPUs for each task", lambda: seeing((0, 1), (0, 1))),
    LookAlike("one rank with one", lambda: seeing((3,))),
    LookAlike("two for each of two", lambda: seeing((0, 1), (2, 3))),
    LookAlike("a job of gloo", lambda: seeing((0,), (1,), backend="gloo")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_the_ranks_without_the_device_of_their_number_are_named() -> None:
    told = root(*seeing((0,), (1,), (2,), (3,)))
    assert told.ranks == (1, 2, 3) and "local rank 1 has no cuda:1" in told.summary
    assert told.evidence[0] == "host0: local rank 1 sees 1 device(s), CUDA_VISIBLE_DEVICES=1"
