"""mesh/packet-loss: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import into, measured, out_of
from tests.facts_builder import blocking, judged, with_meeting, with_network

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


def out_of_sight() -> Facts:
    """host1 loses so much of what is sent to it that it was not heard any more."""
    facts = []
    for one in measured(3, lossy=into(1, 3) | out_of(1, 3)):
        assert one.mesh is not None
        rates = tuple(replace(r, retransmitted=8, segments=13) if r.retransmitted else r for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    a, b, c = facts
    return with_meeting(a, lost=(b.key,)), with_meeting(b, host_lost=True, ended=True), c


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


def test_a_node_that_goes_out_of_sight_for_it_is_no_failure_of_its_own() -> None:
    result = judged(*out_of_sight())
    assert [(one.check, one.nodes, one.severity) for one in result.roots] == [(CHECK, ("host1",), "fail")]
    assert "store/node-lost" in {one.check for one in result.findings}


def test_alone_too_it_knows_that_its_links_lose_packets() -> None:
    (root,) = judged(with_network(out_of_sight()[1], master_name="host0")).roots
    assert (root.check, root.blame, set(root.nodes)) == (CHECK, "one-of", {"host0", "host1", "host2"})
