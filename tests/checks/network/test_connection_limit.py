"""network/connection-limit: what it finds, and what it leaves alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from distdoctor.check_api import start_seconds
from distdoctor.model.facts import Bind, Contact, Firewall, FirewallChain, LateConnections, LinkRate
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import cut
from tests.facts_builder import blocking, failing, healthy, judged, outside, waited_in_vain, with_meeting, with_network

CHECK = "network/connection-limit"
RULE = "tcp dport 1-65535 ct count over 4 reject with tcp reset"
REFUSED = "RuntimeError: Gloo connectFullMesh failed with SO_ERROR: Connection refused, remote=[10.77.0.10]:42385"


def limited(error: str, rule: str = RULE) -> Facts:
    """The links work one by one, and the ranks of node 1 do not all get to those of node 0."""
    a, b = healthy(2)
    return with_network(a, firewall=blocking(rule)), failing(b, "gloo", error)


def at_the_store() -> Facts:
    a, b = healthy(2)
    return with_network(waited_in_vain(a), firewall=blocking(RULE)), outside(b)


def ranks_at_the_store() -> Facts:
    """Node 1 met node 0 in the store, and its ranks do not get there any more."""
    a, b = healthy(2)
    error = "DistNetworkError: The client socket has timed out after 15200ms while trying to connect to (host0, 29500)."
    rule = "iifname != lo tcp flags & fin,syn,rst,ack == syn recent drop"
    return with_network(a, firewall=blocking(rule)), failing(b, "store", error)


def on_random_ports() -> Facts:
    a, b = cut([(1, 0)], 2, outcome="refused")
    return with_network(a, firewall=blocking(RULE)), b


def open_to_all() -> Facts:
    a, b = limited(REFUSED)
    return with_network(a, firewall=Firewall(True)), b


def of_ssh() -> Facts:
    """Node 0 counts the connections to ssh, and came later than node 1 would wait."""
    a, b = at_the_store()
    return with_network(a, firewall=blocking("tcp dport 22 ct count over 4 drop")), b


def not_started() -> Facts:
    """Nobody hosts a store on the node that counts."""
    a, b = at_the_store()
    return with_meeting(with_network(a, bind=None), hosted=False, joined=False), b


def not_reached() -> Facts:
    a, b = healthy(2)
    return with_network(a, firewall=blocking(RULE)), b


def accepted(rule: str, policy: str = "accept") -> Facts:
    """Node 0 has a rule that accepts only so many, and drops the rest."""
    a, b = at_the_store()
    chain = FirewallChain("nft", "inet", "filter", "input", "input", policy, ("tcp flags syn drop",), (rule,))
    return with_network(a, firewall=Firewall(True, chains=(chain,))), b


def late(
    address: str = "10.77.0.10", lost: int = 0, firewall: Firewall | None = None, repeated: int = 3, losses: int = 0
) -> Facts:
    """Two of node 1's connections needed more than one SYN, and all of them were let in."""
    a, b = healthy(2)
    b = with_network(b, late_connections=(LateConnections(address, 6, 2, repeated, 6),))
    if losses:
        assert b.host is not None
        b = replace(b, host=replace(b.host, link_losses={"eth0": losses}))
    assert b.mesh is not None
    b = replace(b, mesh=replace(b.mesh, rates=(LinkRate(a.key, 1e9, retransmitted=lost, segments=100),)))
    return with_network(a, firewall=firewall or blocking("tcp flags syn limit rate over 1/second drop")), b


RATE = "tcp flags syn limit rate over 1/second drop"
"""Without an exception for lo: 2 x 2 ranks start within 16 s."""
TIMED_OUT = "DistNetworkError: The client socket has timed out after 15200ms while trying to connect to (host0, 29500)."


def own_ranks_at_the_store(rule: str = RATE) -> Facts:
    """A rank of node 0 itself did not get through while the check waited, and one of node 1 did, late."""
    a, b = late(firewall=blocking(rule))
    return failing(a, "store", TIMED_OUT), failing(b, "store", "DistStoreError: wait timeout after 15200ms, keys: /0")


def both_directions(rule: str = RATE) -> Facts:
    """The rule takes the answers to node 0's own SYNs, too."""
    a, b = cut([(0, 1), (1, 0)], 2, outcome="no-answer")
    return with_network(a, firewall=blocking(rule)), b


def own_port() -> Facts:
    a, b = late(firewall=blocking(RATE))
    return with_network(a, own_port=Contact("10.77.0.10", 40001, "no-answer", seconds=20.0)), b


def own_store(rule: str) -> Facts:
    """Node 0 listens, never reaches its own store, and knows nothing of node 1."""
    a = outside(healthy(2)[0], "no-answer", seconds=57.0)
    return (with_network(a, bind=Bind(True, 29500), master_is_own=True, firewall=blocking(rule)),)


def unreadable() -> Facts:
    """Whatever limits them, some came through at last, and the others did not meanwhile."""
    a, b = late(firewall=Firewall(False), repeated=7)
    return a, failing(b, "gloo", "ended after 40.2 s: it did not return: no answer from remote=[10.77.0.10]:42385")


def leads_nowhere() -> Facts:
    """Node 1 advertises an address to which no connection of node 0 opens; nobody may read the rules."""
    a, b = cut([(0, 1)], 2, failed=False, outcome="no-answer")
    return with_network(a, late_connections=(LateConnections("10.77.0.11", 3, 2, 6),)), b


ROWS = [
    Row("some ranks wait for the rule", late, ("host0",), "warn", together=True),
    Row("one packet was lost by chance", lambda: late(lost=1), ("host0",), "warn", together=True),
    Row(
        "nobody may read the rules",
        lambda: late(firewall=Firewall(False), repeated=7),
        ("host0",),
        "warn",
        together=True,
    ),
    Row("a switch limits them", lambda: late(firewall=Firewall(True), repeated=7), ("host0",), "warn", together=True),
    Row(
        "one rule accepts so many, the next drops",
        lambda: accepted("tcp flags syn limit rate 3/minute accept"),
        ("host0",),
        alone=("store/nodes-missing",),
    ),
    Row("ranks are refused", lambda: limited(REFUSED), ("host0",), together=True),
    Row("ranks get no answer", lambda: limited("ended after 22.2 s: it did not return"), ("host0",), together=True),
    Row("by iptables", lambda: limited(REFUSED, "tcp flags syn connlimit REJECT"), ("host0",), together=True),
    Row(
        "by the rate",
        lambda: limited(REFUSED, "tcp flags syn limit rate over 3/minute drop"),
        ("host0",),
        together=True,
    ),
    Row(
        "by iptables' hashlimit", lambda: limited(REFUSED, "tcp flags syn hashlimit REJECT"), ("host0",), together=True
    ),
    Row(
        "on all ports but ssh's",
        lambda: limited(REFUSED, "tcp dport != 22 ct count over 4 drop"),
        ("host0",),
        together=True,
    ),
    Row(
        "the same by iptables",
        lambda: limited(REFUSED, "-p tcp -m tcp ! --dport 22 -m connlimit --connlimit-above 4 -j DROP"),
        ("host0",),
        together=True,
    ),
    Row("ranks at the store", ranks_at_the_store, ("host0",), together=True),
    Row("at the store", at_the_store, ("host0",), alone=("store/nodes-missing",)),
    Row("on random ports", on_random_ports, ("host0",), together=True),
    Row("beyond a number, its own ranks too", lambda: own_ranks_at_the_store(RULE), ("host0",), together=True),
    Row(
        "its own store, at a rate at which no job starts",
        lambda: own_store(RATE.replace("1/second", "6/minute")),
        ("host0",),
        alone=("store/nodes-missing",),
    ),
    Row(
        "a rate at which the kernel ends some",
        lambda: both_directions(f"{RATE} ".replace("1/second", "3/minute")),
        ("host0",),
        together=True,
    ),
]

LATER = [
    Row("ranks of its own at the store", own_ranks_at_the_store, ("host0",), together=True),
    Row("links in both directions", both_directions, ("host0",), together=True),
    Row("a port of its own", own_port, ("host0",), together=True),
    Row(
        "ranks get no answer", lambda: limited("ended after 22.2 s: it did not return", RATE), ("host0",), together=True
    ),
    Row("nobody may read the rules", unreadable, ("host0",), together=True),
    Row("its own store", lambda: own_store(RATE), ("host0",)),
]
"""Connections that the rule would let in later than the check waits: the job runs."""

LOOK_ALIKES = [
    LookAlike("an address that leads nowhere", leads_nowhere, "mesh/peer-ports-blocked"),
    LookAlike(
        "so many to ssh are accepted, and the rest dropped",
        lambda: accepted("tcp dport 22 limit rate 3/minute accept"),
        "network/port-refused",
    ),
    LookAlike("a limit that is not reached", not_reached),
    LookAlike(
        "a rate that no job reaches, and links that fail",
        lambda: both_directions("tcp flags syn limit rate over 1000/second drop"),
        "mesh/peer-ports-blocked",
    ),
    LookAlike("SYNs sent again, on a link that loses packets", lambda: late(lost=9), "mesh/packet-loss"),
    LookAlike("SYNs sent again, to another host", lambda: late("10.77.0.99")),
    LookAlike(
        "many SYNs sent again, and a rule blocks a range of ports",
        lambda: late(firewall=blocking("ip saddr 10.77.0.11 tcp dport 32768-46000 drop"), repeated=7),
    ),
    LookAlike("SYNs sent again, and no limit", lambda: late(firewall=blocking("tcp dport 22 drop"))),
    LookAlike(
        "many SYNs sent again, on a lossy link",
        lambda: late(lost=9, firewall=Firewall(True), repeated=7),
        "mesh/packet-loss",
    ),
    LookAlike(
        "many SYNs sent again, by a card that went down",
        lambda: late(firewall=Firewall(True), repeated=7, losses=1),
        "network/link-flaps",
    ),
    LookAlike("a limit of ssh's connections", of_ssh, "network/port-refused"),
    LookAlike("no store there", not_started, "store/nodes-missing"),
    LookAlike("no limit at all", open_to_all, "gloo/init-failed"),
    LookAlike("another rule", lambda: limited(REFUSED, "tcp dport 22 drop"), "gloo/init-failed"),
]

CURES = [
    Cure(
        "before the rule",
        lambda: limited(REFUSED),
        {
            "host0": {
                "commands": (
                    "nft insert rule inet filter input ip saddr '{ 10.77.0.11, 10.77.0.10 }' meta l4proto tcp accept",
                )
            }
        },
    )
]

test_found = found(CHECK, [*ROWS, *LATER])
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


@pytest.mark.parametrize("row", LATER, ids=lambda row: row.name)
def test_what_only_takes_longer_than_the_check_is_no_failure_of_the_job(row: Row) -> None:
    judgement = judged(*row.facts())
    assert judgement.verdict == "incomplete"
    assert all(finding.because_of == CHECK for finding in judgement.findings if finding.check != CHECK)


@pytest.mark.parametrize(
    ("rule", "ranks", "local", "seconds"),
    [
        (RATE, 4, 2, 16),
        ("tcp flags syn limit rate over 30/minute burst 2 packets drop", 6, 2, 48),
        ("-p tcp --syn -m limit --limit 1/sec --limit-burst 3 -j ACCEPT", 4, 2, 16),
        ("-p tcp --syn -m hashlimit --hashlimit-above 2/sec --hashlimit-name lab -j DROP", 4, 2, 8),
        (RATE, 16, 8, math.inf),
        ("tcp flags syn limit rate over 1000/second drop", 64, 8, 0),
        ("tcp flags syn hashlimit drop", 4, 2, None),
    ],
)
def test_what_a_rate_costs(rule: str, ranks: int, local: int, seconds: float | None) -> None:
    assert start_seconds(rule, ranks, local) == seconds
