"""network/ipv6-mismatch: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, Contact, Interface, Link, MeshFacts, NodeFacts, Resolution
from tests.checks.row import Cure, Facts, LookAlike, Row, cured, fixes, found, left_alone
from tests.clusters.master import named, own_rule
from tests.facts_builder import PORT, failing, healthy, with_host, with_master, with_network

CHECK = "network/ipv6-mismatch"


def dual_stack(one: NodeFacts, number: int, first: int = 4) -> NodeFacts:
    """The facts of a node with both families, whose own name gives the family ``first`` first."""
    four, six = f"10.77.0.{10 + number}", f"fd77::{10 + number}"
    name = one.identity.hostname
    interfaces = (
        Interface("lo", ("127.0.0.1", "::1"), (8, 128), loopback=True),
        Interface("eth0", (four, six), (24, 64), mtu=1500),
    )
    order = (four, six) if first == 4 else (six, four)
    return with_host(
        one, interfaces=interfaces, own_name=Resolution(name, order), gloo=AddressChoice(order[0], "eth0", "hostname")
    )


def families(*first: int) -> Facts:
    text = "[enforce fail at address.cc:50] ss1.ss_family == ss2.ss_family. 10 vs 2"
    ones = (dual_stack(one, n, first[n]) for n, one in enumerate(healthy(len(first))))
    return tuple(failing(one, "gloo", text) for one in ones)


def six_only() -> Facts:
    """host1's interface has an IPv6 address only, and host0 has no way there."""
    a, b = (dual_stack(one, n, 4 + 2 * n) for n, one in enumerate(healthy(2)))
    bad = Link(b.key, "fd77::11", 40001, ("gloo",), "unreachable", 101)
    return replace(a, mesh=MeshFacts(good=1, bad=(bad,))), b


def dead_six(outcome: str, seconds: float) -> Facts:
    """host1 tries node 0's IPv6 address first, in vain."""
    a, b = (named(dual_stack(one, n), "10.77.0.10", n == 0) for n, one in enumerate(healthy(2)))
    b = with_master(b, "host0", resolved=["fd77::10", "10.77.0.10"])
    b = with_network(
        b,
        contact=Contact("10.77.0.10", PORT, "open"),
        passed_over=(Contact("fd77::10", PORT, outcome, seconds=seconds),),  # type: ignore[arg-type]
    )
    return a, b


def dead_six_and_failed() -> Facts:
    a, b = dead_six("no-answer", 3.3)
    return failing(a, "store", "ended", killed=True), failing(
        b, "store", "ended after 17 s: it did not return", killed=True
    )


def six_shut_by_node_0() -> Facts:
    """Node 0's own filter drops what comes by IPv6."""
    a, b = dead_six_and_failed()
    rules = own_rule("drop", 6)[0].network
    assert rules is not None
    return with_network(a, firewall=rules.firewall), b


ROWS = [
    Row("IPv6 is dropped by node 0's own filter", six_shut_by_node_0, ("host0",), together=True),
    Row("IPv6 on one of two", lambda: families(4, 6), ("host1",), together=True),
    Row("IPv6 on two of three, IPv4 on one", lambda: families(4, 6, 6), ("host0",), together=True),
    Row("IPv6 without a way", six_only, ("host1",), together=True),
    Row("IPv6 dropped, IPv4 works", dead_six_and_failed, ("host1",), together=True),
    Row("IPv6 unreachable, IPv4 works", lambda: dead_six("unreachable", 3.1), ("host1",), "warn", together=True),
]

LOOK_ALIKES = [
    LookAlike("dual stack, IPv4 first", lambda: tuple(dual_stack(one, n, 4) for n, one in enumerate(healthy(3)))),
    LookAlike("dual stack, IPv6 first", lambda: tuple(dual_stack(one, n, 6) for n, one in enumerate(healthy(3)))),
    LookAlike("IPv6 refused at once", lambda: dead_six("refused", 0.001)),
    LookAlike("no IPv6 at all", lambda: dead_six("unreachable", 0.0)),
]

CURES = [
    Cure(
        "node 0's own filter",
        six_shut_by_node_0,
        {
            "host0": {
                "commands": (
                    f"nft insert rule inet filter input ip6 saddr '{{ fd77::11, fd77::10 }}' tcp dport {PORT} accept",
                )
            }
        },
        only=True,
    ),
    Cure("IPv6 on one", lambda: families(4, 6), {"host1": {"env": {"GLOO_SOCKET_IFNAME": "eth0"}}}),
]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)
test_cured = cured(CHECK, CURES)


def test_an_interface_whose_first_address_is_of_the_other_family_is_no_fix() -> None:
    """GLOO_SOCKET_IFNAME would lead to the same family again."""
    found = fixes(*families(6, 4, 6))
    assert [(fix.nodes, fix.env) for fix in found] == [(("host1",), {})]
    assert "only an IPv6 address" in found[0].text


def test_a_dead_ipv6_address_is_replaced_by_the_ipv4_one() -> None:
    (fix,) = fixes(*dead_six("no-answer", 3.3))
    assert (fix.nodes, fix.flags) == (("host1",), {"--master-addr": "10.77.0.10"})


def test_in_a_draw_all_go_one_way_or_the_other() -> None:
    """Each node by the other's family would be the same again. host0 is reached by IPv6, host1 by IPv4."""
    a, b = families(6, 4)
    a = with_network(a, primary=AddressChoice("fd77::10", "eth0", "route"))
    told = [(fix.option, fix.nodes, fix.env) for fix in fixes(a, b)]
    assert told == [(1, ("host0",), {"GLOO_SOCKET_IFNAME": "eth0"}), (2, ("host1",), {})]
