"""environment/host-ip-copied: what it finds, and what it leaves alone."""

from __future__ import annotations

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.facts_builder import address, healthy, with_variables

CHECK = "environment/host-ip-copied"


def nodes_with(name: str, *values: str) -> Facts:
    """Node i has the i-th value."""
    nodes = healthy(len(values))
    return tuple(with_variables(node, **{name: value}) for node, value in zip(nodes, values, strict=True))


ROWS = [
    Row(
        "node 0's on both",
        lambda: nodes_with("VLLM_HOST_IP", address(0), address(0)),
        ("host1",),
        "warn",
        together=True,
    ),
    Row(
        "node 2's on all 3",
        lambda: nodes_with("PET_LOCAL_ADDR", *[address(2)] * 3),
        ("host0", "host1"),
        "warn",
        together=True,
    ),
]

LOOK_ALIKES = [
    LookAlike("each its own", lambda: nodes_with("VLLM_HOST_IP", address(0), address(1))),
    LookAlike("the host of both pods", lambda: nodes_with("HOST_IP", "192.168.1.7", "192.168.1.7")),
    LookAlike("a name", lambda: nodes_with("NODE_IP", "host0", "host0")),
    LookAlike("all addresses", lambda: nodes_with("POD_IP", "0.0.0.0", "0.0.0.0")),
]

CURES = [
    Cure(
        "its own",
        lambda: nodes_with("VLLM_HOST_IP", address(0), address(0)),
        {"host1": {"env": {"VLLM_HOST_IP": address(1)}}},
        only=True,
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
