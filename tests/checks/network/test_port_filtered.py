"""network/port-filtered: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import Answer, Bind, Firewall, IpsecPolicy
from tests.checks.row import NODES_MISSING, Cure, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.master import own_rule, service, shut
from tests.clusters.odd import firewalled
from tests.clusters.routes import LAN, NO_FILTER, asleep, reverse_path, route, routed
from tests.clusters.silent_port import (
    DROP,
    back_by_a_gateway,
    back_by_mark,
    back_by_policy,
    back_into_a_hole,
    by_ipsec,
    by_unknown_rule,
    let_in,
    let_out,
    mask_of_node_0,
    narrow_mask,
    no_way_back,
    odd_source,
    other_source,
    others_came,
    over_no_router,
    shut_all_of_three,
    shut_third,
    shut_unread,
    up,
    vpn,
    vpn_on_node_0,
    vpn_that_works,
    wg_quick,
)
from tests.facts_builder import PORT, blocking, healthy, judged, outside, waited_in_vain, with_network

CHECK = "network/port-filtered"
BOTH = ("host1", "host0")
LAN_FREE = IpsecPolicy("out", 4, "10.77.0.0/24", "10.77.0.0/24")


ROWS = [
    Row("host1's rule gives another source", lambda: other_source("10.99.5.1"), ("host1",)),
    Row("host1's rule gives another source, alone", lambda: other_source("10.99.5.1", True), ("host1",)),
    Row("host1's rule gives its own address", lambda: other_source("10.77.0.11"), BOTH, blame="one-of"),
    Row("a host that is up and silent", up, ("node0",)),
    Row("a service leads to node 0, which drops it", lambda: service("no-answer", *DROP), ("host0",)),
    Row("dropped", lambda: shut("no-answer", control="refused", rules=DROP), ("host0",)),
    Row(
        "dropped, host silent",
        lambda: shut("no-answer", control="no-answer", rules=("ip saddr 10.77.0.11 drop",)),
        ("host0",),
    ),
    Row(
        "dropped on the way out",
        lambda: shut("no-answer", control="refused", rules=DROP, at=1, hook="output"),
        ("host1",),
    ),
    Row(
        "replies dropped",
        lambda: shut("no-answer", control="refused", rules=("tcp sport 29500 drop",), hook="output"),
        ("host0",),
    ),
    Row("rules unread on both", lambda: shut_unread(0, 1), ("host1", "host0"), blame="one-of"),
    Row("rules unread on node 0", lambda: shut_unread(0), ("host0",)),
    Row("no rules at all", shut_unread, ("host1", "host0"), blame="one-of"),
    Row("node 0's filter lets host1 in", lambda: let_in("10.77.0.0", "10.77.0.255"), BOTH, blame="one-of"),
    Row("node 0's filter lets another host in", lambda: let_in("10.77.0.12", "10.77.0.255"), ("host0",)),
    Row("node 0's filter lets host1 in on other ports", lambda: let_in("0.0.0.0", "10.77.0.99", None), ("host0",)),
    Row("rules for another address on both", lambda: let_out("in", "out"), BOTH, blame="one-of"),
    Row("rules of host1 that are not sure to let it out", lambda: let_out("in", ""), ("host1",)),
    Row("rules of node 0 that are not sure to let its answers out", lambda: let_out("", "out"), ("host0",)),
    Row("dropped for one of two", shut_third, ("host0",)),
    Row("dropped for all of two", shut_all_of_three, ("host0",)),
    Row("host1's netmask leaves node 0 to a gateway", narrow_mask, ("host1",), together=True),
    Row("a port is shut, and the netmask is no matter", lambda: narrow_mask("refused"), BOTH, blame="one-of"),
    Row("node 0's netmask leaves host1 out", mask_of_node_0, ("host0",), together=True),
    Row("node 0 answers by a gateway that is none", back_by_a_gateway, ("host0",), together=True),
    Row("node 0 answers by a rule of its own to such a gateway", back_by_policy, ("host0",), together=True),
    Row("node 0 marks its answers, and a rule for the mark leads there", back_by_mark, ("host0",), together=True),
    Row("another mark than the rule's", lambda: back_by_mark(mark=0x12), BOTH, blame="one-of"),
    Row("the mark is for what goes to the port", lambda: back_by_mark("dport"), BOTH, blame="one-of"),
    Row("node 0 answers into a hole", back_into_a_hole, ("host0",), together=True),
    Row("a reverse path filter on node 0", reverse_path, ("host0",), together=True),
    Row("no way back", no_way_back, ("host0",), together=True),
    Row("host1 sends from an address that node 0 has no way back to", odd_source, ("host1",), together=True),
    Row("node 0 has a way back to that address", lambda: odd_source(route("10.99.0.0/16")), BOTH, blame="one-of"),
    Row(
        "host1 alone sends from such an address",
        lambda: odd_source(control="refused")[1:],
        ("host1", "node0"),
        blame="one-of",
    ),
    Row("host1 is to encrypt, and has no association", lambda: by_ipsec(1), ("host1",), together=True),
    Row("a policy of host1 drops what it sends, by its own word", lambda: by_ipsec(1, block=True)[1:], ("host1",)),
    Row("node 0 wants it encrypted", lambda: by_ipsec(0, "in"), ("host0",), together=True),
    Row("host1 wants the answers encrypted", lambda: by_ipsec(1, "in"), ("host1",), together=True),
    Row("a policy of node 0 drops its answers", lambda: by_ipsec(0, block=True, source_port=PORT), ("host0",)),
    Row("a policy of host1 drops all", lambda: by_ipsec(1, every="0.0.0.0/0", block=True), ("host1",), together=True),
    Row("all but the LAN", lambda: by_ipsec(1, "out", LAN_FREE, every="0.0.0.0/0", block=True), BOTH, blame="one-of"),
    Row("a policy for no network", lambda: by_ipsec(1, every="anywhere", block=True), BOTH, blame="one-of"),
    Row("a policy with its association", lambda: by_ipsec(1, lacks=False), BOTH, blame="one-of"),
    Row("a policy for another port", lambda: by_ipsec(1, block=True, target_port=22), BOTH, blame="one-of"),
    Row("node 0's packets may not pass a router", over_no_router, ("host0",), together=True),
    Row("they may pass two", lambda: over_no_router("2"), BOTH, blame="one-of"),
    Row("they may pass none, and there is none", lambda: over_no_router(gateway=None), BOTH, blame="one-of"),
    Row("wg-quick's rules take what goes to node 0", wg_quick, ("host1",), together=True),
    Row("wg-quick's rules, and node 0 has no way back to any of it", lambda: wg_quick(()), ("host0",), together=True),
    Row("a VPN on host1 takes part of the LAN", lambda: vpn("10.77.0.0/25"), ("host1",), together=True),
    Row("a VPN on node 0 takes part of the LAN", vpn_on_node_0, ("host0",), together=True),
    Row(
        "an interface of host1 is down, the default route is not",
        lambda: asleep(route("0.0.0.0/0", "10.88.0.1")),
        ("host1",),
        together=True,
    ),
    Row("node 0 knows its own rule", lambda: own_rule("drop"), ("host0",)),
]

LOOK_ALIKES = [
    LookAlike(
        "a table and strict filters", lambda: tuple(routed(one, route(LAN), strict=("eth0",)) for one in healthy(2))
    ),
    LookAlike("a LAN in a tunnel that carries it, and an interface that is down", vpn_that_works),
    LookAlike("firewalls that do no harm", firewalled),
    LookAlike("node 0 shuts its port for IPv6, and is looked for by IPv4", lambda: own_rule("drop", 6), NODES_MISSING),
    LookAlike("node 0 shuts its port, which another host got to", others_came, NODES_MISSING),
]

CURES = [
    Cure(
        "a policy of IPsec",
        lambda: by_ipsec(1),
        {"host1": {"commands": ("ip xfrm policy delete src 10.77.0.11/32 dst 10.77.0.10/32 dir out",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a time to live of 1",
        over_no_router,
        {"host0": {"commands": ("sysctl -w net.ipv4.ip_default_ttl=64",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "wg-quick's rules",
        wg_quick,
        {"host1": {"commands": ("ip rule add to 10.77.0.10 lookup main",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "another source",
        lambda: other_source("10.99.5.1"),
        {
            "host1": {
                "commands": ("nft insert rule inet filter output ip daddr '{ 10.77.0.10 }' meta l4proto tcp accept",)
            }
        },
    ),
    Cure(
        "a netmask that is too narrow",
        narrow_mask,
        {"host1": {"commands": ("ip address add 10.77.0.200/24 dev eth0 && ip address del 10.77.0.200/25 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "node 0's netmask",
        mask_of_node_0,
        {"host0": {"commands": ("ip address add 10.77.0.10/24 dev eth0 && ip address del 10.77.0.10/32 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a gateway",
        back_by_a_gateway,
        {"host0": {"commands": ("ip route del 10.77.0.11/32 via 10.77.0.99",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a hole",
        back_into_a_hole,
        {"host0": {"commands": ("ip route del 10.77.0.11/32",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a reverse path filter",
        reverse_path,
        {"host0": {"commands": ("sysctl -w net/ipv4/conf/eth0/rp_filter=2",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "no way back",
        no_way_back,
        {"host0": {"commands": ("ip route add 10.88.0.0/24 dev eth0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a VPN",
        lambda: vpn("10.77.0.0/25"),
        {"host1": {"commands": ("ip route del 10.77.0.0/25 dev tun0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a VPN, of one host",
        lambda: vpn("10.77.0.10/32"),
        {"host1": {"commands": ("ip route del 10.77.0.10/32 dev tun0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "a VPN on node 0",
        vpn_on_node_0,
        {"host0": {"commands": ("ip route del 10.77.0.0/25 dev tun0",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
    Cure(
        "an interface that is down, with a default route",
        lambda: asleep(route("0.0.0.0/0", "10.88.0.1")),
        {"host1": {"commands": ("ip link set dev admin0 up",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_silence_after_a_refusal_is_not_proven_to_be_a_filter() -> None:
    silent = outside(healthy(2)[1], "no-answer", control="refused")
    assert [root.id for root in judged(silent).roots] == [CHECK]
    assert [root.id for root in judged(with_network(silent, refused_before=True)).roots] == [NODES_MISSING]


def test_silence_after_connections_that_nobody_took_is_no_filter() -> None:
    """A stopped process has the port: what waits to be accepted there fills up."""
    silent = with_network(outside(healthy(2)[1], "no-answer", control="refused"), answer=Answer("silent"))
    (root,) = judged(silent).roots
    assert (root.id, "accepts no more connections" in root.summary) == (NODES_MISSING, True)


def test_firewall_commands_name_the_peer_and_the_port() -> None:
    (fix,) = fixes(*shut("no-answer", control="refused", rules=DROP))
    assert fix.nodes == ("host0",)
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' tcp dport 29500 accept",)


def test_a_filter_that_node_0_meets_itself_is_opened_for_node_0_too() -> None:
    """It hosts the store and does not reach it: opened for host1 alone, it would still not get there."""
    a, b = (outside(one, "no-answer", control="refused") for one in healthy(2, declared=True))
    a = with_network(a, bind=Bind(True, PORT), master_is_own=True, firewall=blocking(*DROP))
    (root,) = judged(a, b).roots
    (fix,) = root.fixes
    assert (root.check, root.nodes, fix.nodes) == (CHECK, ("host0",), ("host0",))
    assert fix.commands == (
        "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.11 }' tcp dport 29500 accept",
    )


def test_rules_that_block_everything_are_opened_for_everything() -> None:
    """With the one port open the random ports of gloo would be blocked next."""
    facts = shut("no-answer", control="no-answer", rules=("ip saddr 10.77.0.11 drop",))
    (fix,) = fixes(*facts)
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' meta l4proto tcp accept",)


def test_a_filter_that_lets_the_peer_in_is_not_to_be_opened() -> None:
    found = fixes(*let_in("10.77.0.11", "10.77.0.11"))
    assert [(f.nodes, f.commands) for f in found] == [(("host0",), ()), (("host1",), ())]
    assert found[0].text.startswith("Allow TCP port 29500 from 10.77.0.11 between the hosts")


def test_rules_that_were_not_seen_are_not_made_up() -> None:
    found = fixes(*shut_unread(0, 1))
    assert [(f.nodes, f.option, f.commands) for f in found] == [(("host0",), 1, ()), (("host1",), 2, ())]
    assert all("are unknown" in f.text for f in found)


def test_rules_that_block_nothing_are_not_to_be_opened() -> None:
    """Both ends' rules were read and block nothing: it is between the hosts."""
    a, b = healthy(2)
    a, b = waited_in_vain(a), outside(b, "no-answer", control="refused")
    (root,) = judged(*(with_network(one, firewall=Firewall(True)) for one in (a, b))).roots
    assert root.id == CHECK and root.blame == "one-of"
    assert all(not fix.commands and "between the hosts" in fix.text for fix in root.fixes)
    assert all("On host" not in fix.text for fix in root.fixes)


def test_of_a_lan_in_a_tunnel_the_other_host_is_not_accused() -> None:
    (root,) = judged(*vpn("10.77.0.0/25")).roots
    assert "host1: it sends to 10.77.0.10 (host0) by tun0 (10.77.0.0/25)" in " ".join(root.evidence)
    assert not any("host0: its routing table" in line for line in root.evidence)


def test_one_node_alone_shows_that_its_packets_leave_by_another_interface() -> None:
    _, b = vpn("10.77.0.0/25")
    (shut,) = [f for f in judged(b).findings if f.check == CHECK]
    assert "host1: packets to 10.77.0.10 leave by tun0 (10.77.0.0/25)" in " ".join(shut.evidence)


def test_packets_are_sent_from_the_address_of_the_interface_they_leave_by() -> None:
    (fix,) = fixes(*odd_source())
    assert fix.nodes == ("host1",)
    assert fix.commands == ("ip route replace 10.77.0.0/24 dev eth0 src 10.77.0.11",)


def test_one_node_alone_shows_the_address_that_its_packets_come_from() -> None:
    _, b = odd_source(control="refused")
    (shut,) = [f for f in judged(b).findings if f.check == CHECK]
    assert "the source 10.99.9.9 (lo), not 10.77.0.11" in " ".join(shut.evidence)


def test_no_route_is_replaced_where_a_rule_that_is_not_known_leads_past_it() -> None:
    """wg-quick's rules, inverted and passing over the default route, are not among those that the facts have."""
    _, b = by_unknown_rule()
    (shut,) = [f for f in judged(b).findings if f.check == CHECK]
    assert "packets to 10.77.0.10 have the source 10.14.0.2 (wg0)" in " ".join(shut.evidence)
    assert not any("route replace" in command for fix in shut.fixes for command in fix.commands)
    assert any("ip rule" in fix.text for fix in shut.fixes)


def test_a_tunnel_that_works_is_not_accused_of_what_a_rule_blocks() -> None:
    """The same host answers on another port, and host0's own rule drops what is for the master's."""
    a, b = vpn("10.77.0.0/25")
    assert b.network is not None and b.network.contact is not None
    b = with_network(b, control=replace(b.network.contact, port=22, outcome="refused"))
    (root,) = judged(with_network(a, firewall=blocking("tcp dport 29500 drop")), b).roots
    assert (root.id, root.nodes) == (CHECK, ("host0",))
    assert "route" not in " ".join(fix.text for fix in root.fixes)


def test_node_0_opens_its_own_filter_for_its_network() -> None:
    (fix,) = fixes(*own_rule("drop"))
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.0/24 }' tcp dport 29500 accept",)


def test_a_gateway_that_is_up_says_nothing_of_the_host() -> None:
    assert [one.check for one in judged(*up("10.77.0.1", gateway=True)).roots] == [NODES_MISSING]


def test_a_policy_without_association_alone_does_not_say_that_node_0_is_there() -> None:
    _, b = by_ipsec(1)
    assert [one.check for one in judged(b).roots] == [NODES_MISSING]
    assert not any("IPsec" in line for one in judged(b).findings for line in one.evidence)
