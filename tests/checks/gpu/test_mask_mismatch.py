"""gpu/mask-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import GpuFacts, NodeFacts
from tests.checks.row import LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import of_amd, one, several, visible, with_node
from tests.facts_builder import met, node, with_plan, with_variables

CHECK = "gpu/mask-mismatch"

TWO = tuple(visible(n) for n in range(2))


def of_rocm(outer: str, inner: str, seen: int) -> tuple[NodeFacts, ...]:
    """With both of AMD's masks, through which torch sees so many."""
    facts = several({"torch": {"visible": tuple(visible(n) for n in range(seen))}, "driver": {"devices": ()}})
    return tuple(with_variables(one, ROCR_VISIBLE_DEVICES=outer, HIP_VISIBLE_DEVICES=inner) for one in facts)


def hidden(name: str, mask: str) -> tuple[NodeFacts, ...]:
    """AMD's GPUs, of which torch sees none through this mask."""
    (facts,) = of_amd()
    none = GpuFacts(reason="No HIP GPUs are available")
    return (with_variables(replace(facts, ranks=tuple(replace(r, gpu=none) for r in facts.ranks)), **{name: mask}),)


def alone(**changes: Any) -> tuple[NodeFacts, ...]:
    """One node of one rank."""
    facts = with_plan(node("host0", 0, of=1, nproc=1, ip="127.0.0.1", master="127.0.0.1"), backend="nccl")
    return met(with_node(facts, **changes))


ROWS = [
    Row("AMD's, hidden by HIP's", lambda: hidden("HIP_VISIBLE_DEVICES", ""), ("host0",)),
    Row("AMD's, hidden by CUDA's name for it", lambda: hidden("CUDA_VISIBLE_DEVICES", "-1"), ("host0",)),
    Row("AMD's, hidden below HIP", lambda: hidden("ROCR_VISIBLE_DEVICES", "none"), ("host0",)),
    Row("AMD's, counted as if there were one mask", lambda: of_rocm("4,5,6,7", "2,3,4,5", 2), ("host0",)),
    Row("beyond the last", lambda: several({"torch": {"visible": TWO[:1], "cuda_visible_devices": "0,9"}}), ("host0",)),
    Row(
        "another node's names",
        lambda: one(torch={"visible": (), "cuda_visible_devices": "GPU-1-0,GPU-1-1"}),
        ("host0",),
    ),
    Row("SLURM's word for none", lambda: one(torch={"visible": (), "cuda_visible_devices": "NoDevFiles"}), ("host0",)),
    Row("numbers without commas", lambda: one(torch={"visible": TWO[:1], "cuda_visible_devices": "0 1 2"}), ("host0",)),
    Row("semicolons", lambda: one(torch={"visible": TWO[:1], "cuda_visible_devices": "0;1"}), ("host0",)),
    Row("ends early", lambda: one(torch={"visible": TWO[:1], "cuda_visible_devices": "0,-1,1"}), ("host0",)),
    Row(
        "the beginning of several names",
        lambda: one(torch={"visible": (), "cuda_visible_devices": "GPU-0-1,GPU-0"}),
        ("host0",),
    ),
    Row("twice the same", lambda: one(torch={"visible": (), "cuda_visible_devices": "0,0"}), ("host0",)),
    Row(
        "a part, and no GPU is cut up",
        lambda: one(torch={"visible": (), "cuda_visible_devices": "MIG-5f0d7a52-1111"}),
        ("host0",),
    ),
    Row("hides all", lambda: one(torch={"visible": (), "cuda_visible_devices": ""}), ("host0",)),
    Row(
        "beyond the last, and one for each rank that is started",
        lambda: alone(torch={"visible": TWO[:1], "cuda_visible_devices": "0,9"}),
        ("host0",),
        "warn",
    ),
]

LOOK_ALIKES = [
    LookAlike(
        "AMD's, seen by none for another reason",
        lambda: hidden("ROCR_VISIBLE_DEVICES", "GPU-4f1f3ed0d5c90c28"),
        "gpu/none-visible",
    ),
    LookAlike("AMD's, counted among those that are left", lambda: of_rocm("4,5,6,7", "0,1,2,3", 4)),
    LookAlike(
        "ends where the ranks end", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "0,1,-1"}})
    ),
    LookAlike("blanks", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": " 0, 1 "}})),
    LookAlike("two of eight", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "0,1"}})),
    LookAlike(
        "hidden on purpose, for a job on processors",
        lambda: one("gloo", torch={"visible": (), "cuda_visible_devices": ""}),
    ),
    LookAlike(
        "a part by MIG",
        lambda: several({"torch": {"visible": TWO[:1], "cuda_visible_devices": "MIG-a,MIG-b"}}),
        "gpu/fewer-than-ranks",
    ),
    LookAlike("by UUID", lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "GPU-0-0,GPU-0-1"}})),
    LookAlike(
        "a digit that is no number",
        lambda: several({"torch": {"visible": TWO, "cuda_visible_devices": "0,1,\N{SUPERSCRIPT TWO}"}}),
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
