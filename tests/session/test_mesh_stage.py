"""Tests of which addresses node 0 says let in only so many new connections in a time."""

from __future__ import annotations

import pytest

from distdoctor.model.facts import Contact, Firewall, FirewallChain, LateConnections, NodeFacts
from distdoctor.session.leader.inbox import Participant
from distdoctor.session.stages.mesh import joined_late, limited_addresses, seconds_to_pass
from tests.facts_builder import blocking, healthy, with_network


def limited(*facts: NodeFacts) -> tuple[str, ...]:
    return limited_addresses([Participant(number, one, 40000) for number, one in enumerate(facts)])


@pytest.mark.parametrize(
    "rule",
    [
        "tcp flags syn limit rate over 1/second drop",
        "-p tcp --syn -m hashlimit --hashlimit-above 1/second --hashlimit-name lab -j DROP",
        "tcp flags syn hashlimit DROP",
        "-p tcp -m recent --update --seconds 60 --hitcount 4 -j DROP",
    ],
)
def test_a_nodes_own_rule_says_so(rule: str) -> None:
    a, b = healthy(2)
    assert limited(with_network(a, firewall=blocking(rule)), b) == ("10.77.0.10",)


def test_a_rule_that_accepts_so_many_does() -> None:
    a, b = healthy(2)
    chain = FirewallChain("nft", "inet", "f", "in", "input", "drop", (), ("tcp flags syn limit rate 3/minute accept",))
    assert limited(with_network(a, firewall=Firewall(True, chains=(chain,))), b) == ("10.77.0.10",)


@pytest.mark.parametrize(
    "rule",
    [
        "tcp dport 1024-65535 drop",
        "tcp dport 22 limit rate over 3/minute drop",
        "tcp flags syn ct count over 4 drop",
        "tcp flags syn limit rate over 1000/second drop",
    ],
)
def test_no_other_rule_does(rule: str) -> None:
    a, b = healthy(2)
    assert limited(with_network(a, firewall=blocking(rule)), b) == ()


@pytest.mark.parametrize(("repeated", "addresses"), [(3, ("10.77.0.10",)), (1, ())])
def test_syns_that_were_sent_again_for_the_store_say_so_too(repeated: int, addresses: tuple[str, ...]) -> None:
    """One of them may have been lost by chance."""
    a, b = healthy(2)
    b = with_network(b, late_connections=(LateConnections("10.77.0.10", 2, 1, repeated, 2),))
    assert limited(with_network(a, firewall=Firewall(False)), b) == addresses


@pytest.mark.parametrize(("seconds", "late"), [(0.2, False), (3.1, True)])
def test_a_node_that_repeated_its_first_syn_gives_the_store_more_time(seconds: float, late: bool) -> None:
    a, b = healthy(2)
    b = with_network(b, contact=Contact("10.77.0.10", 29500, "open", seconds=seconds))
    assert joined_late([Participant(number, one, 40000) for number, one in enumerate((a, b))]) is late


@pytest.mark.parametrize(
    ("rule", "seconds"),
    [("limit rate over 1/second drop", 16.0), ("limit rate over 900/second drop", 0.0), ("hashlimit drop", None)],
)
def test_a_rule_that_shows_its_rate_shows_the_seconds_that_it_costs(rule: str, seconds: float | None) -> None:
    a, b = healthy(2)
    everyone = [
        Participant(0, with_network(a, firewall=blocking(f"tcp flags syn {rule}")), 40000),
        Participant(1, b, 1),
    ]
    assert [seconds_to_pass(one, ranks=4) for one in everyone] == [seconds, 0.0]
