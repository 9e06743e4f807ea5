"""network/port-rejected: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.checks.row import LookAlike, Row, found, left_alone, root
from tests.clusters.master import own_rule, service, shut
from tests.facts_builder import UNREAD, blocking, with_network

CHECK = "network/port-rejected"


ROWS = [
    Row("rejected", lambda: shut("rejected", rules=("tcp dport 29500 reject",)), ("host0",)),
    Row(
        "a service leads to node 0, which rejects it", lambda: service("rejected", "tcp dport 29500 reject"), ("host0",)
    ),
    Row("node 0 knows its own rule", lambda: own_rule("reject"), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "no answer",
        lambda: shut("no-answer", control="refused", rules=("tcp dport 29500 drop",)),
        "network/port-filtered",
    )
]


@pytest.mark.parametrize(
    ("sender", "blamed"),
    [
        ("", ("host1", "host0")),
        ("10.77.0.11", ("host1",)),
        ("10.77.0.10", ("host0",)),
        ("10.77.0.1", ("host1", "host0")),
    ],
)
def test_who_said_so_is_who_rejects_it(sender: str, blamed: tuple[str, ...]) -> None:
    """Only root may read the rules; who sent the ICMP error is told to everybody."""
    a, b = shut("rejected")
    assert b.network is not None and b.network.contact is not None
    b = with_network(b, contact=replace(b.network.contact, icmp_from=sender), firewall=UNREAD)
    one = root(with_network(a, firewall=UNREAD), b)
    assert one.nodes == blamed
    between = "On 10.77.0.1, a router or firewall between the nodes, allow TCP port 29500 of 10.77.0.10."
    assert ([fix.text for fix in one.fixes] == [between]) is (sender == "10.77.0.1")
    assert (f"{sender} sent the rejection" in " ".join(one.evidence)) is bool(sender)


FORWARDS = "fib daddr type local tcp dport 29500 dnat to 172.17.0.5:29500"


def test_a_rule_that_forwards_the_port_is_not_called_a_firewall_that_rejects() -> None:
    one = root(*shut("rejected", rules=(FORWARDS,)))
    assert "forwards MASTER_PORT" in one.title and "forwards the port to another place" in one.summary
    for others in (("tcp dport 29500 reject",), (FORWARDS, "tcp dport 29500 reject")):
        assert "rejects" in root(*shut("rejected", rules=others)).title
    assert "forwards" in root(*shut("rejected", rules=(FORWARDS, "tcp dport 8080 dnat to 172.17.0.6:80"))).title


def test_a_published_port_is_left_to_its_container() -> None:
    """To let it in would not do: what node 0 sends to its own address is forwarded, too."""
    one = root(*shut("rejected", rules=(FORWARDS,)))
    assert {value for fix in one.fixes if fix.option == 1 for value in fix.flags.values()} == {"29501"}
    assert "docker ps --filter publish=29500" in next(fix.text for fix in one.fixes if fix.option == 2)


def test_a_rule_of_its_own_changes_who_says_that_it_is_rejected() -> None:
    """The kernel translates the address of an error, too: it seems to come from node 0, which never saw a packet."""
    rule = "tcp dport 29500 DNAT"
    a, b = shut("rejected", rules=(rule,), at=1, hook="output")
    assert b.network is not None and b.network.contact is not None
    one = root(a, with_network(b, contact=replace(b.network.contact, icmp_from="10.77.0.10")))
    assert one.nodes == ("host1",) and "A rule of a node redirects" in one.title and rule in " ".join(one.evidence)
    assert "a rule of host1 redirects the packets to another place" in one.summary


test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_a_service_that_leads_elsewhere_from_one_node_is_left_alone_and_node_0_named_by_its_own_address() -> None:
    a, b = service("rejected")
    rule = "-d 10.96.0.77/32 -p tcp -m tcp --dport 29500 -j DNAT --to-destination 10.77.0.99:29500"
    one = root(a, with_network(b, firewall=blocking(rule, hook="output")))
    assert one.nodes == ("host1",) and rule in " ".join(one.evidence)
    assert {fix.flags.get("--master-addr") for fix in one.fixes} == {"10.77.0.10"}


def test_one_node_alone_does_not_take_the_rule_of_a_service_for_what_rejects() -> None:
    rule = "-d 10.96.0.77/32 -p tcp -m tcp --dport 29500 -j DNAT --to-destination 10.77.0.10:29500"
    _, b = service("rejected")
    one = root(with_network(b, firewall=blocking(rule, hook="output")))
    assert one.nodes != ("host1",) and not any("nat" in command for fix in one.fixes for command in fix.commands)
