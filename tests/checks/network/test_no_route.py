"""network/no-route: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Answer, Interface, Link, MeshFacts, NodeFacts, Route, decode, encode
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.links import OPEN
from tests.clusters.master import held
from tests.clusters.routes import LAN, NO_FILTER, asleep, by_policy, masked, route, routed, three, two
from tests.facts_builder import (
    failing,
    healthy,
    judged,
    loopback_name,
    met,
    node,
    outside,
    waited_in_vain,
    with_gpus,
    with_host,
    with_master,
    with_meeting,
    with_network,
)

CHECK = "network/no-route"


def no_way() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=101)


def no_route(error: str = "Network is unreachable", errno: int = 22) -> Facts:
    a, b = healthy(2)
    b = with_network(outside(b, "error", errno=errno), route=Route("10.77.0.10", error=error))
    return waited_in_vain(a), b


def prohibited(target: str = "10.77.0.10") -> Facts:
    """A rule of host1 lets nothing go to node 0: connect() says EACCES."""
    a, b = two("error", errno=13)
    b = with_network(b, route=Route("10.77.0.10", error="Permission denied"))
    return a, by_policy(b, f"from all to {target} prohibit", target=target, reject=True)


def no_route_to_a_peer() -> Facts:
    facts = list(healthy(3))
    bad = Link(facts[2].key, "10.77.0.12", 40002, OPEN, "unreachable", 101)
    facts[1] = replace(facts[1], mesh=MeshFacts(good=1, bad=(bad,)))
    back = Link(facts[1].key, "10.77.0.11", 40001, OPEN, "no-answer")
    facts[2] = replace(facts[2], mesh=MeshFacts(good=1, bad=(back,)))
    return tuple(failing(one, "gloo", "connect [10.77.0.12]:1: Network is unreachable") for one in facts)


def mask_of_node_1() -> Facts:
    a, b = two("unreachable", errno=101)
    return a, masked(b, 32)


def mask_of_ipv6() -> Facts:
    """The same with addresses of IPv6, of which an interface has each once."""
    a, b = two("unreachable", errno=101)
    facts = a, routed(masked(b, 128))
    return tuple(decode(encode(one).replace(b"10.77.0.", b"fd77::"), NodeFacts) for one in facts)


def mask_of_one_of_three() -> Facts:
    lan = (route(LAN),)
    a, b, c = three(lan, lan, lan, bad=((1, 2, "unreachable", 101), (2, 1, "no-answer", None)))
    return a, masked(b, 31), c


def behind_nat(at: str, *, nccl: bool = False) -> Facts:
    """host1 is behind address translation at this address, to which host0 has no route; host1 reaches host0."""
    a, b = (with_gpus(one, 2) if nccl else one for one in met(node(of=2), node("host1", 1, ip=at)))
    links = (Link(b.key, at, 40001, ("gloo", "nccl", "primary"), "unreachable", 101),)
    b = routed(b, route(f"{at.rpartition('.')[0]}.0/24"), route("0.0.0.0/0", f"{at.rpartition('.')[0]}.1"))
    return routed(replace(a, mesh=MeshFacts(good=0, bad=links)), route(LAN)), b


def routed_apart() -> Facts:
    """Two networks with a router between them: gateways are right here."""
    facts = []
    for number, one in enumerate(healthy(2)):
        assert one.host is not None
        own, router = f"10.{80 + number}.0.{10 + number}", f"10.{80 + number}.0.1"
        one = with_host(one, interfaces=(one.host.interfaces[0], Interface("eth0", (own,), (24,), mtu=1500)))
        facts.append(routed(one, route(f"10.{80 + number}.0.0/24"), route("0.0.0.0/0", router), strict=("eth0",)))
    return tuple(facts)


def of_another_network(shared: bool = True) -> Facts:
    """MASTER_ADDR is of a second network of node 0's, which host1 is not in; the first they share, or not."""
    found = []
    for one in two("unreachable", errno=101):
        host = one.host
        assert host is not None
        if one.identity.hostname == "host0":
            second = Interface("eth1", ("10.99.0.10",), (24,), mtu=1500)
            one = with_host(one, interfaces=(*host.interfaces, second))
            one = with_network(one, primary=AddressChoice("10.99.0.10", "eth1", "route"))
        elif not shared:
            assert one.host is not None
            lo, eth0 = host.interfaces
            one = with_host(one, interfaces=(lo, replace(eth0, addresses=("10.88.0.11",))))
        found.append(with_master(one, "10.99.0.10", own=one.identity.hostname == "host0"))
    a, b = found
    return waited_in_vain(a), outside(b, "unreachable", errno=101)


ROWS = [
    Row("no route", no_way, ("host1",)),
    Row("MASTER_ADDR is of another network", of_another_network, ("host1",)),
    Row("no route, by the route", no_route, ("host1",)),
    Row("what lets nothing out is not known", lambda: no_route("Operation not permitted", 1), ("host1",)),
    Row("a rule that prohibits it", prohibited, ("host1",), together=True),
    Row("a rule that prohibits its network", lambda: prohibited("10.77.0.10/24")[1:], ("host1",)),
    Row("no route to a peer", no_route_to_a_peer, ("host1",), together=True),
    Row("host1's netmask leaves node 0 out", mask_of_node_1, ("host1",), together=True),
    Row("one of three has another netmask", mask_of_one_of_three, ("host1",), together=True),
    Row("an interface of host1 is down", lambda: asleep(outcome="unreachable", errno=101), ("host1",), together=True),
    Row("behind NAT, and dials", lambda: behind_nat("172.28.0.2"), ("host0",), "warn", together=True),
    Row("behind NAT, and is dialled", lambda: behind_nat("10.5.0.2"), ("host0",), together=True),
    Row("behind NAT, with NCCL", lambda: behind_nat("172.28.0.2", nccl=True), ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike("a router between the nodes", routed_apart),
    LookAlike(
        "addresses of /32, each with a route",
        lambda: tuple(
            routed(masked(one, 32), route("10.77.0.1/32"), route("0.0.0.0/0", "10.77.0.1")) for one in healthy(3)
        ),
    ),
]

CURES = [
    Cure(
        "an address of node 0 in the network that they share",
        of_another_network,
        {name: {"flags": {"--master-addr": "10.77.0.10"}} for name in ("host0", "host1")},
    ),
    Cure(
        "a rule that prohibits it",
        prohibited,
        {"host1": {"commands": ("ip rule del from all to 10.77.0.10 prohibit",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "host1's netmask",
        mask_of_node_1,
        {"host1": {"commands": ("ip address add 10.77.0.11/24 dev eth0 && ip address del 10.77.0.11/32 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "host1's netmask, IPv6",
        mask_of_ipv6,
        {"host1": {"commands": ("ip -6 address del fd77::11/128 dev eth0 && ip -6 address add fd77::11/24 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a netmask of three",
        mask_of_one_of_three,
        {"host1": {"commands": ("ip address add 10.77.0.11/24 dev eth0 && ip address del 10.77.0.11/31 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "an interface that is down",
        lambda: asleep(outcome="unreachable", errno=101),
        {"host1": {"commands": ("ip link set dev admin0 up",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_one_behind_nat_that_dials_works_with_gloo() -> None:
    """gloo connects from the larger address to the smaller: the way that is missing is not needed."""
    (root,) = judged(*behind_nat("172.28.0.2")).roots
    assert root.severity == "warn" and "gloo does not connect in that direction" in root.summary
    (root,) = judged(*behind_nat("10.5.0.2")).roots
    assert root.severity == "fail" and "gloo" not in root.summary


def test_one_node_alone_names_its_interface_that_is_down() -> None:
    _, b = asleep(outcome="unreachable", errno=101)
    findings = judged(b).findings
    commands = [fix.commands for f in findings if f.check == CHECK for fix in f.fixes]
    assert commands == [("ip link set dev admin0 up",)]


def test_one_node_alone_names_what_rejects_in_its_own_routing_table() -> None:
    """It gave the advice to add a route to the address, which the kernel refuses while that entry is there."""
    _, b = two("error", errno=22)
    b = with_network(b, route=Route("10.77.0.10", error="Invalid argument"))
    shut = routed(b, route(LAN), route("10.77.0.10/32", interface=None, reject=True))
    (root,) = judged(shut).roots
    assert root.check == CHECK and "host1: its routing table rejects 10.77.0.10/32" in " ".join(root.evidence)
    assert [fix.commands for fix in root.fixes] == [("ip route del 10.77.0.10/32",)]
    without = routed(b, route("0.0.0.0/0", interface=None, reject=True))
    assert ["ip route add 10.77.0.10" in fix.text for root in judged(without).roots for fix in root.fixes] == [True]


def test_a_node_without_any_address_has_only_loopback_to_offer() -> None:
    """IPv6 is switched off there: no way to the others, and nothing that gloo could take."""
    a, b = no_way()
    assert b.host is not None
    b = with_host(loopback_name(b, "127.0.0.1"), interfaces=b.host.interfaces[:1])
    result = judged(a, b)
    assert [one.check for one in result.roots] == [CHECK]
    assert {one.check: one.because_of for one in result.findings}["gloo/loopback-address"] == CHECK


def test_what_holds_the_port_is_no_reason_why_there_is_no_route() -> None:
    """Two failures of two nodes: either is left when the other is cured."""
    a, _ = held(Answer("foreign", sample="HTTP/1.0 200 OK"))
    result = judged(a, mask_of_node_1()[1])
    assert {(one.check, one.nodes) for one in result.roots} == {
        ("network/foreign-service", ("host0",)),
        (CHECK, ("host1",)),
    }


def test_a_way_that_went_away_in_the_middle_is_no_route_to_be_added() -> None:
    """host2 met the others by eth0; then its own kernel knew no way to them."""
    lan = (route(LAN),)
    gone = ((2, 0, "unreachable", 101), (2, 1, "unreachable", 101))
    facts = three(lan, lan, lan, bad=(*gone, (0, 2, "no-answer", None), (1, 2, "no-answer", None)))
    a, b, c = facts
    a, c = with_meeting(a, lost=(c.key,)), with_meeting(c, host_lost=True, ended=True)
    for told in (judged(a, b, c), judged(c)):
        (root,) = told.roots
        assert (root.id, root.nodes) == (CHECK, ("host2",)) and "during the check" in root.summary
        assert "eth0" in root.fixes[0].text and not any(fix.commands for fix in root.fixes)


def test_an_address_that_the_others_do_not_share_either_is_not_named() -> None:
    (root,) = judged(*of_another_network(shared=False)).roots
    assert [fix.flags for fix in root.fixes] == [{}]


def test_in_a_network_of_its_own_no_route_is_to_be_added() -> None:
    """A container without its machine's network has loopback alone."""
    a, b = no_way()
    assert b.host is not None
    (fix,) = judged(a, routed(with_host(b, interfaces=b.host.interfaces[:1]))).roots[0].fixes
    assert "--network=host" in fix.text and not fix.commands


def test_a_route_that_is_there_is_not_added_again() -> None:
    """A policy of IPsec blocks what goes to node 0: connect() says so, and the table does not."""
    a, b = two("error", errno=1)
    b = with_network(b, route=Route("10.77.0.10", error="Operation not permitted"))
    (root,) = judged(a, b).roots
    assert (root.check, root.nodes) == (CHECK, ("host1",))
    (fix,) = root.fixes
    assert "ip xfrm policy" in fix.text and not fix.commands


def test_no_route_helps_an_address_that_is_none_without_its_interface() -> None:
    a, b = healthy(2)
    b = with_network(outside(with_master(b, "fe80::10"), "error", errno=22), route=Route("fe80::10", error="Invalid"))
    for facts in ((waited_in_vain(with_master(a, "fe80::10", own=True)), b), (b,)):
        (one,) = [f for f in judged(*facts).findings if f.check == CHECK]
        assert one.summary.endswith("it is link-local, and has no interface (%eth0).")
        assert one.fixes and not any("route" in fix.text for fix in one.fixes)
