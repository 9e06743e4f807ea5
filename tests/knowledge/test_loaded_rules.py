"""Rules that nft and iptables have loaded, in a network namespace of their own: what is read of them, and that the
commands which open them are taken."""

from __future__ import annotations

import json
import os
import subprocess

import pytest

from distdoctor.knowledge.firewall.iptables import parse_iptables
from distdoctor.knowledge.firewall.nftables import parse_nft_json
from distdoctor.knowledge.firewall.packet_filter import blocks, open_commands
from distdoctor.model.facts import Firewall
from tests.helpers.namespaces import ENV, entry

RULESETS = {
    "policy": "table inet f { chain input { type filter hook input priority 0; policy drop; } }",
    "drop": "table ip f { chain in { type filter hook input priority 0; tcp dport 29500 drop; } }",
    "prerouting": "table inet f { chain pre { type filter hook prerouting priority -300; ip saddr 10.0.0.0/8 drop; } }",
    "set": "table inet f { set ports { type inet_service; elements = { 29500, 1 } }\n"
    "chain in { type filter hook input priority 0; tcp dport @ports reject; } }",
    "map": "table inet f { map verdicts { type inet_service : verdict; elements = { 29500 : drop } }\n"
    "chain in { type filter hook input priority 0; tcp dport vmap @verdicts; } }",
    "jump": "table inet f { chain extra { counter drop; }\n"
    "chain in { type filter hook input priority 0; ip saddr 10.0.0.0/8 jump extra; } }",
    "forwarded": "table ip nat { chain docker { tcp dport 29500 dnat to 172.17.0.5:29500; }\n"
    "chain pre { type nat hook prerouting priority -100; fib daddr type local jump docker; } }",
    "redirected": "table ip n { chain p { type nat hook prerouting priority -100; tcp dport 29500 redirect to :1; } }",
    "own": "table ip nat { chain out { type nat hook output priority -100; tcp dport 29500 dnat to 10.0.0.1; } }",
    "source": "table ip n { chain post { type nat hook postrouting priority 1; ip daddr 10.0.0.2 snat to 10.0.0.1; } }",
    "bridge": "table bridge f { chain in { type filter hook input priority 0; tcp dport 29500 drop; } }",
    "ip6": "table ip6 f { chain in { type filter hook input priority 0; policy drop; } }",
    "output": "table inet f { chain out { type filter hook output priority 0; tcp dport != 22 drop; } }",
}
HARMLESS = {
    "invalid": "table inet f { chain in { type filter hook input priority 0; ct state invalid drop; } }",
    "udp": "table inet f { chain in { type filter hook input priority 0; udp dport 53 drop; }\n}",
    "nat": "table ip nat { chain pre { type nat hook prerouting priority -100; } }",
    "sidecar": "table ip m { chain pre { type nat hook prerouting priority -100; tcp dport != 1 redirect to :1; } }",
    "out": "table ip nat { chain post { type nat hook postrouting priority 100; masquerade; } }",
    "own service": "table ip nat { chain docker { tcp dport 29500 dnat to 172.17.0.5:29500; }\n"
    "chain out { type nat hook output priority -100; ip daddr != 127.0.0.0/8 fib daddr type local jump docker; } }",
    "containers": "table ip nat { chain post { type nat hook postrouting priority 100; "
    "ip saddr 172.17.0.0/16 snat to 10.0.0.1; } }",
    "forward": "table inet f { chain through { type filter hook forward priority 0; policy drop; } }",
    "accepts": "table inet f { chain in { type filter hook input priority 0; tcp dport 29500 accept; } }",
    "unused": "table inet f { chain extra { drop; }\nchain in { type filter hook input priority 0; } }",
}


def in_namespace(*commands: str, tools: tuple[str, ...] = ("nft",)) -> str:
    """The output of the last command; all run in one new network namespace. Fails where any does."""
    done = subprocess.run(
        [*entry("--net", tools=tools), "sh", "-c", "\n".join(["set -e", *commands])],
        env=ENV,
        capture_output=True,
        check=False,
        text=True,
        timeout=20,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def load(ruleset: str) -> str:
    # nft wants a line's end after each inner brace.
    return "nft -f - <<'RULES'\n" + ruleset.replace("} }", "}\n}").replace("; }", ";\n}\n") + "\nRULES"


@pytest.mark.parametrize("name", RULESETS)
def test_real_nft_rules_are_read_and_the_commands_taken(name: str) -> None:
    """The commands run as printed, and afterwards the first rule of the chain accepts the peer."""
    chains = parse_nft_json(in_namespace(load(RULESETS[name]), "nft -j list ruleset"))
    assert len(chains) == 1
    rules = Firewall(True, chains=chains)
    peer = "fd00::2" if name == "ip6" else "10.77.0.11"
    hook = chains[0].hook
    for port in (29500, None):
        commands = open_commands(rules, hook, [peer], port)
        assert len(commands) == 1
        listed = in_namespace(load(RULESETS[name]), *commands, "nft -j list ruleset")
        added = [item["rule"] for item in json.loads(listed)["nftables"] if "rule" in item]
        first = next(rule for rule in added if rule["chain"] == chains[0].name)
        assert first["expr"][-1] == {"accept": None}
        assert peer in json.dumps(first)


@pytest.mark.parametrize("name", HARMLESS)
def test_real_nft_rules_that_let_tcp_through_are_not_listed(name: str) -> None:
    assert parse_nft_json(in_namespace(load(HARMLESS[name]), "nft -j list ruleset")) == ()


def test_flags_that_are_asked_for_are_told_as_nft_prints_them() -> None:
    rules = ("tcp flags syn / syn,ack ct count over 4 drop", "tcp flags & (fin | syn) == syn drop")
    text = in_namespace(
        load("table inet f { chain in { type filter hook input priority 0; " + "; ".join(rules) + "; } }"),
        "nft -j list ruleset",
    )
    (chain,) = parse_nft_json(text)
    first, second = chain.blocking_rules
    assert first.startswith("tcp flags & syn") and first.endswith("== syn ct count over 4 drop")
    assert second.startswith("tcp flags & fin") and second.endswith("== syn drop")


def test_rules_of_iptables_nft_are_seen_by_nft() -> None:
    rule = "iptables-nft -A INPUT -p tcp --dport 29500 -j REJECT"
    chains = parse_nft_json(in_namespace(rule, "nft -j list ruleset", tools=("nft", "iptables-nft")))
    (one,) = chains
    assert (one.table, one.name, blocks(Firewall(True, chains=chains), "input", 29500)) == ("filter", "INPUT", True)
    assert blocks(Firewall(True, chains=chains), "input", 29501) is False


@pytest.mark.skipif(os.geteuid() != 0, reason="only root itself may load what iptables-legacy needs")
def test_real_iptables_rules_are_read_and_the_commands_taken() -> None:
    rule = "iptables-legacy -A INPUT -p tcp --dport 29500 -j DROP"
    legacy = ("iptables-legacy", "iptables-legacy-save")
    chains = parse_iptables(in_namespace(rule, "iptables-legacy-save", tools=legacy), "iptables")
    (command,) = open_commands(Firewall(True, chains=chains), "input", ["10.77.0.11"], 29500)
    saved = in_namespace(rule, command, "iptables-legacy-save")
    first = next(line for line in saved.splitlines() if line.startswith("-A INPUT"))
    assert first == "-A INPUT -s 10.77.0.11/32 -p tcp -m tcp --dport 29500 -j ACCEPT"


def test_a_limit_of_rate_is_told_with_the_rule() -> None:
    """The rule drops what comes beyond; one that only logs so often drops it all, and is none."""
    chain = "chain in { type filter hook input priority 0; %s }"
    rules = "limit rate over 3/minute drop; add @seen { ip saddr limit rate over 5/second } drop;"
    seen = "set seen { type ipv4_addr; flags dynamic; }"
    said = in_namespace(f"nft -f - <<'END'\ntable ip f {{ {seen}\n{chain % rules}\n}}\nEND", "nft -j list ruleset")
    (one,) = parse_nft_json(said)
    assert one.blocking_rules == ("limit rate over 3/minute drop", "limit rate over 5/second drop")


def test_what_accepts_so_many_and_drops_the_rest_is_told() -> None:
    chain = "chain in { type filter hook input priority 0; %s }"
    syn, flood = "tcp flags & (syn | ack) == syn", "chain flood { limit rate 10/second burst 20 packets return; drop; }"
    accepts = ("icmp type echo-request limit rate 5/second", f"{syn} limit rate 3/minute", f"{syn} ct count 9")
    rules = " ".join(f"{rule} accept;" for rule in accepts)
    said = in_namespace(
        f"nft -f - <<'END'\ntable ip f {{ {flood}\n{chain % f'{rules} {syn} jump flood; {syn} drop;'}\n}}\nEND",
        "nft -j list ruleset",
    )
    (one,) = parse_nft_json(said)
    assert [rule.removeprefix("tcp flags & syn,ack == syn ") for rule in one.limited] == [
        "limit rate 3/minute accept",
        "ct count 9 accept",
        "jump flood > limit rate 10/second return",
    ]
    open_to_all = in_namespace(f"nft -f - <<'END'\ntable ip f {{ {chain % rules}\n}}\nEND", "nft -j list ruleset")
    assert parse_nft_json(open_to_all) == ()
