"""Remedies for routes, netmasks and reverse path filters: what the nodes' own tables prove, and no packet filter."""

from __future__ import annotations

import pytest

from distdoctor.facts import Firewall
from tests.checks import rows_routes as rows
from tests.facts_builder import healthy, judged, outside, waited_in_vain, with_network


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
