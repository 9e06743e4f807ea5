"""nccl/gpudirect: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import DriverFacts, NcclLog, NodeFacts
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.rdma_nodes import several
from tests.facts_builder import judged

CHECK = "nccl/gpudirect"
DIRECT, COPIED = "NET/IB/GDRDMA", "NET/IB"
DEVICES = ("mlx5_0:1/RoCE", "mlx5_1:1/RoCE")


def sent(*ways: tuple[str, ...], devices: tuple[str, ...] = DEVICES) -> tuple[NodeFacts, ...]:
    """Nodes whose channels go these ways; the last one has these ``devices``."""
    nodes = several(*[{} for _ in ways])
    logs = [NcclLog(network="IB", devices=DEVICES, channels=dict.fromkeys(way, 4)) for way in ways]
    logs[-1] = replace(logs[-1], devices=devices)
    return tuple(
        replace(one, ranks=tuple(replace(rank, nccl=log) for rank in one.ranks))
        for one, log in zip(nodes, logs, strict=True)
    )


ROWS = [
    Row(
        "one node without the module",
        lambda: sent((DIRECT, "P2P/CUMEM"), (DIRECT,), (COPIED, "P2P/CUMEM")),
        ("host2",),
        "warn",
        together=True,
    )
]
LOOK_ALIKES = [
    LookAlike("all have it", lambda: sent((DIRECT,), (DIRECT,), (DIRECT,))),
    LookAlike("none has it", lambda: sent((COPIED,), (COPIED,), (COPIED,))),
    LookAlike("half of them", lambda: sent((DIRECT,), (COPIED,))),
    LookAlike("another machine", lambda: sent((DIRECT,), (DIRECT,), (COPIED,), devices=("mlx4_0:1/IB",))),
    LookAlike("a GPU far from the adapter", lambda: sent((DIRECT,), (DIRECT,), (COPIED, DIRECT))),
    LookAlike("a node without channels to others", lambda: sent((DIRECT,), (DIRECT,), ("P2P/CUMEM",))),
]


def test_a_module_that_is_loaded_is_not_to_be_loaded_again() -> None:
    nodes = sent((DIRECT,), (DIRECT,), (COPIED,))
    lacks, has = (
        tuple(replace(one, driver=replace(one.driver or DriverFacts(), peermem=loaded)) for one in nodes)
        for loaded in (False, True)
    )
    (without,) = judged(*lacks).roots
    assert without.fixes[0].commands == ("modprobe nvidia-peermem",)
    assert "nvidia-peermem is not loaded" in without.evidence[0]
    (loaded,) = judged(*has).roots
    assert loaded.fixes[0].commands == () and "ACS" in loaded.fixes[0].text


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
