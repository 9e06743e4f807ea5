"""Tests of which addresses node 0 says let in only so many new connections in a time."""

from __future__ import annotations

import pytest

from distdoctor.model.facts import Firewall, FirewallChain, LateConnections, NodeFacts
from distdoctor.session.leader.inbox import Participant
from distdoctor.session.stages.mesh import limited_addresses
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
    b = with_network(b, late_connections=(LateConnections("10.77.0.10", 2, 1, repeated),))
    assert limited(with_network(a, firewall=Firewall(False)), b) == addresses
