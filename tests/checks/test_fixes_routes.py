"""Remedies for routes, netmasks and reverse path filters: what the nodes' own tables prove, and no packet filter."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import Firewall
from tests.checks import rows_routes as rows
from tests.facts_builder import blocking, healthy, judged, outside, waited_in_vain, with_network


@pytest.mark.parametrize("name", rows.FIXES)
def test_the_one_command_puts_right_what_is_wrong(name: str) -> None:
    make, command = rows.FIXES[name]
    (root,) = judged(*make()).roots
    assert [fix.commands for fix in root.fixes] == [(command,)]
    assert set(root.fixes[0].nodes) == set(root.nodes)
    said = " ".join((root.title, root.summary, *root.evidence, *(fix.text for fix in root.fixes)))
    assert "firewall" not in said.lower() and "accept TCP" not in said


def test_a_host_that_others_reach_is_not_to_be_brought_up() -> None:
    findings = judged(*rows.shut_out_of_three()).findings
    texts = [fix.text for f in findings if f.check == "network/master-unreachable" for fix in f.fixes]
    assert texts and all("Bring" not in text for text in texts)
    assert "host0 is up" in texts[0]


def test_one_that_nobody_met_may_be_down() -> None:
    _, b = healthy(2)
    findings = judged(outside(b, "unreachable", errno=113)).findings
    texts = [fix.text for f in findings if f.check == "network/master-unreachable" for fix in f.fixes]
    assert texts and "Bring" in texts[0]


def test_rules_that_block_nothing_are_not_to_be_opened() -> None:
    """Both ends' rules were read and block nothing: it is between the hosts."""
    a, b = healthy(2)
    a, b = waited_in_vain(a), outside(b, "no-answer", control="refused")
    (root,) = judged(*(with_network(one, firewall=Firewall(True)) for one in (a, b))).roots
    assert root.id == "network/port-filtered" and root.blame == "one-of"
    assert all(not fix.commands and "between the hosts" in fix.text for fix in root.fixes)
    assert all("On host" not in fix.text for fix in root.fixes)


def test_one_behind_nat_that_dials_works_with_gloo() -> None:
    """gloo connects from the larger address to the smaller: the way that is missing is not needed."""
    (root,) = judged(*rows.behind_nat("172.28.0.2")).roots
    assert root.severity == "warn" and "gloo does not connect in that direction" in root.summary
    (root,) = judged(*rows.behind_nat("10.5.0.2")).roots
    assert root.severity == "fail" and "gloo" not in root.summary


def test_of_a_lan_in_a_tunnel_the_other_host_is_not_accused() -> None:
    (root,) = judged(*rows.vpn("10.77.0.0/25")).roots
    assert "host1: it sends to 10.77.0.10 (host0) by tun0 (10.77.0.0/25)" in " ".join(root.evidence)
    assert not any("host0: its routing table" in line for line in root.evidence)


def test_one_node_alone_names_its_interface_that_is_down() -> None:
    _, b = rows.asleep(outcome="unreachable", errno=101)
    findings = judged(b).findings
    commands = [fix.commands for f in findings if f.check == "network/no-route" for fix in f.fixes]
    assert commands == [("ip link set dev admin0 up",)]


def test_one_node_alone_shows_that_its_packets_leave_by_another_interface() -> None:
    _, b = rows.vpn("10.77.0.0/25")
    (shut,) = [f for f in judged(b).findings if f.check == "network/port-filtered"]
    assert "host1: packets to 10.77.0.10 leave by tun0 (10.77.0.0/25)" in " ".join(shut.evidence)


def test_a_tunnel_that_works_is_not_accused_of_what_a_rule_blocks() -> None:
    """The same host answers on another port, and host0's own rule drops what is for the master's."""
    a, b = rows.vpn("10.77.0.0/25")
    assert b.network is not None and b.network.contact is not None
    b = with_network(b, control=replace(b.network.contact, port=22, outcome="refused"))
    (root,) = judged(with_network(a, firewall=blocking("tcp dport 29500 drop")), b).roots
    assert (root.id, root.nodes) == ("network/port-filtered", ("host0",))
    assert "route" not in " ".join(fix.text for fix in root.fixes)
