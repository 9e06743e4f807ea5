"""mesh/packet-loss: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import into, measured, out_of
from tests.facts_builder import blocking, with_network

CHECK = "mesh/packet-loss"


def lossy_by_rule() -> Facts:
    a, b = measured(2, lossy=[(0, 1), (1, 0)])
    return a, with_network(b, firewall=blocking("numgen random mod 100 < 20 drop"))


def a_few_retransmissions() -> Facts:
    facts = []
    for one in measured(3):
        assert one.mesh is not None
        rates = tuple(replace(r, retransmitted=2) for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    return tuple(facts)


ROWS = [
    Row("loss, two nodes", lambda: measured(2, lossy=[(0, 1), (1, 0)]), BOTH, "warn", "one-of", together=True),
    Row("loss, by rule", lossy_by_rule, ("host1",), "warn", together=True),
    Row("loss, one node", lambda: measured(3, lossy=into(2, 3) | out_of(2, 3)), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("a few retransmissions", a_few_retransmissions),
]

CURES = [
    Cure(
        "filter by chance",
        lossy_by_rule,
        {
            "host1": {
                "commands": (
                    "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' meta l4proto tcp accept",
                )
            }
        },
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)
