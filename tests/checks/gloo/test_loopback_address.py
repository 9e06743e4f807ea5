"""gloo/loopback-address: what it finds, and what it leaves alone."""

from __future__ import annotations

from dataclasses import replace

from distdoctor.model.facts import AddressChoice, HostsLine, Resolution
from tests.checks.row import BOTH, Facts, LookAlike, Row, first, fixes, found, left_alone
from tests.clusters.interfaces import interfaces
from tests.clusters.launch import near
from tests.clusters.odd import named_master
from tests.facts_builder import (
    failing,
    healthy,
    judged,
    loopback_name,
    met,
    node,
    with_gpus,
    with_host,
    with_host_lines,
    with_network,
    with_plan,
)

CHECK = "gloo/loopback-address"

REFUSED = "connectFullMesh failed with [connect [127.0.1.1]:1234: Connection refused]"


def loopback_both() -> Facts:
    a, b = healthy(2)
    return failing(loopback_name(a), "gloo", REFUSED), failing(loopback_name(b), "gloo", "ended after 3 s", killed=True)


def loopback_one(network: str = "10.77.0") -> Facts:
    master = f"{network}.10"
    a, b = node("host0", 0, ip=master, master=master), node("host1", 1, ip=f"{network}.11", master=master)
    return met(a, loopback_name(b))


def nowhere_one(at: str = "0.0.0.0") -> Facts:
    """host1's own name means 0.0.0.0, which gloo can bind, and which every host takes for its own loopback."""
    a, b = healthy(2)
    said = "[enforce fail at device.cc:212] ifa != nullptr. Unable to find interface for: [0.0.0.0]"
    return failing(a, "gloo", "ended after 3 s", killed=True), failing(loopback_name(b, at), "gloo", said)


def loopback_of_other_family() -> Facts:
    """host1's own name means ::1 before its real address; gloo compares families before anybody connects."""
    a, b = healthy(2)
    said = "[enforce fail at device.cc:285] ss1.ss_family == ss2.ss_family. {}"
    return failing(a, "gloo", said.format("2 vs 10")), failing(loopback_name(b, "::1"), "gloo", said.format("10 vs 2"))


def loopback_variable() -> Facts:
    return tuple(with_host(one, gloo=AddressChoice("127.0.0.1", "lo", "variable", "lo")) for one in healthy(2))


def unresolvable_both() -> Facts:
    facts = []
    for one in healthy(2):
        own = Resolution(one.identity.hostname, error="Name or service not known")
        facts.append(with_host(one, own_name=own, gloo=AddressChoice("127.0.0.1", "lo", "fallback")))
    return tuple(failing(one, "gloo", REFUSED.replace("127.0.1.1", "127.0.0.1")) for one in facts)


def nccl_gloo_probed() -> Facts:
    """--backend nccl; gloo is probed all the same."""
    facts = (failing(loopback_name(one), "gloo", REFUSED) for one in healthy(2))
    return tuple(with_gpus(with_plan(one, backend="nccl"), 2) for one in facts)


def misspelled_interface() -> Facts:
    """GLOO_SOCKET_IFNAM, and gloo takes 127.0.1.1."""
    facts = []
    for one in healthy(2):
        own = Resolution(one.identity.hostname, ("127.0.1.1",))
        facts.append(
            near(with_host(one, own_name=own, gloo=AddressChoice("127.0.1.1", "lo", "hostname")), "GLOO_SOCKET_IFNAM")
        )
    return tuple(facts)


def numeric_own() -> Facts:
    """gloo falls back to 127.0.0.1 with such a name: that is the root."""
    facts = []
    for number in range(2):
        one = node(f"684123{number}", number)
        own = Resolution(one.identity.hostname, (f"0.104.99.14{number}",))
        one = with_host(one, own_name=own, gloo=AddressChoice("127.0.0.1", "lo", "fallback"))
        facts.append(one)
    return met(*facts)


ROWS = [
    Row("127.0.1.1 on both", loopback_both, BOTH, together=True),
    Row("127.0.1.1 on one, 10.x", loopback_one, ("host1",), "warn", together=True),
    Row("127.0.1.1 on one, 192.168", lambda: loopback_one("192.168.7"), ("host1",), together=True),
    Row("0.0.0.0 on one", nowhere_one, ("host1",), together=True),
    Row("an address of multicast on one", lambda: nowhere_one("224.0.0.1"), ("host1",), together=True),
    Row("::1 on one, IPv4 on the other", loopback_of_other_family, ("host1",), together=True),
    Row("GLOO_SOCKET_IFNAME=lo", loopback_variable, BOTH, together=True),
    Row("own name unknown", unresolvable_both, BOTH, together=True),
    Row("nccl, gloo probed", nccl_gloo_probed, BOTH, "warn", together=True),
    Row("GLOO_SOCKET_IFNAM and 127.0.1.1", misspelled_interface, BOTH, together=True),
    Row("own names are numbers", numeric_own, ("6841230", "6841231"), together=True),
    Row("the second interface is loopback", lambda: interfaces("eth0,lo", "eth0,lo"), BOTH, together=True),
]

LOOK_ALIKES = [LookAlike("GLOO_SOCKET_IFNAME is right", named_master)]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


def test_gloo_gets_each_nodes_own_interface() -> None:
    a, b = loopback_both()
    assert b.network is not None and b.network.primary is not None
    b = with_network(b, primary=replace(b.network.primary, interface="ens5"))
    found = first(a, b)
    assert [(f.nodes, f.env) for f in found] == [
        (("host0",), {"GLOO_SOCKET_IFNAME": "eth0"}),
        (("host1",), {"GLOO_SOCKET_IFNAME": "ens5"}),
    ]


def test_gloo_evidence_names_the_line_and_what_gloo_said() -> None:
    a, b = loopback_both()
    a = with_host_lines(a, HostsLine(2, "127.0.1.1\thost0"))
    (root,) = judged(a, b).roots
    text = "\n".join(root.evidence)
    assert "host0: /etc/hosts line 2: 127.0.1.1 host0" in text
    assert "its hostname host0 resolves to 127.0.1.1" in text
    assert "connect [127.0.1.1]:1234: Connection refused" in text


def test_a_line_that_gives_the_own_name_0_0_0_0_is_corrected_in_its_place() -> None:
    """One behind it would not help: gloo takes the first address that it can bind."""
    a, b = nowhere_one()
    found = fixes(a, with_host_lines(b, HostsLine(4, "0.0.0.0 host1")))
    (command,) = (command for fix in found if fix.option == 2 for command in fix.commands)
    assert "sed -e '4c\\10.77.0.11 host1' /etc/hosts" in command


def test_the_variable_that_leads_gloo_to_lo_can_be_unset() -> None:
    found = fixes(*loopback_variable())
    assert [f.env for f in found if f.option == 2] == [{"GLOO_SOCKET_IFNAME": None}] * 2
