"""network/master-unreachable: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import (
    AddressChoice,
    Contact,
    HostsLine,
    Interface,
    InterfaceContact,
    IpsecPolicy,
    Neighbour,
    Route,
    TableRoute,
)
from distdoctor.model.facts.network import ConnectOutcome
from tests.checks.network.test_no_route import no_way
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, found, left_alone
from tests.clusters.routes import (
    LAN,
    NO_FILTER,
    bridge_port,
    by_hops,
    by_policy,
    reverse_path,
    route,
    routed,
    two,
    unplugged,
)
from tests.facts_builder import (
    PORT,
    healthy,
    judged,
    met,
    node,
    outside,
    waited_in_vain,
    with_host,
    with_master,
    with_network,
)

CHECK = "network/master-unreachable"


def host_down() -> Facts:
    a, b = healthy(2)
    return waited_in_vain(a), outside(b, "unreachable", errno=113)


def none_gets_there() -> Facts:
    a, b, c = healthy(3)
    return waited_in_vain(a, 3), outside(b, "unreachable", errno=113), outside(c, "unreachable", errno=113)


def one_of_two_gets_there() -> Facts:
    a, b, c = healthy(3)
    c = outside(c, "unreachable", errno=113)
    return (*met(a, b, c, expected=3)[:2], c)


def there_by_a_gateway() -> Facts:
    a, b = two("unreachable", errno=113)
    return a, routed(b, route(LAN), route("10.77.0.10/32", "10.77.0.99"))


def there_by_one_of(silent: tuple[str, ...] = ("10.77.0.99",)) -> Facts:
    """host1 sends to node 0 by one of two next hops."""
    a, b = two("unreachable", errno=113)
    return a, by_hops(b, "10.77.0.10/32", "10.77.0.10", "10.77.0.99", silent=silent)


def there_by_policy(**about: object) -> Facts:
    """host1's own address has a table of its own, in which all goes by a gateway that is none."""
    a, b = two("unreachable", errno=113)
    table = route("0.0.0.0/0", "10.77.0.99")
    return a, by_policy(b, "from 10.77.0.11 lookup 100", table, **(about or {"source": "10.77.0.11"}))


def thrown() -> Facts:
    """host1 has a VPN by which all goes but what goes to the LAN: Tailscale's, with an exit node."""
    a, b = two("unreachable", errno=113)
    return a, by_policy(
        b, "from all lookup 52", TableRoute(LAN, None, None, throws=True), route("0.0.0.0/0", None, "ts0")
    )


def forbidden() -> Facts:
    """A policy of IPsec drops all that host1 sends: connect() says EPERM, also where it asks for the way alone."""
    a, b = two("error", errno=1)
    policy = IpsecPolicy("out", 4, "0.0.0.0/0", "0.0.0.0/0", block=True)
    return a, with_network(b, route=Route("10.77.0.10", error="Operation not permitted"), ipsec=(policy,))


def vpn_alone(outcome: ConnectOutcome = "refused") -> Facts:
    """host1 alone: its VPN client takes part of the LAN, and by eth0 node 0 answers."""
    _, b = two("unreachable", errno=113)
    assert b.host is not None
    b = with_host(b, interfaces=(*b.host.interfaces, Interface("tun0", ("10.16.0.19",), (16,), mtu=1500)))
    way = InterfaceContact("eth0", Contact("10.77.0.10", PORT, outcome))
    b = with_network(b, route=Route("10.77.0.10", "10.16.0.19", "tun0"), other_ways=(way,))
    b = with_network(b, neighbour=Neighbour("10.77.0.10", "tun0", "silent", False))
    return (routed(b, route(LAN), route("10.77.0.0/25", None, "tun0")),)


def shut_out_of_three() -> Facts:
    """host2 does not get to node 0, which host1 reaches."""
    a, b, c = healthy(3)
    return (*met(a, b, outside(c), expected=3)[:2], outside(c, "unreachable", errno=113))


def nobody(gateway: str = "", at: str = "10.77.0.200", zero: bool = False) -> Facts:
    """host1 looks for node 0 where nobody answers: by its own /etc/hosts, or by a gateway that is none."""
    a, b = healthy(2)
    b = outside(with_master(b, "host0", own=False, resolved=[at]), "unreachable", errno=113)
    near = Neighbour(gateway or at, "eth0", "silent", bool(gateway))
    b = with_network(b, neighbour=near, contact=Contact(at, PORT, "unreachable", 113))
    b = with_network(b, master_lines=(HostsLine(3, f"{at} host0"),))
    return (waited_in_vain(a), b) if zero else (b,)


def wide_mask(answered: bool = False, back: str | None = "10.77.0.1") -> Facts:
    """host1 at 10.77.5.11/16 takes node 0, in 10.77.0.0/24 behind a router, for a neighbour."""
    a, b = two("unreachable", errno=113)
    assert b.host is not None
    lo, eth0 = b.host.interfaces
    b = with_host(b, interfaces=(lo, replace(eth0, addresses=("10.77.5.11",), prefix_lengths=(16,))))
    b = with_network(b, neighbour=None if answered else Neighbour("10.77.0.10", "eth0", "silent"))
    b = with_network(b, route=Route("10.77.0.10", "10.77.5.11", "eth0"))
    b = routed(b, route("10.77.0.0/16"), route("0.0.0.0/0", "10.77.5.1"))
    return routed(a, route(LAN), route("10.77.5.0/24", back)), b


def dead_first(outcome: ConnectOutcome, seconds: float) -> Facts:
    """On host1 the master's name has another address before node 0's own."""
    a, b = healthy(2)
    a = with_master(a, "host0", own=True, resolved=["10.77.0.10"])
    b = with_master(b, "host0", resolved=["10.99.0.10", "10.77.0.10"])
    first = Contact("10.99.0.10", PORT, outcome, seconds=seconds)
    b = with_network(b, contact=Contact("10.77.0.10", PORT, "open"), passed_over=(first,))
    return a, b


ROWS = [
    Row("a first address that is dropped", lambda: dead_first("no-answer", 3.3), ("host1",), together=True),
    Row("a first address without a way", lambda: dead_first("unreachable", 3.1), ("host1",), "warn", together=True),
    Row("host1's netmask takes another subnet in", wide_mask, ("host1",), together=True),
    Row("nobody is at the address", nobody, ("host1", "node0"), blame="one-of"),
    Row("nobody is at the gateway", lambda: nobody("10.77.0.99", "10.88.0.10"), ("host1",)),
    Row("host down", host_down, ("host1", "host0"), blame="one-of"),
    Row("several hosts, and none gets to node 0", none_gets_there, ("host0",)),
    Row("one of two does", one_of_two_gets_there, ("host2", "host0"), blame="one-of"),
    Row("host1 sends by a gateway that is none", there_by_a_gateway, ("host1",), together=True),
    Row("host1 sends by two next hops, one of which is nobody", there_by_one_of, ("host1",), together=True),
    Row("by its own word", lambda: there_by_one_of()[1:], ("host1",)),
    Row("both answer", lambda: there_by_one_of(()), ("host1", "host0"), blame="one-of", together=True),
    Row("host1 sends by a rule of its own to such a gateway", there_by_policy, ("host1",), together=True),
    Row(
        "by a rule for the port",
        lambda: there_by_policy(target="10.77.0.0/24", target_ports=(PORT, PORT)),
        ("host1",),
        together=True,
    ),
    Row(
        "by an inverted rule, that for a mark which its packets have not",
        lambda: there_by_policy(mark=(0xCA6C, 0xFFFFFFFF), inverted=True),
        ("host1",),
        together=True,
    ),
    Row("a policy of IPsec that drops all", forbidden, ("host1",), together=True),
    Row("the same, by its own word", lambda: forbidden()[1:], ("host1",)),
    Row("a rule for a table that throws what goes there", thrown, ("host1", "host0"), blame="one-of"),
    Row(
        "an inverted rule for all but that source",
        lambda: there_by_policy(source="10.77.0.0/24", inverted=True),
        ("host1", "host0"),
        blame="one-of",
    ),
    Row(
        "an inverted rule for all but what comes from another port, which is not known",
        lambda: there_by_policy(source_ports=(80, 80), inverted=True),
        ("host1", "host0"),
        blame="one-of",
    ),
    Row(
        "somebody answers there, though the netmask is wide",
        lambda: wide_mask(answered=True),
        ("host1", "host0"),
        blame="one-of",
    ),
    Row(
        "node 0 takes host1 for a neighbour, too: who knows whose the mask is",
        lambda: wide_mask(back=None),
        ("host1", "host0"),
        blame="one-of",
        together=True,
    ),
    Row("a rule for another port", lambda: there_by_policy(target_ports=(80, 81)), ("host1", "host0"), blame="one-of"),
    Row(
        "a rule for another source", lambda: there_by_policy(source="10.99.0.0/16"), ("host1", "host0"), blame="one-of"
    ),
    Row("a VPN, by host1's own word", vpn_alone, ("host1",)),
    Row("a VPN, and no answer by eth0 either", lambda: vpn_alone("no-answer"), ("host1", "node0"), blame="one-of"),
    Row("host1's card is a port of a bridge", lambda: bridge_port(1), ("host1",), together=True),
    Row("host1's card is a port of a bridge, by its own word", lambda: bridge_port(1)[1:], ("host1",)),
    Row("node 0's card is a port of a bridge", lambda: bridge_port(0), ("host0",), together=True),
    Row("host1's cable is out", lambda: unplugged(1), ("host1",), together=True),
    Row("host1's cable is out, by its own word", lambda: unplugged(1)[1:], ("host1",)),
    Row("node 0's cable is out", lambda: unplugged(0), ("host0",), together=True),
    Row("a reverse path filter that drops ARP, too", lambda: reverse_path("unreachable"), ("host0",), together=True),
]

LOOK_ALIKES = [
    LookAlike("a first address that refuses", lambda: dead_first("refused", 0.001)),
    LookAlike("a first address without a route", lambda: dead_first("unreachable", 0.0)),
    LookAlike("no route", no_way, "network/no-route"),
]

CURES = [
    Cure(
        "a first address that is dropped",
        lambda: dead_first("no-answer", 3.3),
        {"host1": {"flags": {"--master-addr": "10.77.0.10"}}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a netmask that is too wide",
        wide_mask,
        {"host1": {"commands": ("ip address add 10.77.5.11/24 dev eth0 && ip address del 10.77.5.11/16 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a gateway, there",
        there_by_a_gateway,
        {"host1": {"commands": ("ip route del 10.77.0.10/32 via 10.77.0.99",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "one of two next hops",
        there_by_one_of,
        {"host1": {"commands": ("ip route replace 10.77.0.10/32 via 10.77.0.10 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a VPN, by host1's own word",
        vpn_alone,
        {"host1": {"commands": ("ip route del 10.77.0.0/25 dev tun0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a port of a bridge",
        lambda: bridge_port(1),
        {
            "host1": {
                "commands": (
                    "ip link set dev br0 up",
                    "ip address del 10.77.0.11/24 dev eth0 && ip address add 10.77.0.11/24 dev br0",
                )
            }
        },
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a rule, there",
        there_by_policy,
        {"host1": {"commands": ("ip rule del from 10.77.0.11 lookup 100",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_a_card_without_a_carrier_is_told_of() -> None:
    for facts in (unplugged(1), unplugged(1)[1:]):
        (root,) = judged(*facts).roots
        assert "host1: eth0, by which it sends to 10.77.0.10" in " ".join(root.evidence)
        assert [("the link of eth0" in fix.text, fix.commands) for fix in root.fixes] == [(True, ())]


def test_a_host_that_others_reach_is_not_to_be_brought_up() -> None:
    findings = judged(*shut_out_of_three()).findings
    texts = [fix.text for f in findings if f.check == CHECK for fix in f.fixes]
    assert texts and all("Bring" not in text for text in texts)
    assert "host0 is up" in texts[0]


def test_one_that_nobody_met_may_be_down() -> None:
    _, b = healthy(2)
    findings = judged(outside(b, "unreachable", errno=113)).findings
    texts = [fix.text for f in findings if f.check == CHECK for fix in f.fixes]
    assert texts and "Bring" in texts[0]


def test_a_way_that_is_shut_for_one_is_no_reason_of_another_that_looks_elsewhere() -> None:
    """host1 has an old address of the master, which leads nowhere; host2 has the right one, and no answer."""
    stale = outside(with_master(node("host1", 1, of=3), "host0", resolved=["10.77.0.200"]), "unreachable", errno=113)
    shut = outside(with_master(node("host2", 2, of=3), "host0", resolved=["10.77.0.10"]), "unreachable", errno=113)
    zero = waited_in_vain(with_master(node("host0", 0, of=3), "host0", own=True, resolved=["10.77.0.10"]), 3)
    ways = [f for f in judged(zero, stale, shut).findings if f.check == CHECK]
    causes = {node_: f.because_of for f in ways for node_ in f.nodes if node_ in ("host1", "host2")}
    assert causes == {"host1": "network/master-resolves-differently", "host2": None}


def test_it_says_where_an_address_comes_from_that_nobody_has() -> None:
    (root,) = judged(*nobody()).roots
    assert root.check == CHECK and "no host answers for 10.77.0.200 (ARP on eth0)" in " ".join(root.evidence)
    assert root.evidence[1] == "host1: host0 is 10.77.0.200 by line 3 of /etc/hosts"


@pytest.mark.parametrize(
    ("written", "read", "why"),
    [("10.77.0.010", "10.77.0.8", "a part that begins with 0 is octal"),
     ("10.77.200", "10.77.0.200", "the last part of fewer than four is the rest")],
)  # fmt: skip
def test_a_number_in_another_notation_is_not_from_the_name_service(written: str, read: str, why: str) -> None:
    (b,) = nobody(at=read)
    b = with_network(with_master(b, written, own=False, resolved=[read]), master_lines=())
    (root,) = judged(b).roots
    assert f"host1: {written} is {read} as a number ({why})" in root.evidence


def test_with_the_facts_of_node_0_it_follows_from_what_is_wrong() -> None:
    result = judged(*nobody(zero=True))
    assert [one.check for one in result.roots] == ["environment/master-mismatch"]
    assert CHECK in {one.check for one in result.findings}


def by_ipv6(facts: Facts) -> Facts:
    """The same of hosts with IPv6, which each its last contact was by."""
    six = []
    for one in facts:
        own, zero = f"fd77::{'abc'[int(one.identity.hostname[-1])]}", one.identity.hostname == "host0"
        assert one.host is not None and one.network is not None
        cards = tuple(
            c if c.loopback else replace(c, addresses=(own,), prefix_lengths=(64,)) for c in one.host.interfaces
        )
        one = with_host(with_master(one, "fd77::a", own=zero, resolved=["fd77::a"]), interfaces=cards)
        one = with_network(one, primary=AddressChoice(own, "eth0", "MASTER_ADDR"))
        contact = one.network.contact if one.network is not None else None
        six.append(with_network(one, contact=replace(contact, address="fd77::a")) if contact is not None else one)
    return tuple(six)


def test_hosts_of_ipv6_are_found_by_icmp_and_not_by_arp() -> None:
    for facts in (none_gets_there(), shut_out_of_three(), nobody(at="fd77::a")):
        (way,) = [f for f in judged(*by_ipv6(facts)).findings if f.check == CHECK]
        (text,) = [fix.text for fix in way.fixes]
        assert "ICMPv6" in text and "arp" not in text and "No host has" not in way.summary
