"""Tests of what is read of this host's packet filter."""

from __future__ import annotations

import pytest

from tests.helpers.namespaces import lines_of

CODE = """
import subprocess
from distdoctor.probes.network.firewall import firewall
subprocess.run(RULES, shell=True, check=True)
found = firewall(29500, (32768, 60999))
print(len(found.shut), *found.open_ports)
"""
NFT = "nft -f - <<END\ntable inet f {{ chain i {{ type filter hook input priority 0; policy drop; {} }}; }}\nEND"
SOME = "ct state established,related accept; tcp dport { 22, 20000-30000 } accept;"
IPTABLES = (
    "iptables -P INPUT DROP; ip6tables -P INPUT DROP; for i in iptables ip6tables; do "
    "$i -A INPUT -p tcp -m multiport --dports 22,20000:30000 -j ACCEPT; done"
)


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (NFT.format(SOME), "0 (22, 22) (20000, 30000)"),
        (IPTABLES, "0 (22, 22) (20000, 30000)"),
        (NFT.format("ip saddr 10.0.0.0/8 accept;"), "1"),
        (NFT.format("tcp dport 32768-60999 accept;"), "2"),
        (NFT.format(""), "2"),
    ],
    ids=["a range", "a range of iptables", "all ports for some", "what the kernel picks", "nothing"],
)
def test_the_ports_that_are_open_where_others_are_shut(rules: str, told: str) -> None:
    assert lines_of(f"RULES = {rules!r}\n{CODE}", "--net", tools=("nft", "iptables")) == [told]


DENIED = """
import subprocess, sys
rules = "add table inet f; add chain inet f i { type filter hook input priority 0; policy drop; }"
subprocess.run(["nft", rules], check=True)
code = "from distdoctor.probes.network.firewall import firewall; f = firewall(29500); print(f.readable, f.why_not)"
without = ["setpriv", "--bounding-set", "-net_admin", "--inh-caps", "-net_admin"]
print(subprocess.run([*without, sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip())
"""


def test_a_root_that_may_not_read_them_has_not_seen_that_there_are_none() -> None:
    (line,) = lines_of(DENIED, "--net", tools=("nft", "setpriv"))
    assert line.startswith("False ") and "CAP_NET_ADMIN" in line


WHO = """
import subprocess
from distdoctor.probes.network.firewall import firewall
subprocess.run(RULES, shell=True, check=True)
for one in firewall(29500, (32768, 60999), "eth0").passages:
    if ":" not in one.first and one.way == WAY: print(one.port, one.first, one.last)
"""
TRUSTED = "ct state established,related accept; iifname lo accept;"
UFW = (
    "iptables -P INPUT DROP; iptables -N user; iptables -A INPUT -i lo -j ACCEPT; "
    "iptables -A INPUT -m conntrack --ctstate INVALID -j DROP; iptables -A INPUT -j user; "
    "iptables -A user -s 10.77.0.0/24 -j ACCEPT; iptables -A user -p tcp -m tcp --dport 22 -j ACCEPT; "
    "ip6tables -P INPUT DROP"
)
ALL = "0.0.0.0 255.255.255.255"
LAN = "10.77.0.0 10.77.0.255"


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (NFT.format(f"{TRUSTED} ip saddr 10.77.0.0/24 accept;"), [f"29500 {LAN}", f"None {LAN}"]),
        (NFT.format(f"{TRUSTED} tcp dport {{ 22, 29500 }} accept;"), [f"29500 {ALL}"]),
        (NFT.format("iifname eth0 accept;"), [f"29500 {ALL}", f"None {ALL}"]),
        (NFT.format("ip saddr { 10.77.0.11, 10.77.0.20-10.77.0.29 } tcp dport 1024-65535 accept;"),
         [f"{port} {ends}" for port in (29500, None)
          for ends in ("10.77.0.11 10.77.0.11", "10.77.0.20 10.77.0.29")]),
        (NFT.format("tcp dport 22 accept; tcp dport 32768-50000 accept;"), []),
        (NFT.format("iifname eth1 accept; limit rate 5/second accept;"), []),
        (UFW, [f"29500 {LAN}", f"None {LAN}"]),
        (UFW.replace("iptables", "iptables-legacy"), [f"29500 {LAN}", f"None {LAN}"]),
        ("iptables -A INPUT -s 10.77.0.99 -p tcp -m tcp --syn -j DROP",
         [f"{port} {ends}" for port in (29500, None)
          for ends in ("0.0.0.0 10.77.0.98", "10.77.0.100 255.255.255.255")]),
        ("iptables -P INPUT DROP; iptables -A INPUT -m recent --name q --rcheck -j ACCEPT", []),
        ("true", []),
    ],
    ids=["a network", "a port", "the only card", "a set", "a part of the ports", "perhaps", "ufw", "ufw, legacy",
         "but one", "a module", "no rules"],
)  # fmt: skip
def test_whom_it_lets_in_for_certain(rules: str, told: list[str]) -> None:
    tools = ("nft", "iptables", "iptables-legacy")
    assert lines_of(f"RULES, WAY = {rules!r}, 'in'\n{WHO}", "--net", tools=tools) == told


KUBELET = (
    "iptables -N KUBE-FIREWALL; iptables -A INPUT -j KUBE-FIREWALL; iptables -A OUTPUT -j KUBE-FIREWALL; iptables -A "
    "KUBE-FIREWALL ! -s 127.0.0.0/8 -d 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP"
)
OUT = NFT.replace("hook input", "hook output")
ANSWERS_IN = "iptables -P INPUT DROP; iptables -A INPUT -m conntrack --ctstate ESTABLISHED -j ACCEPT"
EGRESS = (
    "nft add table netdev f; nft add chain netdev f e '{ type filter hook egress device lo priority 0; policy drop; }'"
)
REST = [f"{port} {ends}" for port in (29500, None)
        for ends in ("0.0.0.0 169.254.169.253", "169.254.169.255 255.255.255.255")]  # fmt: skip
BUT_LOOPBACK = [f"{port} {ends}" for port in (29500, None)
                for ends in ("0.0.0.0 126.255.255.255", "128.0.0.0 255.255.255.255")]  # fmt: skip


ANY = [f"29500 {ALL}", f"None {ALL}"]
NAMES = (
    "iptables{0} -t raw -A PREROUTING -d 169.254.20.10 -p udp --dport 53 -j CT --notrack; "
    "iptables{0} -t raw -A OUTPUT -s 169.254.20.10 -p tcp --sport 8080 -j CT --notrack"
)
"""Rules of Kubernetes' NodeLocal DNSCache on each node."""


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        ("iptables -A OUTPUT -d 169.254.169.254 -j DROP", REST),
        (KUBELET, BUT_LOOPBACK),
        (OUT.format("ct state established accept; ip daddr 10.77.0.0/24 tcp dport { 22, 29500 } accept;"),
         [f"29500 {LAN}"]),
        (ANSWERS_IN,
         ANY),
        ("iptables -A INPUT -p tcp --sport 29500 -j DROP", [f"None {ALL}"]),
        (EGRESS, []),
        (f"{ANSWERS_IN}; nft add table ip raw; nft add chain ip raw p "
         "'{ type filter hook prerouting priority -300; }'; nft add rule ip raw p tcp sport 29500 notrack", []),
        (f"{ANSWERS_IN}; iptables -t raw -A PREROUTING -p tcp --sport 29500 -j CT --notrack", []),
        (f"{ANSWERS_IN}; iptables-legacy -t raw -A PREROUTING -i eth0 -j CT --zone 5", []),
        (f"{ANSWERS_IN}; {NAMES.format('')}", ANY),
        (f"{ANSWERS_IN}; {NAMES.format('-legacy')}", ANY),
        (f"{ANSWERS_IN}; iptables -t raw -A OUTPUT -p tcp ! --dport 53 -j CT --notrack", []),
        (f"{ANSWERS_IN}; iptables -t raw -A OUTPUT -p tcp --dport 53:40000 -j CT --notrack", []),
    ],
    ids=["but the cloud's own address", "kubelet's", "a network", "answers come in", "none from the port", "egress",
         "not tracked", "not tracked, by iptables", "tracked apart", "a server of names", "the same, older",
         "all but one port", "a range of ports"],
)  # fmt: skip
def test_to_whom_it_lets_out_for_certain(rules: str, told: list[str]) -> None:
    tools = ("nft", "iptables", "iptables-legacy")
    assert lines_of(f"RULES, WAY = {rules!r}, 'out'\n{WHO}", "--net", tools=tools) == told


MANY = """
import subprocess, time
from distdoctor.probes.network import firewall as probe
from distdoctor.probes.network.firewall import firewall
from tests.helpers.pace import yardstick
if LONG: probe.ASKING_SECONDS *= 10  # a slow processor may take its time
run = lambda words: subprocess.run(["nft", words], check=True)
run("table inet f { chain i { type filter hook input priority 0; policy drop; }; }")
run("add rule inet f i ct state established accept")
rules = [f"ip saddr 10.77.{n % 20}.1 tcp dport {8000 + n % 7} accept" for n in range(N)]
for at in range(0, N, 50):  # more at once is too long for the kernel
    run("; ".join(f"add rule inet f i {rule}" for rule in rules[at : at + 50]))
began = time.thread_time()
found = firewall(29500, (32768, 60999), "eth0")
took = time.thread_time() - began
print(len(found.chains), bool(found.passages))
print(took / yardstick())
"""


@pytest.mark.parametrize(("rules", "long", "told"), [(250, True, "1 True"), (800, False, "1 False")])
def test_of_very_many_rules_it_is_not_asked_whom_they_let_in(rules: int, long: bool, told: str) -> None:
    """And that is not known then."""
    assert lines_of(f"N, LONG = {rules}, {long}\n{MANY}", "--net", tools=("nft",))[0] == told


@pytest.mark.perf
@pytest.mark.parametrize(("rules", "long", "most"), [(250, True, 12), (800, False, 6)])
def test_many_rules_take_no_long_time(rules: int, long: bool, most: int) -> None:
    """Each rule was looked at for each address and port by itself: 16 yardsticks for 300 rules; two are left."""
    assert float(lines_of(f"N, LONG = {rules}, {long}\n{MANY}", "--net", tools=("nft",))[1]) < most


DOCKER = """
-N DOCKER
-A PREROUTING -m addrtype --dst-type LOCAL -j DOCKER
-A OUTPUT ! -d 127.0.0.0/8 -m addrtype --dst-type LOCAL -j DOCKER
-A DOCKER ! -i docker0 -p tcp -m tcp --dport 29500 -j DNAT --to-destination 172.17.0.5:29500
"""
SENT = """
import subprocess
from distdoctor.probes.network.firewall import firewall
for rule in RULES.strip().splitlines():
    subprocess.run(["iptables-nft", "-t", "nat", *rule.split()], check=True)
found = firewall(29500)
for chain in found.chains: print(chain.tool, chain.name, *chain.blocking_rules)
for rule in found.proxied: print(rule)
"""


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (DOCKER, ["nft PREROUTING -m addrtype --dst-type LOCAL -j DOCKER > ! -i docker0 -p tcp -m tcp --dport 29500 -j "
                  "DNAT --to-destination 172.17.0.5:29500"]),
        ("-A OUTPUT -d 10.96.0.7 -p tcp --dport 29500 -j DNAT --to-destination 10.77.0.10",
         ["nft OUTPUT -d 10.96.0.7/32 -p tcp -m tcp --dport 29500 -j DNAT --to-destination 10.77.0.10"]),
        ("-A OUTPUT -p tcp -j REDIRECT --to-ports 15001", ["nft chain ip nat OUTPUT: meta l4proto tcp REDIRECT"]),
    ],
    ids=["published", "a service", "a proxy"],
)  # fmt: skip
def test_where_iptables_nft_sends_packets_to(rules: str, told: list[str]) -> None:
    """nft itself tells only that it does."""
    assert lines_of(f"RULES = {rules!r}\n{SENT}", "--net", tools=("nft", "iptables-nft")) == told
