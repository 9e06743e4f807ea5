"""network/port-refused: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Bind, Contact, Firewall, FirewallChain, Route
from distdoctor.model.plan import PlanProblem
from tests.checks.network.test_master_resolves_differently import on_every_node
from tests.checks.row import Facts, LookAlike, Row, found, left_alone
from tests.clusters.master import own_rule, service, shut
from tests.facts_builder import PORT, alone, blocking, healthy, judged, outside, waited_in_vain, with_network, with_plan

CHECK = "network/port-refused"


def late() -> Facts:
    """host1 had given up when node 0 was there; it would not have got there either."""
    a, (_, b) = own_rule("reset")[0], shut("refused")
    return replace(a, started_at=5000.0), replace(b, started_at=1000.0)


def sent_elsewhere(late: bool = False) -> Facts:
    """A rule of host1 sends what is for node 0's port to another host, where nobody listens."""
    rule = "ip daddr 10.77.0.10 tcp dport 29500 dnat to 10.77.0.12"
    a, b = shut("refused", rules=(rule,), at=1, hook="output")
    return (replace(a, started_at=5000.0), replace(b, started_at=1000.0)) if late else (a, b)


def redirected() -> Facts:
    """iptables-nft sends the port to another one, and nft does not tell to which."""
    (a,) = own_rule("reset")
    assert a.network is not None and a.network.firewall is not None
    chain = FirewallChain("nft", "ip", "nat", "PREROUTING", "input", "accept", ("tcp dport 29500 REDIRECT",))
    return (with_network(a, firewall=replace(a.network.firewall, chains=(chain,), shut=())),)


PROXY = "nft chain ip nat OUTPUT: ip protocol tcp REDIRECT"


def to_a_proxy(*, hosted: bool = True) -> Facts:
    """All that host1 sends is for a sidecar of its own that does not run yet."""
    a, b = shut("refused")
    b = with_network(b, firewall=Firewall(True, proxied=(PROXY,)))
    return (a, b) if hosted else (b,)


def to_the_same_port(rule: str) -> Facts:
    (a,) = redirected()
    assert a.network is not None and a.network.firewall is not None
    chains = tuple(replace(chain, blocking_rules=(rule,)) for chain in a.network.firewall.chains)
    return (with_network(a, firewall=replace(a.network.firewall, chains=chains)),)


def kept() -> Facts:
    """A route of type local on host1 has node 0's address in it: the kernel sends from that address, to itself."""
    a, b = shut("refused")
    return a, with_network(b, route=Route("10.77.0.10", "10.77.0.10"))


ROWS = [
    Row("host1 keeps what is for node 0", kept, ("host1",), together=True),
    Row("sent elsewhere by its own rule", sent_elsewhere, ("host1",)),
    Row("sent elsewhere, and node 0 came late", lambda: sent_elsewhere(True), ("host1",)),
    Row("reset", lambda: shut("refused", rules=("tcp dport 29500 reject with tcp reset",)), ("host0",)),
    Row("node 0 came late, and has a rule", late, ("host0",), together=True),
    Row("node 0 knows its own rule", lambda: own_rule("reset"), ("host0",)),
    Row("host1 sends all to a proxy that is not there", to_a_proxy, ("host1",)),
    Row("node 0 redirects the port to another one", redirected, ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "no answer",
        lambda: shut("no-answer", control="refused", rules=("tcp dport 29500 drop",)),
        "network/port-filtered",
    )
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_one_node_alone_says_that_it_asked_itself() -> None:
    _, b = on_every_node("train-master")
    (refused,) = [f for f in judged(b).findings if f.check == CHECK]
    assert "10.96.0.77 is its own address (kube-ipvs0)" in " ".join(refused.evidence)
    assert [fix.text for fix in refused.fixes] == [
        "Set MASTER_ADDR on every node to an address of node 0 that host1 does not have."
    ]


def test_who_asked_itself_says_nothing_of_node_0() -> None:
    """The refusal was said to be node 0's, at another host's address."""
    a, b = healthy(2)
    b = with_plan(outside(b), master_addr="host1")
    b = with_network(b, contact=Contact("10.77.0.11", PORT, "refused", 111))
    found = judged(replace(waited_in_vain(a), network=a.network), b).findings
    (refused,) = [f for f in found if f.check == CHECK]
    assert refused.summary == (
        f"host1 cannot connect to port {PORT} of its own address (10.77.0.11): connection refused."
    )
    assert (refused.nodes, refused.links) == (("host1",), ())


def test_a_node_0_that_was_there_is_not_to_be_started() -> None:
    """It came when the other had given up; or it hosts elsewhere."""
    a, b = healthy(2)
    a, b = replace(waited_in_vain(a), started_at=5000.0), replace(outside(b), started_at=1000.0)
    a = with_network(a, bind=Bind(True, PORT))
    texts = [fix.text for f in judged(a, b).findings if f.check == CHECK for fix in f.fixes]
    assert texts and all("Start node 0" not in text and "within --wait" in text for text in texts)
    other = with_plan(b, master_port=29501, sources={"master_port": "--master-port"})
    assert other.network is not None and other.network.contact is not None
    other = with_network(other, contact=replace(other.network.contact, port=29501))
    texts = [fix.text for f in judged(a, other).findings if f.check == CHECK for fix in f.fixes]
    assert texts and all("hosts its store on 29500, not 29501" in text for text in texts)


def test_a_node_whose_own_plan_makes_no_sense_says_nothing_of_node_0() -> None:
    """WORLD_SIZE=2.0 everywhere: node 0 was to blame for its port, too."""
    _, b = shut("refused")
    bad = with_plan(alone(b), problems=(PlanProblem("WORLD_SIZE", "2.0", "is not a whole number"),), world_size=None)
    found = judged(bad).findings
    assert "environment/invalid-variable" in [one.check for one in found] and CHECK not in [one.check for one in found]
    assert CHECK in [one.check for one in judged(alone(b)).findings]


def test_what_a_kernel_keeps_for_itself_is_no_firewall_s() -> None:
    for facts in (kept(), kept()[1:]):
        (told,) = [f for f in judged(*facts).findings if f.check == CHECK]
        assert told.nodes == ("host1",) and "to itself" in " ".join(told.evidence)
        assert [fix.commands for fix in told.fixes] == [("ip route show table local",)]


def test_that_a_proxy_refused_one_node_alone_does_not_claim() -> None:
    """The rules may be for other users than this one, and node 0 not started."""
    (refused,) = [one for one in judged(*to_a_proxy(hosted=False)).findings if one.check == CHECK]
    assert refused.because_of and PROXY in " ".join(refused.evidence)


SERVICE = "-d 10.96.0.77/32 -p tcp -m tcp --dport 29500 -j DNAT --to-destination 10.77.0.10"


def test_the_rule_of_a_service_that_leads_to_node_0_is_no_reason() -> None:
    a, b = service("refused")
    b = with_network(b, firewall=blocking(SERVICE, hook="output"))
    found = [one for one in judged(a, b).roots if one.check == CHECK]
    assert not found or found[0].nodes != ("host1",)


def test_one_node_alone_does_not_know_whether_a_rule_leads_to_node_0() -> None:
    """Its facts are not here, and the address is in no network of this one's: it may be a service's."""
    _, b = service("refused")
    b = with_network(b, firewall=blocking(SERVICE, hook="output"))
    (refused,) = [one for one in judged(b).findings if one.check == CHECK]
    assert refused.because_of


@pytest.mark.parametrize(
    "rule",
    ["-p tcp -m tcp --dport 29500 -j REDIRECT", "-p tcp --dport 29500 -j REDIRECT --to-ports 29500",
     "tcp dport 29500 redirect to :29500"],
)  # fmt: skip
def test_a_rule_that_redirects_to_the_same_port_shuts_nothing(rule: str) -> None:
    assert CHECK not in {one.check for one in judged(*to_the_same_port(rule)).findings}
