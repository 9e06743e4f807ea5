"""environment/backend-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.gpus import gpus as with_gpus
from tests.facts_builder import healthy, with_plan

CHECK = "environment/backend-mismatch"


def given(*backends: str, gpus: bool = True) -> Facts:
    """Nodes with these backends, with GPUs or without."""
    nodes = with_gpus(len(backends)) if gpus else healthy(len(backends))
    return tuple(with_plan(one, backend=backend) for one, backend in zip(nodes, backends, strict=True))


ROWS = [
    Row("gloo and nccl", lambda: given("gloo", "nccl"), BOTH, blame="one-of", together=True),
    Row("gloo on one of three", lambda: given("nccl", "gloo", "nccl"), ("host1",), together=True),
    Row("gloo on one, none given on the others", lambda: given("auto", "auto", "gloo"), ("host2",), together=True),
    Row("nccl for both devices", lambda: given("cpu:gloo,cuda:nccl", "nccl", "nccl"), ("host0",), together=True),
    Row("cuda differs", lambda: given("cpu:gloo,cuda:gloo", "auto"), BOTH, blame="one-of", together=True),
]

LOOK_ALIKES = [
    LookAlike("cpu:gloo and gloo", lambda: given("cpu:gloo", "gloo", gpus=False)),
    LookAlike("cpu:gloo and gloo, with GPUs", lambda: given("cpu:gloo", "gloo")),
    LookAlike("none given and gloo, no GPUs", lambda: given("auto", "gloo", gpus=False)),
    LookAlike("none given and what that is", lambda: given("auto", "cpu:gloo,cuda:nccl")),
    LookAlike("in another order", lambda: given("cuda:nccl,cpu:gloo", "cpu:gloo,cuda:nccl")),
]

CURES = [
    Cure("as most have it", lambda: given("nccl", "gloo", "nccl"), {"host1": {"flags": {"--backend": "nccl"}}}),
    Cure("none", lambda: given("auto", "gloo", "auto"), {"host1": {"flags": {"--backend": None}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
