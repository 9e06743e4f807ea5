"""Tests of what a packet filter marks, out of real rules."""

from __future__ import annotations

import pytest

from tests.helpers.namespaces import lines_of

CODE = """
import subprocess
from distdoctor.probes.network.firewall import firewall
subprocess.run(RULES, shell=True, check=True)
for one in firewall(29500, None, "eth0").marks: print(one.side, one.version, hex(one.mark), one.rule, sep="|")
print("end")
"""


def nft(*rules: str, kind: str = "route", hook: str = "output", before: str = "") -> str:
    chain = "\n".join((f"type {kind} hook {hook} priority -150;", *rules))
    return f"nft -f - <<'END'\ntable ip m {{\n{before}\nchain c {{\n{chain}\n}}\n}}\nEND"


def mangle(*rules: str, tool: str = "iptables") -> str:
    return " && ".join(f"{tool} -t mangle -A {rule}" for rule in rules)


CONNMARK = (
    "PREROUTING -i eth0 -p tcp --dport 29500 -j CONNMARK --set-mark 1",
    "OUTPUT -m conntrack --ctstate NEW -j RETURN",
    "OUTPUT -j CONNMARK --restore-mark",
)
NFT_CONNMARK = (
    "chain i {\ntype filter hook prerouting priority -150;\n"
    'iifname "eth0" tcp dport 29500 ct state new ct mark set 0x7\n}'
)
MASKED = nft("meta mark set 3", 'oifname "eth0" meta mark set meta mark and 0xfe or 0x10')
JUMP = nft("tcp dport 29500 jump d", "meta mark set 2", before="chain d {\nmeta mark set 1\naccept\n}")
LEGACY = "OUTPUT ! -o lo -p tcp -m multiport --sports 80,29500 -j MARK --or-mark 4"


@pytest.mark.parametrize(
    ("rules", "told"),
    [
        (nft("tcp dport 29500 meta mark set 1"), ["dport|4|0x1|nft chain ip m c: tcp dport 29500 packet mark set 0x1"]),
        (nft("tcp sport { 80, 29000-30000 } meta mark set 0x10"), ["sport|4|0x10"]),
        (MASKED, ["dport|4|0x12", "sport|4|0x12"]),
        (JUMP, ["dport|4|0x1"]),  # whether a port that a kernel picked is 29500 is not known
        (mangle("OUTPUT -p tcp --dport 29500 -j MARK --set-mark 1"), ["dport|4|0x1|iptables mangle OUTPUT: -p tcp"]),
        (mangle(LEGACY, tool="iptables-legacy"), ["sport|4|0x4"]),
        (mangle("OUTPUT -p tcp --dport 29500 -j MARK --set-mark 1", tool="ip6tables"), ["dport|6|0x1"]),
        # What is not known, or changes no way.
        (nft("meta mark set ct mark", before=NFT_CONNMARK), []),
        (nft("tcp sport 29500 meta mark set 1", "meta mark set ct mark", before=NFT_CONNMARK), []),
        (mangle(*CONNMARK), []),
        (nft("tcp dport 29500 meta mark set 1", kind="filter"), []),
        (nft("tcp dport 443 meta mark set 1"), []),
        (nft("ip daddr 10.0.0.0/8 tcp dport 29500 meta mark set 1"), []),
        (nft("meta skuid 1000 accept", "tcp dport 29500 meta mark set 1"), []),
        (nft("tcp dport 29500 meta mark set numgen inc mod 2"), []),
        (nft('oifname "lo" tcp dport 29500 meta mark set 1'), []),
        (mangle("OUTPUT -p udp --dport 29500 -j MARK --set-mark 1"), []),
        (mangle("OUTPUT -m owner --uid-owner 0 -p tcp --dport 29500 -j MARK --set-mark 1"), []),
        (mangle("POSTROUTING -p tcp --dport 29500 -j MARK --set-mark 1"), []),
    ],
)  # fmt: skip
def test_marks_of_the_port(rules: str, told: list[str]) -> None:
    *marks, end = lines_of(f"RULES = {rules!r}\n{CODE}", "--net", tools=("nft", "iptables"))
    assert end == "end" and len(marks) == len(told), marks
    assert all(mark.startswith(its) for mark, its in zip(marks, told, strict=True)), marks


def test_marks_of_all_ports_that_the_kernel_picks() -> None:
    """Told of the first and the last of them; nothing where it is not the same of those in the middle."""
    code = CODE.replace("None", "(32768, 60999)").replace("one.side,", "one.port, one.side,")
    for ports, told in (("32768-60999", {"32768|dport|4|0x1", "60999|dport|4|0x1"}), ("{ 32768, 60999 }", set[str]())):
        rules = nft(f"tcp dport {ports} meta mark set 1")
        *marks, _ = lines_of(f"RULES = {rules!r}\n{code}", "--net", tools=("nft", "iptables"))
        assert {mark.rpartition("|")[0] for mark in marks} == told
