"""mesh/ports-partly-open: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import cut
from tests.facts_builder import blocking, healthy, with_network

CHECK = "mesh/ports-partly-open"


def opened(*ports: tuple[int, int], failed: bool = False) -> Facts:
    """Node 0's filter lets in these ports, and drops the rest."""
    a, b = cut([(1, 0)], 2) if failed else healthy(2)
    return with_network(a, firewall=replace(blocking(policy="drop"), open_ports=ports)), b


ROWS = [
    Row("half of them", lambda: opened((29500, 29500), (32768, 45000)), ("host0",), "warn", together=True),
    Row("all but one", lambda: opened((1, 59998), (60000, 65535)), ("host0",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("all that the kernel picks are open", lambda: opened((29500, 29500), (32768, 60999))),
    LookAlike("a port of something else is open among them", lambda: opened((29500, 29500), (40022, 40022))),
    LookAlike("one that is shut was met", lambda: opened((32768, 45000), failed=True), "mesh/peer-ports-blocked"),
]

CURES = [
    Cure(
        "half of them",
        lambda: opened((29500, 29500), (32768, 45000)),
        {
            "host0": {
                "commands": ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' meta l4proto tcp accept",)
            }
        },
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
