"""nccl/p2p-broken: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import NodeFacts, PeerCopies, RankStage
from tests.checks.row import Cure, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpu_nodes import one
from tests.facts_builder import failing, judged, with_plan, with_variables

CHECK = "nccl/p2p-broken"
WRONG: dict[str, Any] = {"wrong": ((0, 1), (1, 0))}
APART: dict[str, Any] = {"able": 42, "tried": 42, "refused": tuple((5, n) for n in range(8) if n != 5)}


def copied(
    nccl: str = "",
    backend: str = "nccl",
    variables: dict[str, str] | None = None,
    device: dict[str, Any] | None = None,
    **changed: Any,
) -> tuple[NodeFacts, ...]:
    """A node of 8 GPUs; what became of their copies, and of NCCL's group. ``device``: of each, by the driver."""
    devices = dict.fromkeys(range(8), device or {})
    (facts,) = one(backend=backend, driver={"iommu": ("DMA-FQ",), "acs": 3}, devices=devices)
    if nccl == "failed":
        facts = failing(facts, "nccl", "NCCL error, unhandled cuda error")
    elif nccl == "ok":
        ranks = (replace(rank, stages=(*rank.stages, RankStage("nccl", "ok"))) for rank in facts.ranks)
        facts = replace(facts, ranks=tuple(ranks))
    facts = with_variables(with_plan(facts, backend=backend), **(variables or {}))
    return (replace(facts, peers=PeerCopies(**{"devices": 8, "able": 56, "tried": 56, **changed})),)


ROWS = [
    Row("zeros arrive, and NCCL fails", lambda: copied("failed", **WRONG), ("host0",)),
    Row("a copy never ends", lambda: copied(tried=3, endless=(2, 3)), ("host0",)),
    Row("NCCL goes another way", lambda: copied("ok", **WRONG), ("host0",), "warn"),
    Row("NCCL is kept from it", lambda: copied(variables={"NCCL_P2P_DISABLE": "1"}, **WRONG), ("host0",), "warn"),
    Row("kept apart on a fabric", lambda: copied("ok", **APART), ("host0",), "warn"),
]
LOOK_ALIKES = [
    LookAlike("kept apart without a fabric", lambda: copied("ok", device={"fabric": ""}, **APART)),
    LookAlike("told to go through the host", lambda: copied("ok", variables={"NCCL_P2P_DISABLE": "1"}, **APART)),
    LookAlike("all arrive", lambda: copied("ok")),
    LookAlike("the driver says that none can", lambda: copied("ok", able=0, tried=0)),
    LookAlike("no time for all", lambda: copied("ok", tried=12)),
    LookAlike("one could not be tried", lambda: copied("ok", error="0 to 1: CUDA error: out of memory")),
    LookAlike("the job does not use GPUs", lambda: copied(backend="gloo", **WRONG)),
]
CURES = [Cure("through the host", lambda: copied("failed", **WRONG), {"host0": {"env": {"NCCL_P2P_DISABLE": "1"}}})]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_what_redirects_is_told() -> None:
    (root,) = judged(*copied("failed", **WRONG)).roots
    assert any("ACS redirects the writes on 3 PCIe bridges" in line for line in root.evidence)
