"""gpu/slow: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from distdoctor.model.facts import DeviceProcess
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.gpu_nodes import NAME, one, several, with_node
from tests.facts_builder import met, node, with_plan

CHECK = "gpu/slow"
OTHERS = {5: {"processes": (DeviceProcess(1 << 22, "train.py", memory=1 << 20),)}}


def speeds(*of: float | None, **changes: Any) -> Facts:
    """One node of 8 GPUs that make so many products per second; the rest 20,000."""
    known = [*of, *[20_000.0] * (8 - len(of))]
    return one(gpus={n: {"speed": speed} for n, speed in enumerate(known)}, **changes)


def nodes(*of: float) -> Facts:
    """Nodes of two ranks; the GPUs of each make so many."""
    return several(*({"gpus": {n: {"speed": speed} for n in range(8)}} for speed in of))


def one_each(*of: float) -> Facts:
    """Nodes of one rank and one GPU, which makes so many."""
    count = len(of)
    planned = (with_plan(node(f"host{n}", n, of=count, nproc=1), backend="nccl") for n in range(count))
    return met(*(with_node(facts, 1, host=n, gpus={0: {"speed": of[n]}}) for n, facts in enumerate(planned)))


def two(first: float, second: float, name: str = NAME) -> Facts:
    """One node of two ranks and GPUs, the second of this model."""
    planned = with_plan(node("host0", 0, of=1, nproc=2, ip="127.0.0.1", master="127.0.0.1"), backend="nccl")
    facts = with_node(planned, 2, gpus={0: {"speed": first}, 1: {"speed": second}}, devices={1: {"name": name}})
    (gpu,) = {rank.gpu for rank in facts.ranks}
    assert gpu is not None
    seen = replace(gpu, visible=(gpu.visible[0], replace(gpu.visible[1], name=name)))
    return met(replace(facts, ranks=tuple(replace(rank, gpu=seen) for rank in facts.ranks)))


ROWS = [
    Row("one of eight", lambda: speeds(9e3), ("host0",), severity="warn"),
    Row(
        "both of a node, its clocks held low", lambda: nodes(2e4, 9e3, 2e4), ("host1",), severity="warn", together=True
    ),
    Row("most of a node, against its best", lambda: speeds(*[9e3] * 5), ("host0",), severity="warn"),
    Row("one of two of a node", lambda: two(2e4, 9e3), ("host0",), severity="warn"),
    Row("alone on its node", lambda: one_each(2e4, 2e4, 2e4, 9e3), ("host3",), severity="warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("two of a node, of unlike models", lambda: two(2e4, 9e3, name="NVIDIA A100")),
    LookAlike("two of a node, a little apart", lambda: two(2e4, 15e3)),
    LookAlike("one of each of two nodes", lambda: one_each(2e4, 9e3)),
    LookAlike("a little slower", lambda: speeds(16_000.0, 21_000.0)),
    LookAlike("all alike", lambda: speeds(*[9_000.0] * 8)),
    LookAlike("not timed", lambda: speeds(None, None)),
    LookAlike("somebody else computes there", lambda: speeds(*[2e4] * 5, 5e3, devices=OTHERS)),
    LookAlike("a node as slow as half of the others", lambda: nodes(2e4, 2e4, 9e3, 9e3)),
    LookAlike("a job on gloo", lambda: speeds(9_000.0, backend="gloo")),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
