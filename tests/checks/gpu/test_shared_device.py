"""gpu/shared-device: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import GpuFacts
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import visible, with_node
from tests.clusters.odd import gpu_masks
from tests.facts_builder import met, rank_node, with_gpus, with_plan

CHECK = "gpu/shared-device"


def shared() -> Facts:
    """Two ranks of two that see two devices, started once per rank, both with the mask 1."""
    ones = [rank_node("host0", r, local=r, per_node=2) for r in range(2)]
    second = with_gpus(ones[0], 2).ranks[0].gpu
    assert second is not None
    first, mine = (
        replace(second, cuda_visible_devices="0,1"),
        replace(second, visible=second.visible[1:], cuda_visible_devices="1"),
    )
    mine2 = replace(mine, cuda_visible_devices="1")
    third = rank_node("host0", 2, local=2, per_node=3)
    ones = [rank_node("host0", r, world=3, local=r, per_node=3) for r in range(2)] + [third]
    gpus = (replace(first, visible=(*first.visible, replace(first.visible[0], index=2, uuid="GPU-2"))), mine, mine2)
    return met(
        *(
            replace(with_plan(one, world_size=3, nproc_per_node=3), ranks=(replace(one.ranks[0], gpu=gpu),))
            for one, gpu in zip(ones, gpus, strict=True)
        )
    )


def parts(cut: int) -> Facts:
    """Two ranks, started by themselves, with a part (MIG) each of so many GPUs."""
    nodes = []
    for rank in range(2):
        one = with_node(
            rank_node("host0", rank, local=rank, per_node=2), cut, devices={n: {"mig": True} for n in range(cut)}
        )
        part = replace(visible(0), uuid=f"{rank}" * 8, name="NVIDIA H100 80GB HBM3 MIG 1g.10gb")
        gpu = GpuFacts((part,), cuda_visible_devices=f"MIG-{rank}", architectures=("sm_90",))
        nodes.append(with_plan(replace(one, ranks=(replace(one.ranks[0], gpu=gpu),)), backend="nccl"))
    return met(*nodes)


ROWS = [
    Row("parts of one GPU", lambda: parts(1), ("host0",), together=True),
    Row("shared", shared, ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike("parts of two GPUs", lambda: parts(2)),
    LookAlike("one mask per rank", gpu_masks, "gpu/one-visible-per-rank"),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
