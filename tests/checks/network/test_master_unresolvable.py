"""network/master-unresolvable: what it finds, and what it leaves alone."""

from __future__ import annotations

import pytest

from distdoctor.check_api.fixes import READ_HOSTS_FILE
from distdoctor.model.facts import AddressChoice, Bind, HostsLine, Interface, Resolution
from tests.checks.network.test_master_not_node0 import nobodys_address
from tests.checks.row import BOTH, Facts, LookAlike, Row, first, fixes, found, left_alone
from tests.facts_builder import (
    PORT,
    healthy,
    judged,
    outside,
    waited_in_vain,
    with_host,
    with_master,
    with_network,
    with_plan,
)

CHECK = "network/master-unresolvable"


def unknown_on_one() -> Facts:
    a, b = healthy(2)
    a = with_master(a, "host0", own=True, resolved=["10.77.0.10"])
    return waited_in_vain(a), outside(with_master(b, "host0", own=None, resolved=[]), None)


def no_ipv6_there() -> Facts:
    """Node 0's way out is one of IPv6, and it has IPv4 on another card; on host1 IPv6 is off."""
    a, b = unknown_on_one()
    lo, eth1 = Interface("lo", ("127.0.0.1",), (8,), loopback=True), Interface("eth1", ("10.77.0.10",), (24,))
    a = with_host(a, interfaces=(lo, Interface("eth0", ("fd77::a",), (64,)), eth1))
    a = with_network(a, primary=AddressChoice("fd77::a", "eth0", "default route"))
    return a, with_host(b, interfaces=(lo, Interface("eth0", ("10.77.0.11",), (24,))))


def file_not_read(*sources: str, line: str = "10.77.0.10 host0") -> Facts:
    """host1's nsswitch.conf looks nothing up in /etc/hosts, where its own name and the master's are."""
    a, b = unknown_on_one()
    assert b.host is not None
    b = with_host(
        b,
        own_name=Resolution("host1", error="Temporary failure in name resolution"),
        gloo=AddressChoice("127.0.0.1", "lo", "fallback"),
        hosts_lines=(HostsLine(4, "10.77.0.11 host1"),),
        name_sources=sources,
    )
    return a, with_network(b, master_lines=(HostsLine(3, line),) if line else ())


def file_closed() -> Facts:
    """host1's user may not read /etc/hosts."""
    a, b = file_not_read("files", "dns", line="")
    return a, with_host(b, hosts_lines=(), hosts_file_closed=True)


def unknown_everywhere() -> Facts:
    a, b = (outside(with_master(one, "gpu0", own=None, resolved=[]), None) for one in healthy(2, declared=True))
    return with_network(a, bind=Bind(True, PORT)), b


LINE = "echo '10.77.0.10 host0' >> /etc/hosts"

ROWS = [
    Row("name unknown on one", unknown_on_one, ("host1",)),
    Row("/etc/hosts is not read", lambda: file_not_read("dns"), ("host1",)),
    Row("/etc/hosts is for root alone", file_closed, ("host1",)),
    Row("name unknown everywhere", unknown_everywhere, BOTH),
]

LOOK_ALIKES = [LookAlike("an address that is nobody's", nobodys_address, "network/master-not-node0")]

test_found = found(CHECK, ROWS)
test_left_alone = left_alone(CHECK, LOOK_ALIKES)


@pytest.mark.parametrize(
    ("looked_in", "line", "commands"),
    [
        ("dns", "10.77.0.10 host0", (READ_HOSTS_FILE,)),
        ("dns mdns4_minimal myhostname", "", (LINE, READ_HOSTS_FILE)),
        ("dns", "10.77.0.99 host0", (LINE, READ_HOSTS_FILE)),
        ("files dns", "", (LINE,)),
        ("resolve dns", "", (LINE,)),
        ("sss dns", "", (LINE,)),
        ("files dns", "10.77.0.10 host0", ()),
    ],
)
def test_no_line_is_added_that_is_there_and_the_file_is_read(
    looked_in: str, line: str, commands: tuple[str, ...]
) -> None:
    found = judged(*file_not_read(*looked_in.split(), line=line)).findings
    assert next(f for f in found if f.check == CHECK).fixes[0].commands == commands
    assert "echo '10.77.0.11 host1' >> /etc/hosts" not in {c for f in found for fix in f.fixes for c in fix.commands}


def test_without_node_0s_facts_a_line_that_is_there_is_read() -> None:
    assert first(file_not_read("dns")[1])[0].commands == (READ_HOSTS_FILE,)
    assert first(file_not_read("dns", line="")[1])[0].commands == ()


@pytest.mark.parametrize("everywhere", [True, False])
@pytest.mark.parametrize(
    ("name", "slip"),
    [("hosst0", True), ("hots0", True), ("Host0", False), ("host0.site", False), ("host7", False), ("gpu0", None)],
)
def test_a_slip_in_the_name_is_not_made_to_last_in_a_file(name: str, slip: bool | None, everywhere: bool) -> None:
    """Where the others name node 0 otherwise, or it is called nearly so itself. What is like nothing is a slip only
    beside another name."""
    a, b = healthy(2, declared=True)
    b = outside(with_master(b, name, own=None, resolved=[]), None)
    if everywhere:
        a = with_network(outside(with_master(a, name, own=None, resolved=[]), None), bind=Bind(True, PORT))
    else:
        a = waited_in_vain(with_master(a, "host0", own=True, resolved=["10.77.0.10"]))
    found = next(one for one in judged(a, b).findings if one.check == CHECK)
    if slip or (not everywhere and (slip is None or name == "host7")):
        assert found.fixes[0].flags == {"--master-addr": "10.77.0.10"}
        assert found.fixes[-1].option == 2 and f"10.77.0.10 {name}" in str(found.fixes[-1].commands)
    else:
        assert f"10.77.0.10 {name}" in str(found.fixes[0].commands)


def test_a_host_whose_ipv6_is_off_is_given_no_address_of_ipv6() -> None:
    assert first(*no_ipv6_there())[0].commands == (LINE,)


def test_an_unresolvable_master_gets_a_line_or_a_number() -> None:
    found = fixes(*unknown_on_one())
    assert found[0].commands == ("echo '10.77.0.10 host0' >> /etc/hosts",)
    assert (found[1].option, found[1].flags, found[1].nodes) == (2, {"--master-addr": "10.77.0.10"}, ("host1",))


@pytest.mark.parametrize("source", ["MASTER_ADDR", "--master-addr", "--rdzv-endpoint"])
def test_one_node_that_cannot_resolve_its_master_names_itself(source: str) -> None:
    """There is no other host whose address could be added to /etc/hosts, least of all under a mistyped name."""
    one = with_plan(healthy(1)[0], sources={"master_addr": source}, node_rank=0)
    (root,) = judged(outside(with_master(one, "nonsense", own=None, resolved=[]), None)).roots
    assert root.check == CHECK
    (fix,) = root.fixes
    change = {source: "127.0.0.1:29500" if source == "--rdzv-endpoint" else "127.0.0.1"}
    assert (fix.env, fix.flags) == ((change, {}) if source == "MASTER_ADDR" else ({}, change))


def test_one_node_whose_own_name_is_the_masters_gets_its_line() -> None:
    """The name is right, and gloo needs its address, too."""
    one = outside(with_master(healthy(1)[0], "host0", own=None, resolved=[]), None)
    assert fixes(one)[0].commands == ("echo '10.77.0.10 host0' >> /etc/hosts",)


def test_a_file_that_may_not_be_read_is_opened_and_a_line_is_added_where_it_lacks() -> None:
    (root,) = (one for one in judged(*file_closed()).findings if one.id == CHECK)
    (first, *_) = root.fixes
    assert first.commands == (f"grep -qw host0 /etc/hosts || {LINE}", "chmod a+r /etc/hosts")
    assert first.text == "Let host1 read /etc/hosts, and add host0 with its address there."
    assert "host1: /etc/hosts may not be read by this user" in root.evidence
