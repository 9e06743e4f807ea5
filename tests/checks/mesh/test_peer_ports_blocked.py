"""mesh/peer-ports-blocked: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import Contact, Firewall, Link, MeshFacts, PacketMark, Passage
from tests.checks.row import BOTH, THREE, Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.limits import limited
from tests.clusters.links import across, cut, into, measured
from tests.clusters.routes import LAN, NO_FILTER, by_hops, by_policy, route, routed, three
from tests.facts_builder import UNREAD, blocking, failing, healthy, judged, with_gpus, with_network

CHECK = "mesh/peer-ports-blocked"


def blocked(*pairs: tuple[int, int], of: int = 2, rules: tuple[int, ...] = (), outcome: str = "no-answer") -> Facts:
    """Ephemeral ports blocked from one host to another, for each pair; the hosts in ``rules`` say so."""
    facts = list(healthy(of))
    for number in rules:
        facts[number] = with_network(facts[number], firewall=blocking(policy="drop"))
    for number, one in enumerate(facts):
        bad = tuple(
            Link(facts[to].key, f"10.77.0.{10 + to}", 40000 + to, ("gloo", "primary"), outcome)  # type: ignore[arg-type]
            for source, to in pairs
            if source == number
        )
        facts[number] = replace(one, mesh=MeshFacts(good=of - 1 - len(bad), bad=bad))
    return tuple(facts)


def let_through() -> Facts:
    """Node 0's filter has a policy of drop, and lets host1 in."""
    a, b = blocked((1, 0), rules=(0,))
    rules = replace(blocking(policy="drop"), passages=(Passage("in", "10.77.0.0", "10.77.0.255"),))
    return with_network(a, firewall=rules), with_network(b, firewall=Firewall(True))


def cut_and_failed() -> Facts:
    return tuple(
        failing(one, "gloo", "ended after 20 s: it did not return", killed=True) for one in blocked((1, 0), rules=(0,))
    )


def cut_nccl() -> Facts:
    return tuple(with_gpus(one, 2) for one in blocked((0, 1), rules=(1,)))


def peer_by_a_gateway() -> Facts:
    lan = (route(LAN),)
    tables = (lan, (*lan, route("10.77.0.12/32", "10.77.0.99")), lan)
    return three(*tables, bad=((1, 2, "unreachable", 113), (2, 1, "no-answer", None)))


def peer_by_one_of() -> Facts:
    """host1 sends to host2 by one of two next hops, for which nobody answers: there and back some are lost."""
    a, b, c = three(*[(route(LAN),)] * 3, bad=((1, 2, "unreachable", 113), (2, 1, "no-answer", None)))
    return a, by_hops(b, "10.77.0.12/32", "10.77.0.12", "10.77.0.99", silent=("10.77.0.99",)), c


def ranged(*open_ports: tuple[int, int]) -> Facts:
    """Node 0's filter lets in these ports, and drops the rest."""
    a, b = blocked((1, 0), rules=(0,))
    firewall = replace(blocking(policy="drop"), open_ports=open_ports)
    return with_network(a, firewall=firewall), b


def apart(seconds: float = 3.1) -> Facts:
    """host1 and host2 get no answer from each other, though both are in the network of host0."""
    facts = three(*[(route(LAN),)] * 3, bad=((1, 2, "unreachable", 113), (2, 1, "unreachable", 113)))
    return tuple(
        replace(one, mesh=replace(one.mesh, bad=tuple(replace(b, seconds=seconds, icmp=True) for b in one.mesh.bad)))
        for one in facts
        if one.mesh is not None
    )


def unanswered_peer() -> Facts:
    """host1 gets to the store of host0, and at other ports nobody answers, not even to ARP."""
    a, b = blocked((1, 0), outcome="unreachable")
    assert b.mesh is not None
    bad = tuple(replace(one, errno=113, icmp=True, seconds=3.1) for one in b.mesh.bad)
    return routed(a, route(LAN)), routed(replace(b, mesh=replace(b.mesh, bad=bad)), route(LAN))


def by_mark() -> Facts:
    """Return what host1 sends to ports that a kernel picks is marked, and goes to a gateway that is none by that."""
    a, b = unanswered_peer()
    rule = "nft chain ip m c: tcp dport 32768-60999 packet mark set 0x1"
    marks = tuple(PacketMark(port, "dport", 4, 1, rule) for port in (32768, 60999))
    b = with_network(limited(b, port_range=(32768, 60999)), firewall=Firewall(True, marks=marks))
    return a, by_policy(b, "from all fwmark 0x1 lookup 100", route("0.0.0.0/0", "10.77.0.99"), mark=(1, 0xFFFFFFFF))


def by_port() -> Facts:
    """A rule of policy routing on host1 leads what goes to ports that a kernel picks to a gateway that is none."""
    a, b = unanswered_peer()
    ports = {"target_ports": (32768, 60999)}
    return a, by_policy(b, "from all dport 32768-60999 lookup 100", route("0.0.0.0/0", "10.77.0.99"), **ports)


def test_who_answered_at_the_port_of_the_store_answers_arp() -> None:
    """Packets to other ports take another way, and no switch keeps the two apart."""
    (one,) = judged(*unanswered_peer()).roots
    assert "ARP" not in one.summary and not any("switch that joins" in fix.text for fix in one.fixes)


def to_itself(outcome: str = "no-answer", nproc: int = 2, **more: Any) -> Facts:
    """Return what host1 sends to a port of its own; the nodes reach each other."""
    a, b = healthy(2, nproc=nproc)
    own = Contact("10.77.0.11", 40001, outcome, None, 1.0)  # type: ignore[arg-type]
    return a, with_network(b, own_port=own, **more)


def answers_shut(*rules: str, passing: tuple[int, ...] = (20000, 40000)) -> Facts:
    """Of the connections of host1 to host0 some get no answer; these are rules of host1 on the way in."""
    a, b = blocked((1, 0))
    assert b.mesh is not None
    b = replace(b, mesh=replace(b.mesh, bad=tuple(replace(k, passing=passing) for k in b.mesh.bad)))
    return a, with_network(b, firewall=blocking(*rules))


LAST = ("host1", "host2")
RANGE = "tcp dport 30000-50000 reject with tcp reset"

ROWS = [
    Row("what goes to random ports is marked, and goes astray", by_mark, ("host1",), together=True),
    Row("a rule for random ports leads astray", by_port, ("host1",), together=True),
    Row("what answers host1 is shut out", lambda: answers_shut(RANGE), ("host1",), together=True),
    Row("by iptables", lambda: answers_shut("-p tcp -m tcp --dport 30000:50000 -j DROP"), ("host1",), together=True),
    Row("new ones alone", lambda: answers_shut(f"ct state new {RANGE}"), BOTH, blame="one-of", together=True),
    Row("a narrow range", lambda: answers_shut("tcp dport 40000-40009 drop"), BOTH, blame="one-of", together=True),
    Row("no other port", lambda: answers_shut(RANGE, passing=()), BOTH, blame="one-of", together=True),
    Row("node 0's filter lets host1 in", let_through, BOTH, blame="one-of", together=True),
    Row("a pair of 3, ARP unanswered", apart, ("host1", "host2"), blame="one-of", together=True),
    Row("a pair of 3, rejected by a router", lambda: apart(0.1), ("host1", "host2"), blame="one-of", together=True),
    Row("what a host sends to itself", to_itself, ("host1",), together=True),
    Row("and a filter says no to it", lambda: to_itself("rejected"), ("host1",), together=True),
    Row("a range of ports is open", lambda: ranged((20000, 30000)), ("host0",), together=True),
    Row("lower address blocked", lambda: blocked((1, 0), rules=(0,)), ("host0",), together=True),
    Row("higher address blocked", lambda: blocked((0, 1), rules=(1,)), ("host1",), "warn", together=True),
    Row("blocked, gloo failed", cut_and_failed, ("host0",), together=True),
    Row("blocked for nccl", cut_nccl, ("host1",), together=True),
    Row("both blocked", lambda: blocked((0, 1), (1, 0), rules=(0, 1)), BOTH, together=True),
    Row("blocked, no rules", lambda: blocked((1, 0)), BOTH, blame="one-of", together=True),
    Row("reset", lambda: blocked((1, 0), rules=(0,), outcome="reset"), ("host0",), together=True),
    Row("one pair of 3", lambda: blocked((1, 2), (2, 1), of=3, rules=(1,)), ("host1",), together=True),
    Row("one of 3, no rules", lambda: blocked((0, 1), (2, 1), of=3), ("host1",), together=True),
    Row("accepts nothing", lambda: cut(into(1, 4), 4), ("host1",), together=True),
    Row("two accept nothing", lambda: cut(into(1, 5) | into(3, 5), 5), ("host1", "host3"), together=True),
    Row("nobody accepts anything", lambda: cut(across((0,), (1,), (2,)), 3, ruled=(0, 1, 2)), THREE, together=True),
    Row("a pair of 4", lambda: cut(across((1,), (2,)), 4), ("host1", "host2"), blame="one-of", together=True),
    Row(
        "a node and two of its peers",
        lambda: cut(across((1,), (2,)) | across((1,), (3,)), 5),
        ("host1",),
        together=True,
    ),
    Row("one of three sends by two next hops, one of which is nobody", peer_by_one_of, ("host1",), together=True),
    Row("one of three sends by a gateway that is none", peer_by_a_gateway, ("host1",), together=True),
]

LOOK_ALIKES = [
    LookAlike("one rank, which has nobody to meet there", lambda: to_itself(nproc=1)),
    LookAlike("a host that reaches itself", lambda: to_itself("open")),
    LookAlike(
        "rules not readable, links good", lambda: tuple(with_network(one, firewall=UNREAD) for one in measured(3))
    ),
]

CURES = [
    Cure(
        "what a host sends to itself",
        lambda: to_itself(firewall=blocking(policy="drop")),
        {"host1": {"commands": ("nft insert rule inet filter input iif lo accept",)}},
    ),
    Cure(
        "accepts nothing",
        lambda: cut(into(1, 3), 3, ruled=(1,)),
        {
            "host1": {
                "commands": (
                    "nft insert rule inet filter input ip saddr '{ 10.77.0.10, 10.77.0.12, 10.77.0.11 }' "
                    "meta l4proto tcp accept",
                )
            }
        },
    ),
    Cure(
        "a gateway of three",
        peer_by_a_gateway,
        {"host1": {"commands": ("ip route del 10.77.0.12/32 via 10.77.0.99",)}},
        only=True,
        unsaid=NO_FILTER,
    ),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_peer_ports_are_opened_on_the_node_that_blocks_them() -> None:
    (fix,) = fixes(*blocked((1, 0), rules=(0,)))
    assert fix.commands == ("nft insert rule inet filter input ip saddr '{ 10.77.0.11 }' meta l4proto tcp accept",)
    assert fix.nodes == ("host0",)


def test_a_range_that_something_between_the_hosts_lets_through_is_seen_by_what_answers() -> None:
    a, b = blocked((1, 0))
    assert b.mesh is not None
    b = replace(b, mesh=replace(b.mesh, bad=tuple(replace(k, passing=(20000, 25000)) for k in b.mesh.bad)))
    (root,) = judged(a, b).roots
    assert (root.check, root.nodes, root.blame) == (CHECK, BOTH, "one-of")
    assert "host1 to host0: 40000 does not answer, 20000 and 25000 do" in root.evidence[-1]
    assert "ip_local_port_range" in root.fixes[-1].text and root.fixes[-1].option == 3


def test_where_a_range_is_open_the_kernel_may_pick_from_it() -> None:
    opened, narrowed = fixes(*ranged((22, 22), (20000, 30000)))
    assert (opened.option, narrowed.option, narrowed.nodes) == (1, 2, ("host0",))
    assert narrowed.commands == ("sysctl -w net.ipv4.ip_local_port_range='20000 29499'",)
    (root,) = judged(*ranged((22, 22), (20000, 30000))).roots
    assert "accepts TCP ports 22 and 20000-30000; the kernel picks from 32768-60999" in root.evidence[-1]


def test_the_rule_that_shuts_out_what_answers_is_shown_and_passed_by() -> None:
    (root,) = judged(*answers_shut(RANGE)).roots
    assert any("30000-50000" in line and "drops replies to its own connections" in line for line in root.evidence)
    (command,) = root.fixes[0].commands
    assert command.startswith("nft insert rule inet filter input ip saddr '{ 10.77.0.10")


@pytest.mark.parametrize(
    "facts",
    [
        cut([(1, 0)], 2, failed=False, outcome="reset"),
        cut(into(0, 3), 3, failed=False, outcome="reset"),
        cut([(2, 1)], 3, failed=False, outcome="reset"),
    ],
    ids=["of two", "into one of three", "one direction of three"],
)
def test_what_is_accepted_and_then_cut_is_no_packet_filters_doing(facts: Facts) -> None:
    """A sidecar that answers every port but the master's: no filter accepts a connection first."""
    (root,) = judged(*facts).roots
    assert "accepted on random ports and then cut" in root.summary
    (fix,) = root.fixes
    assert "sidecar" in fix.text and "accept TCP" not in fix.text and "let it through" not in fix.text


def test_what_an_own_rule_resets_is_still_that_rules_doing() -> None:
    (root,) = judged(*cut([(1, 0)], 2, ruled=(0,), failed=False, outcome="reset")).roots
    assert root.nodes == ("host0",) and root.fixes[0].commands and "sidecar" not in root.fixes[0].text


def test_where_nobody_answers_arp_no_firewall_is_accused() -> None:
    (root,) = judged(*apart()).roots
    told = " ".join((root.title, root.summary, *(fix.text for fix in root.fixes)))
    assert "cannot reach each other at all" in root.title and "isolated ports" in told
    assert not any(word in told for word in ("irewall", "rule of", "random ports"))
    (other,) = judged(*apart(0.1)).roots
    assert "cannot reach each other at all" not in other.title and "random ports" in other.summary


def test_ipv6_asks_for_hosts_by_icmp_which_a_filter_may_drop() -> None:
    six = {"10.77.0.11": "fd77::b", "10.77.0.12": "fd77::c"}
    facts = tuple(
        with_network(
            replace(one, mesh=replace(one.mesh, bad=tuple(replace(b, address=six[b.address]) for b in one.mesh.bad))),
            routes=(route("fd77::/64"),),
        )
        for one in apart()
        if one.mesh is not None
    )
    (root,) = judged(*facts).roots
    assert "not even to neighbour discovery" in root.summary and "ICMPv6" in root.fixes[0].text
