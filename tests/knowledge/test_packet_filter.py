"""Tests of which rules concern a port, and the commands that open it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.knowledge.firewall.iptables import parse_iptables
from distdoctor.knowledge.firewall.nftables import parse_nft_json
from distdoctor.knowledge.firewall.packet_filter import (
    MOST_RULES,
    blocks,
    concerns,
    open_commands,
    opening_port,
    with_few_rules,
)
from distdoctor.model.facts import Firewall, FirewallChain
from tests.knowledge.test_rulesets import LEGACY, RECORDED


def chain(*rules: str, hook: str = "input", policy: str = "accept", family: str = "inet") -> FirewallChain:
    return FirewallChain("nft", family, "filter", hook, hook, policy, rules)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("rule", "port", "expected"),
    [
        ("tcp dport 29500 drop", 29500, True),
        ("tcp dport 29500 drop", 29501, False),
        ("tcp dport { 81, 90-95 } drop", 93, True),
        ("tcp dport { 81, 90-95 } drop", 82, False),
        ("tcp dport 32768-60999 reject", 40000, True),
        ("tcp dport != 22 drop", 29500, True),
        ("ip saddr 10.0.0.1 drop", 29500, True),
        ("tcp sport 53 drop", 29500, False),
        ("-p tcp -m multiport --dports 1,5:9 -j DROP", 7, True),
        ("-p tcp -m multiport --dports 1,5:9 -j DROP", 10, False),
        ("-p tcp -m tcp ! --dport 22 -j DROP", 29500, True),
        ("tcp dport 29500 jump extra > ip saddr 10.0.0.0/8 drop", 29501, False),
        ("tcp dport 29500 jump extra > tcp dport 29501 drop", 29500, False),
    ],
)
def test_a_rule_concerns_the_ports_it_names(rule: str, port: int, expected: bool) -> None:
    assert concerns(chain(rule), port) is expected


def test_replies_are_matched_by_their_source_port() -> None:
    assert concerns(chain("tcp sport 29500 drop", hook="output"), 29500, "sport")
    assert not concerns(chain("tcp dport 29500 drop", hook="output"), 29500, "sport")


def test_a_policy_of_drop_concerns_every_port() -> None:
    assert concerns(chain(policy="drop"), 1)
    assert blocks(Firewall(True, chains=(chain(policy="drop"),)), "input", 1) is True
    assert blocks(Firewall(True, chains=(chain(policy="drop"),)), "output", 1) is False
    assert blocks(Firewall(False), "input", 1) is None and blocks(None, "input", 1) is None


def test_the_port_alone_is_opened_only_where_it_alone_is_blocked() -> None:
    assert opening_port(Firewall(True, chains=(chain("tcp dport 29500 drop"),)), "input", 29500) == 29500
    assert opening_port(Firewall(True, chains=(chain("tcp dport 29500-29600 drop"),)), "input", 29500) is None
    assert opening_port(Firewall(True, chains=(chain(policy="drop"),)), "input", 29500) is None


def test_commands_for_both_families_and_tools() -> None:
    rules = Firewall(True, chains=(*parse_nft_json(RECORDED), *parse_iptables(LEGACY, "iptables")))
    assert open_commands(rules, "input", ["10.77.0.11", "fd00::2", "10.77.0.11", "::ffff:10.77.0.12"], None) == (
        "nft insert rule inet filter input ip saddr '{ 10.77.0.11, 10.77.0.12 }' meta l4proto tcp accept",
        "nft insert rule inet filter input ip6 saddr '{ fd00::2 }' meta l4proto tcp accept",
        "nft insert rule inet filter out ip daddr '{ 10.77.0.11, 10.77.0.12 }' meta l4proto tcp accept",
        "nft insert rule inet filter out ip6 daddr '{ fd00::2 }' meta l4proto tcp accept",
        "iptables-legacy -I INPUT -s 10.77.0.11,10.77.0.12 -p tcp -j ACCEPT",
        "iptables-legacy -I OUTPUT -d 10.77.0.11,10.77.0.12 -p tcp -j ACCEPT",
    )


def test_the_way_back_is_opened_by_the_source_port() -> None:
    rules = Firewall(True, chains=(chain(hook="output", policy="drop"), chain("tcp dport 29500 drop")))
    assert open_commands(rules, "input", ["10.0.0.2"], 29500) == (
        "nft insert rule inet filter output ip daddr '{ 10.0.0.2 }' tcp sport 29500 accept",
        "nft insert rule inet filter input ip saddr '{ 10.0.0.2 }' tcp dport 29500 accept",
    )


def test_firewalld_is_told_itself_once_for_all_its_chains() -> None:
    """A table of its own (flags owner) gives EPERM to everybody else's nft."""
    rule = "reject with icmpx admin-prohibited"
    chains = [FirewallChain("nft", "inet", "firewalld", n, "input", "accept", (rule,)) for n in ("raw_IN", "filter_IN")]
    command = "firewall-cmd --zone=trusted --change-source=10.77.0.11 --change-source=10.77.0.12"
    for port in (None, 29500):
        assert open_commands(Firewall(True, None, tuple(chains)), "input", ["10.77.0.11", "10.77.0.12"], port) == (
            command,
        )


def test_no_commands_where_nothing_was_seen_or_nothing_blocks() -> None:
    assert open_commands(None, "input", ["10.0.0.2"], 1) == ()
    assert open_commands(Firewall(False, "not root"), "input", ["10.0.0.2"], 1) == ()
    assert open_commands(Firewall(True), "input", ["10.0.0.2"], 1) == ()
    assert open_commands(Firewall(True, chains=(chain("tcp dport 2 drop"),)), "input", ["10.0.0.2"], 1) == ()
    assert open_commands(Firewall(True, chains=(chain(policy="drop"),)), "input", ["not-an-address; rm"], 1) == ()


def test_odd_names_of_chains_are_quoted() -> None:
    odd = FirewallChain("nft", "inet", "my table; reboot", "in put", "input", "drop")
    (command,) = open_commands(Firewall(True, chains=(odd,)), "input", ["10.0.0.2"], 1)
    assert command.startswith("nft insert rule inet 'my table; reboot' 'in put' ")


def test_of_very_many_rules_those_for_the_ports_of_a_run_are_kept() -> None:
    """A node of Kubernetes with 1,000 services told 0.7 MB of rules that concern none of its connections."""
    services = tuple(f"-p tcp --dport {8000 + n} -j KUBE-SVC > -p tcp -j DNAT" for n in range(1000))
    ours = ("-p tcp --dport 29000:30000 -j DROP", "-p tcp --sport 40000 -j DROP", "-s 10.0.0.1 -j DROP")
    chain = FirewallChain("iptables", "ip", "nat", "PREROUTING", "input", "accept", (*services, *ours), services)
    told = with_few_rules(chain, {29500, 40000})
    assert (told.blocking_rules, told.limited) == (ours, ())
    every = replace(chain, blocking_rules=("-j DROP",) * 1000)
    assert len(with_few_rules(every, {29500}).blocking_rules) == MOST_RULES
    assert (
        with_few_rules(replace(chain, blocking_rules=services[:9], limited=()), {29500}).blocking_rules == services[:9]
    )
