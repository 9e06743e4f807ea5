"""Effect of a ruleset on a new connection from another host: the forecast, and a real connection."""

from __future__ import annotations

import json

from distdoctor.knowledge.firewall.iptables import iptables_shut
from distdoctor.knowledge.firewall.nftables import nft_shut
from tests.helpers.namespaces import lines_of

PORT = 29500
LET_IN = """iifname "lo" accept
ct state established,related accept
meta l4proto { icmp, ipv6-icmp } accept"""
ZONE = """}
chain opened { tcp dport 22 accept
}
chain zone { jump opened
meta l4proto icmp accept
reject with icmpx type admin-prohibited"""
"""The end of the base chain, and further ones."""

SHUT = {
    "drop": ("tcp dport 29500 drop", "accept", "drop"),
    "drop but on loopback": ('iifname "lo" accept\ntcp dport 29500 drop', "accept", "drop"),
    "drop what is not for ssh": (f"{LET_IN}\ntcp dport != 22 drop", "accept", "drop"),
    "reject": ("tcp dport { 22, 29000-30000 } reject", "accept", "reject"),
    "reset": ("tcp dport 29500 reject with tcp reset", "accept", "reset"),
    "a policy": (f"{LET_IN}\ntcp dport 22 accept\nudp dport 29500 accept", "drop", "drop"),
    "a verdict map": ("tcp dport vmap { 22 : accept, 29500 : drop }", "accept", "drop"),
    "states in a verdict map": (
        "ct state vmap { established : accept, related : accept, invalid : drop }\ntcp dport 22 accept\nreject",
        "accept",
        "reject",
    ),
    "a chain that returns": ("jump opened\nreject with tcp reset\n}\nchain opened { return", "accept", "reset"),
    "a zone of one interface": (f'iifname "peer" goto zone\ngoto zone\n{ZONE}', "accept", "reject"),
    "firewalld": (
        'ct state { established, related } accept\nct status dnat accept\niifname "lo" accept\nct state invalid drop\n'
        f'iifname "peer" goto zone\ngoto zone\nreject with icmpx type admin-prohibited\n{ZONE}',
        "accept",
        "reject",
    ),
    "what opens a connection": ("tcp flags & (fin | syn | rst | ack) == syn drop", "accept", "drop"),
    "what has the flag of that": ("tcp flags syn reject with tcp reset", "accept", "reset"),
    "for IPv4 alone": ("meta nfproto ipv4 tcp dport 29500 drop", "accept", "drop"),
}
"""Name -> (the rules, the policy, how the port is shut)."""
MAYBE_OPEN = {
    "no rule for it": ("tcp dport 22 drop", "accept"),
    "for one host": ("ip saddr 10.9.8.7 tcp dport 29500 drop", "accept"),
    "but for these hosts": ("ip saddr { 10.0.0.0/8, 192.168.0.0/16 } accept\ntcp dport 29500 drop", "accept"),
    "but for a named set": ("ip saddr @lan tcp dport 29500 accept", "drop"),
    "opened before": ("tcp dport 29000-30000 accept\ntcp dport 29500 drop", "drop"),
    "opened in a chain": ("jump opened\ndrop\n}\nchain opened { tcp dport 29500 accept", "accept"),
    "what opens a connection as none does": ("tcp flags & (fin | syn | rst | ack) != syn drop", "accept"),
    "what is no beginning": ("tcp flags ack drop\ntcp flags & (syn | ack) == (syn | ack) drop", "accept"),
    "by another interface": ('iifname "eth9" drop', "accept"),
    "beyond a rate": ("tcp dport 29500 limit rate over 100/second drop", "accept"),
    "only what is invalid": ("ct state invalid drop", "accept"),
    "by a mark": ("meta mark & 0x8000 == 0x8000 drop", "accept"),
    "but for a hardware address": ("ether saddr 02:00:00:00:00:01 accept\ntcp dport 29500 drop", "accept"),
    "everything but TCP": ("meta l4proto != tcp drop", "accept"),
}
"""Rules, and the outcome of a connection under them."""
TRY = """
import ctypes, json, os, socket, subprocess
def shell(text): subprocess.run(text, shell=True, check=True)
def met():
    one = socket.socket()
    one.settimeout(0.25)
    one.setsockopt(socket.IPPROTO_IP, 11, 1)  # IP_RECVERR: an ICMP error leaves a message
    try:
        one.connect(("10.1.2.3", 29500))
        return "open"
    except TimeoutError:
        return "drop"
    except OSError:
        pass
    try:
        one.recvmsg(1, 512, socket.MSG_ERRQUEUE)
        return "reject"
    except OSError:
        return "reset"
    finally:
        one.close()
ours, theirs = socket.socketpair()
child = os.fork()
if child == 0:  # another host: it connects whenever it is told to
    ctypes.CDLL(None).unshare(0x40000000)  # CLONE_NEWNET
    theirs.send(b"here")
    theirs.recv(4)
    shell("ip address add 10.1.2.4/24 dev far && ip link set far up")
    while theirs.recv(4) == b"try.":
        theirs.send(met().encode())
    os._exit(0)
ours.recv(4)
shell(f"ip link add peer type veth peer name far netns {child}")
shell("ip address add 10.1.2.3/24 dev peer && ip link set peer up")
server = socket.create_server(("10.1.2.3", 29500))
ours.send(b"up..")
for rules, policy in ROWS:
    chain = f"chain input {{ type filter hook input priority 0; policy {policy};\\n{rules}\\n}}"
    text = f"flush ruleset\\ntable inet f {{\\nset lan {{ type ipv4_addr; elements = {{ 10.1.2.4 }}\\n}}\\n{chain}\\n}}"
    subprocess.run(["nft", "-f", "-"], input=text, text=True, check=True)
    ours.send(b"try.")
    said = ours.recv(16).decode()
    printed = subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, text=True, check=True).stdout
    print(json.dumps([said, printed]))
ours.send(b"end.")
os.wait()
"""
SAVED = """\
*filter
:INPUT {policy} [0:0]
:FORWARD ACCEPT [0:0]
:INNER - [0:0]
{rules}
COMMIT
"""


def tried(rows: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """(what a real connection met, what nft printed) with each of these rules and their policy."""
    lines = lines_of(f"ROWS = {rows!r}\n{TRY}", "--net", tools=("nft", "ip"))
    return [(met, ruleset) for met, ruleset in map(json.loads, lines)]


def test_what_is_said_to_be_shut_is_shut_in_this_way() -> None:
    results = tried([(rules, policy) for rules, policy, _ in SHUT.values()])
    for (name, (_, _, how)), (met, ruleset) in zip(SHUT.items(), results, strict=True):
        said = [one for one in nft_shut(ruleset, PORT) if one.version == 4]
        assert [one.how for one in said] == [how] == [met], name


def test_what_may_be_open_is_not_said_to_be_shut() -> None:
    for name, (_, ruleset) in zip(MAYBE_OPEN, tried(list(MAYBE_OPEN.values())), strict=True):
        assert [one for one in nft_shut(ruleset, PORT) if one.version == 4] == [], name


def test_a_port_that_is_sent_elsewhere_first_is_not_known_to_be_shut() -> None:
    def chain(name: str, kind: str, hook: str) -> dict[str, object]:
        place = {"family": "ip", "table": "t", "name": name, "type": kind, "hook": hook, "prio": 0, "policy": "accept"}
        return {"chain": place}

    def rule(name: str, verdict: dict[str, object]) -> dict[str, object]:
        port = {"match": {"op": "==", "left": {"payload": {"protocol": "tcp", "field": "dport"}}, "right": PORT}}
        return {"rule": {"family": "ip", "table": "t", "chain": name, "expr": [port, verdict]}}

    shut = [chain("in", "filter", "input"), rule("in", {"drop": None})]
    sent = [chain("pre", "nat", "prerouting"), rule("pre", {"redirect": {"port": 29501}})]
    assert len(nft_shut(json.dumps({"nftables": shut}), PORT)) == 1
    assert nft_shut(json.dumps({"nftables": [*shut, *sent]}), PORT) == ()


def test_rules_that_do_nothing_here_shut_nothing() -> None:
    """Those of a table that is switched off, and those of another device."""
    off = "table inet off {\nflags dormant\nchain a { type filter hook input priority 0; policy drop;\n}\n}"
    lo = "table netdev lo {\nchain b { type filter hook ingress device lo priority 0; policy drop;\n}\n}"
    listed = """
import subprocess
for text in TEXTS:
    subprocess.run(["nft", "-f", "-"], input="flush ruleset\\n" + text, text=True, check=True)
    print(subprocess.run(["nft", "-j", "list", "ruleset"], capture_output=True, text=True, check=True).stdout.strip())
"""
    printed = lines_of(f"TEXTS = {[off, lo, off.replace('flags dormant', '')]!r}\n{listed}", "--net", tools=("nft",))
    assert [len(nft_shut(ruleset, PORT)) for ruleset in printed] == [0, 0, 2]


def test_iptables() -> None:
    def how(*rules: str, policy: str = "ACCEPT") -> list[str]:
        return [one.how for one in iptables_shut(SAVED.format(policy=policy, rules="\n".join(rules)), "iptables", PORT)]

    let_in = ("-A INPUT -i lo -j ACCEPT", "-A INPUT -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT")
    ssh = "-A INPUT -p tcp -m tcp --dport 22 -j ACCEPT"
    assert how("-A INPUT ! -i lo -p tcp -m tcp --dport 29500 -j DROP") == ["drop"]
    assert how(*let_in, ssh, "-A INPUT -p icmp -j ACCEPT", policy="DROP") == ["drop"]
    assert how("-A INPUT -p tcp -m multiport --dports 80,29000:29600 -j REJECT --reject-with tcp-reset") == ["reset"]
    assert how(*let_in, "-A INPUT -j INNER", '-A INNER -m comment --comment "-j ACCEPT" -j REJECT') == ["reject"]
    assert how("-A INPUT -p tcp -m tcp ! --dport 22 -j DROP") == ["drop"]
    for rule in (
        "-A INPUT -s 10.0.0.0/8 -p tcp -m tcp --dport 29500 -j ACCEPT",
        "-A INPUT -m set --match-set lan src -j ACCEPT",
        "-A INPUT -p tcp -m tcp --dport 29000:30000 -j ACCEPT",
        "-A INPUT -j UNKNOWN",
    ):
        assert how(*let_in, rule, policy="DROP") == [], rule
    assert how("-A INPUT -s 10.9.8.7/32 -p tcp -m tcp --dport 29500 -j DROP") == []
    assert how(*let_in, ssh) == []
