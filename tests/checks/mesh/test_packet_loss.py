"""mesh/packet-loss: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import ConnectOutcome, Firewall, FirewallChain, Link
from tests.checks.row import BOTH, Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import into, measured, out_of
from tests.facts_builder import blocking, failing, judged, with_meeting, with_network

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


def late_at_the_barrier(late: str = "2", segments: int = 14, **detail: object) -> Facts:
    """Rank 0 waited for ranks of host1, to which a fifth of the packets is lost."""
    facts = []
    for one in measured(2, lossy=[(0, 1)]):
        assert one.mesh is not None
        rates = tuple(replace(r, retransmitted=3, segments=segments) if r.retransmitted else r for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    a, b = facts
    error = f"RuntimeError: [Rank 0]: Ranks {late} failed to pass monitoredBarrier in 8200 ms"
    lost = "RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors while waiting for rank 0"
    return failing(a, "barrier", error), failing(b, "barrier", lost, **detail)


def one_of_four(*rules: str, outcome: ConnectOutcome = "no-answer") -> Facts:
    """host2 loses a third of what comes, and a connection of host1's to it was not even made."""
    facts = []
    for one in measured(4, lossy=into(2, 4) | out_of(2, 4)):
        assert one.mesh is not None
        rates = tuple(replace(r, retransmitted=30) if r.retransmitted else r for r in one.mesh.rates)
        facts.append(replace(one, mesh=replace(one.mesh, rates=rates)))
    a, b, c, d = facts
    assert b.mesh is not None
    rates = tuple(rate for rate in b.mesh.rates if rate.to != c.key)
    dead = Link(c.key, "10.77.0.12", 40000, ("gloo", "nccl", "primary"), outcome, seconds=3.0)
    b = replace(b, mesh=replace(b.mesh, rates=rates, good=2, bad=(dead,)))
    return a, b, with_network(c, firewall=blocking(*rules)) if rules else c, d


def deaf_by_chance() -> Facts:
    """host1 loses a third of what comes to it, and nothing of what it sends: a connection of host0's to it, too."""
    a, b, c = measured(3, lossy=[(2, 1)])
    assert a.mesh is not None and c.mesh is not None
    dead = Link(b.key, "10.77.0.11", 40000, ("gloo", "nccl", "primary"), "no-answer", seconds=3.3)
    a = replace(a, mesh=replace(a.mesh, rates=tuple(r for r in a.mesh.rates if r.to != b.key), good=1, bad=(dead,)))
    rates = tuple(replace(r, retransmitted=5, segments=13) if r.retransmitted else r for r in c.mesh.rates)
    return a, b, replace(c, mesh=replace(c.mesh, rates=rates))


def mute_by_chance() -> Facts:
    """host1's packet filter drops four of ten packets that it sends: of its connections some come to nothing or end."""
    a, b, c = measured(3, lossy=[(2, 1)])
    assert b.mesh is not None and c.mesh is not None
    rates = tuple(replace(r, retransmitted=3, segments=12) if r.retransmitted else r for r in c.mesh.rates)
    c = replace(c, mesh=replace(c.mesh, rates=rates))
    use = ("gloo", "nccl", "primary")
    dead = Link(a.key, "10.77.0.10", 40000, use, "open", dead_after=4898808)
    silent = Link(c.key, "10.77.0.12", 40000, use, "stalled", seconds=4.0)
    b = replace(b, mesh=replace(b.mesh, rates=(), good=0, bad=(dead, silent)))
    rule = FirewallChain(
        "nft", "ip", "filter", "OUTPUT", "output", blocking_rules=("meta oifname eth0 statistic drop",)
    )
    return a, with_network(b, firewall=Firewall(True, chains=(rule,))), c


def with_a_limit_of_ssh() -> Facts:
    """The cable of one node; each has a rule that others may begin so many connections to ssh."""
    facts = measured(4, lossy=into(2, 4) | out_of(2, 4))
    rules = (
        "tcp dport 22 ct state new limit rate over 10/minute drop",
        "-p tcp -m multiport --dports 22,80 hashlimit DROP",
    )
    return tuple(with_network(one, firewall=blocking(*rules)) for one in facts)


BY_CHANCE = "numgen random mod 100 < 30 drop"
SHUT = "ip saddr 10.77.0.11 tcp dport != 29500 drop"

ROWS = [
    Row("a third is lost, and a connection with it", one_of_four, ("host2",), "warn", together=True),
    Row("the same by rule", lambda: one_of_four(BY_CHANCE), ("host2",), "warn", together=True),
    Row("what one node is sent is lost", deaf_by_chance, ("host1", "host2"), "warn", "one-of", together=True),
    Row("some of what one node sends is lost by rule", mute_by_chance, ("host1",), "warn", together=True),
    Row("a limit of ssh's connections is on all", with_a_limit_of_ssh, ("host2",), "warn", together=True),
    Row("payloads are lost", lambda: one_of_four(outcome="stalled"), ("host2",), "warn", together=True),
    Row("loss, two nodes", lambda: measured(2, lossy=[(0, 1), (1, 0)]), BOTH, "warn", "one-of", together=True),
    Row("loss, by rule", lossy_by_rule, ("host1",), "warn", together=True),
    Row("loss, one node", lambda: measured(3, lossy=into(2, 3) | out_of(2, 3)), ("host2",), "warn", together=True),
]

LOOK_ALIKES = [LookAlike("a few retransmissions", a_few_retransmissions)]

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
    )
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


def test_what_shuts_a_port_is_told_beside_the_loss() -> None:
    found = {one.check: one.nodes for one in judged(*one_of_four(BY_CHANCE, SHUT)).roots}
    assert found == {CHECK: ("host2",), "mesh/one-way": ("host2",)}


def test_who_answers_with_a_reset_does_not_lose_it() -> None:
    assert {one.check for one in judged(*one_of_four(outcome="refused")).roots} == {CHECK, "mesh/one-way"}


def test_loss_at_its_peer_does_not_explain_a_silent_link_of_others() -> None:
    a, b, c, d = one_of_four()
    assert b.mesh is not None
    to_d = replace(b.mesh.bad[0], to=d.key, address="10.77.0.13")
    b = replace(b, mesh=replace(b.mesh, bad=(to_d,)))
    assert {one.check for one in judged(a, b, c, d).roots} == {CHECK, "mesh/one-way"}


def test_who_is_late_at_the_barrier_behind_a_link_that_loses_much_is_not_missing() -> None:
    (root,) = judged(*late_at_the_barrier()).roots
    assert (root.check, root.severity, root.blame) == (CHECK, "fail", "one-of")


@pytest.mark.parametrize(
    "facts",
    [
        late_at_the_barrier(segments=90),
        late_at_the_barrier(died=True),
        late_at_the_barrier(" , ,"),
        late_at_the_barrier("9" * 5000),
    ],
    ids=["the link loses little", "a process is gone", "no rank is named", "no rank has that number"],
)
def test_what_else_keeps_a_rank_from_the_barrier_is_told(facts: Facts) -> None:
    assert "barrier/rank-missing" in {root.check for root in judged(*facts).roots if root.severity == "fail"}


def test_a_rank_that_is_stopped_is_not_held_up_by_a_link_that_loses_much() -> None:
    roots = {root.check: root.severity for root in judged(*late_at_the_barrier(state="T")).roots}
    assert roots == {"barrier/rank-stopped": "fail", CHECK: "warn"}
