"""gpu/fewer-than-ranks: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Gpu, GpuFacts, NodeFacts
from tests.checks.row import LookAlike, Row, fixes, found, left_alone, root
from tests.clusters.gpu_nodes import one, visible, with_node
from tests.clusters.odd import eight_gpus, once_per_rank
from tests.facts_builder import met, node, with_gpus, with_identity, with_plan, with_variables

CHECK = "gpu/fewer-than-ranks"


ROWS = [
    Row(
        "fewer GPUs",
        lambda: met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))),
        ("host1",),
        together=True,
    )
]


def each_its_own() -> tuple[NodeFacts, ...]:
    """Started once per rank by a launcher that gives each rank one device, which torch before 2.4 cannot tell apart."""
    gpu = GpuFacts((Gpu(0, "NVIDIA H100"),), cuda_visible_devices="0")
    return tuple(replace(one, ranks=(replace(one.ranks[0], gpu=gpu),)) for one in once_per_rank(4, 2))


def two_on_one(nccl: str = "2.30.7") -> tuple[NodeFacts, ...]:
    """Two ranks on one GPU, which NCCL is told to allow."""
    one = with_variables(with_gpus(node("host0", 0, of=1, nproc=2), 1), NCCL_MULTI_RANK_GPU_ENABLE="1")
    return met(with_identity(one, backends=("gloo", "nccl"), cuda="12.8", nccl=nccl))


ROWS.append(Row("NCCL does not know that setting yet", lambda: two_on_one("2.29.7"), ("host0",)))

LOOK_ALIKES = [
    LookAlike("NCCL is told to let two have one", two_on_one),
    LookAlike("each rank its own", each_its_own),
    LookAlike("as many as ranks", eight_gpus),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_fewer_gpus_means_fewer_ranks() -> None:
    (fix,) = fixes(*met(*(with_gpus(node(f"host{n}", n, nproc=8), 8 - n) for n in range(2))))
    assert (fix.nodes, fix.flags) == (("host1",), {"--nproc-per-node": "7"})


@pytest.mark.parametrize(
    ("launcher", "flags"),
    [
        ("torchrun", {"--nproc-per-node": "2"}),
        ("SLURM", {"--ntasks-per-node": "2"}),
        ("Open MPI", {"-N": "2"}),
        ("Horovod", {}),
    ],
)
def test_the_launcher_is_told_by_its_own_flag(launcher: str, flags: dict[str, str]) -> None:
    two = GpuFacts((visible(0), visible(1)))
    nodes = (with_plan(facts, backend="nccl", launcher=launcher) for facts in once_per_rank(4, 4))
    told = fixes(*(replace(one, ranks=tuple(replace(rank, gpu=two) for rank in one.ranks)) for one in nodes))
    assert [(fix.text, fix.flags) for fix in told] == [("Start 2 ranks on host0, one per visible GPU.", flags)]


def test_what_the_container_was_given_is_said() -> None:
    (facts,) = one(count=1, driver={"on_bus": 8, "files": ("/dev/nvidia0",)})
    told = root(with_variables(facts, NVIDIA_VISIBLE_DEVICES="0"))
    assert "NVIDIA_VISIBLE_DEVICES=0 in its container" in told.evidence[0]


def test_a_gpu_that_is_cut_up_hides_the_others() -> None:
    part = (replace(visible(0), uuid="abcd", name="NVIDIA H100 80GB HBM3 MIG 1g.10gb"),)
    found = root(*one(devices={3: {"mig": True}}, torch={"visible": part}))
    assert found.id == CHECK and "MIG is on for GPU 3" in " ".join(found.evidence)
    assert found.fixes[0].commands == ("nvidia-smi -i 3 -mig 0",)


def test_a_mask_that_hides_what_is_there_is_another_way() -> None:
    four = tuple(visible(n) for n in range(4))
    told = fixes(*one(torch={"cuda_visible_devices": "0,1,2,3", "visible": four}))
    assert [(fix.option, bool(fix.flags)) for fix in told] == [(1, True), (2, False)]
    assert "8 of its 8 GPUs" in told[1].text


def test_masks_that_give_two_ranks_the_same_gpu() -> None:
    """As a launcher gives them out by the local rank halved: what is wrong is not the number of ranks."""
    nodes = []
    for number, facts in enumerate(once_per_rank(4, 4)):
        half = number // 2
        seen = GpuFacts((replace(visible(half), index=0),), cuda_visible_devices=str(half))
        facts = with_node(with_plan(facts, backend="nccl"), 4)
        nodes.append(replace(facts, ranks=tuple(replace(rank, gpu=seen) for rank in facts.ranks)))
    told = root(*nodes)
    assert told.id == CHECK and "CUDA_VISIBLE_DEVICES='0' and '1'" in told.evidence[0]
    assert "a different one for each rank" in told.fixes[0].text
    assert [fix.option for fix in told.fixes] == [1, 2]
