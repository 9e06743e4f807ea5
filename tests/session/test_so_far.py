"""What is said while waiting may still cure it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.findings import Finding
from distdoctor.session.so_far import so_far, waiting_since


@pytest.mark.parametrize(
    ("evidence", "said"),
    [
        (("host0: 1 of 3 nodes came in 4 s (--wait 600): host0",), "still waiting for node[1-2] (4 s of 600 s)"),
        (
            ("host1: waited 4 s for host0:29500; at last 10.77.0.10 port 29500: refused",),
            "still waiting for node[1-2] (4 s of 600 s); at last 10.77.0.10 port 29500: refused",
        ),
        ((), "still waiting for node[1-2] (4 s of 600 s)"),
    ],
)
def test_nobody_has_never_come_before_the_waiting_ends(evidence: tuple[str, ...], said: str) -> None:
    finding = Finding("node1 never came within 4 s.", nodes=("node1", "node2"), evidence=evidence)
    assert (
        so_far(replace(_as(finding, "store/nodes-missing"), incomplete=True), 596.3, 600.0)
        == f"so far: store/nodes-missing: {said}"
    )


def test_another_finding_is_told_as_it_is() -> None:
    finding = _as(Finding("host0 refuses port 29500."), "network/port-refused")
    line = "so far: network/port-refused: host0 refuses port 29500. Still waiting (4 s of 60 s)."
    assert so_far(finding, 56.0, 60.0) == line


@pytest.mark.parametrize(("launched", "since"), [(100.0, 100.0), (99.4, 99.4), (98.6, 99.0), (40.0, 99.0)])
def test_the_user_waits_from_the_command_on(launched: float, since: float) -> None:
    """On a quiet machine, that is: who was slow to start himself gives the others as long."""
    assert waiting_since(100.0, launched) == since


def _as(finding: Finding, check: str) -> Finding:
    return replace(finding, check=check, id=check)
