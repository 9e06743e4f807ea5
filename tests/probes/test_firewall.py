"""What is read of this host's packet filter."""

from __future__ import annotations

import pytest

from tests.helpers.namespaces import lines_of

CODE = """
import subprocess
from distdoctor.probes.firewall import firewall
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
