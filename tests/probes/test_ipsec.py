"""Policies of IPsec, as a real kernel tells them."""

from __future__ import annotations

import json
import socket
import struct

import pytest

from distdoctor.probes import ipsec
from tests.helpers.namespaces import lines_of

PROGRAM = """
import json, subprocess
from distdoctor.model.facts import encode
from distdoctor.probes import ipsec
subprocess.run('''set -e
ip xfrm policy add src 10.77.0.11/32 dst 10.77.0.10/32 dir out tmpl src 10.77.0.11 dst 10.77.0.10 proto esp
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 proto tcp sport 29500 dir in action block priority 7
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 proto udp dir in action block
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 dir fwd action block
ip xfrm policy add src fd77::/64 dst ::/0 dir in tmpl proto esp mode tunnel level use priority 3
''', shell=True, check=True)
for one in ipsec.policies(): print(encode(one).decode())
"""


def test_policies_for_tcp_of_this_host_are_told_in_the_order_of_the_kernel() -> None:
    """What is forwarded, and what is for UDP, is not; what may be encrypted need not be."""
    out, six, block = (json.loads(line) for line in lines_of(PROGRAM, "--net", tools=("ip",)))
    assert (out["way"], out["source"], out["target"]) == ("out", "10.77.0.11/32", "10.77.0.10/32")
    assert out["lacks"] and not out["block"] and out["source_port"] is None and not out["tcp"]
    assert (six["version"], six["source"], six["target"], six["lacks"]) == (6, "fd77::/64", "::/0", False)
    assert (block["block"], block["lacks"], block["tcp"]) == (True, False, True)
    assert (block["source_port"], block["target_port"]) == (29500, None)


@pytest.mark.parametrize(
    ("to", "number", "lacks"),
    [("10.77.0.10", 0x1000, False), ("10.77.0.10", 0, True), ("10.77.0.12", 0x1000, True)],
    ids=["it is there", "it is asked for", "that for another host"],
)
def test_whether_a_policy_has_the_association_that_it_asks_for(
    to: str, number: int, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    end, esp = socket.inet_aton("10.77.0.10").ljust(16, b"\0"), socket.IPPROTO_ESP
    selector = struct.pack("=16s16sHHHHHBBBxxxiI", end, bytes(16), 0, 0, 0, 0, socket.AF_INET, 32, 0, 0, 0, 0)
    template = struct.pack("=16sIB43x", end, 0, esp)
    policy = selector + bytes(96) + struct.pack("=IIBB6x", 0, 0, 1, 0) + struct.pack("=HH", 68, 5) + template
    state = selector + struct.pack("=16sIB", socket.inet_aton(to).ljust(16, b"\0"), number, esp)
    told = {ipsec._GETPOLICY: policy, ipsec._GETSA: state}
    monkeypatch.setattr(ipsec, "dump", lambda request, answer, family: [told[request]])
    (found,) = ipsec.policies()
    assert (found.target, found.lacks) == ("10.77.0.10/32", lacks)
