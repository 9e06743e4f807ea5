"""Policies of IPsec, as a real kernel tells them."""

from __future__ import annotations

import json
import socket
import struct

import pytest

from distdoctor.probes.network import routing
from tests.helpers.namespaces import lines_of
from tests.helpers.pace import yardsticks

PROGRAM = """
import json, subprocess
from distdoctor.model.facts import encode
from distdoctor.probes.network import routing
subprocess.run('''set -e
ip xfrm policy add src 10.77.0.11/32 dst 10.77.0.10/32 dir out tmpl src 10.77.0.11 dst 10.77.0.10 proto esp
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 proto tcp sport 29500 dir in action block priority 7
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 proto udp dir in action block
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.11/32 dir fwd action block
ip xfrm policy add src fd77::/64 dst ::/0 dir in tmpl proto esp mode tunnel level use priority 3
''', shell=True, check=True)
for one in routing.ipsec_policies(): print(encode(one).decode())
"""


def test_policies_for_tcp_of_this_host_are_told_in_the_order_of_the_kernel() -> None:
    """Policies for forwarded packets and for UDP are left out; one that only may encrypt (level use) lacks nothing."""
    out, six, block = (json.loads(line) for line in lines_of(PROGRAM, "--net", tools=("ip",)))
    assert (out["way"], out["source"], out["target"]) == ("out", "10.77.0.11/32", "10.77.0.10/32")
    assert out["lacks"] and not out["block"] and out["source_port"] is None and not out["tcp"]
    assert (six["version"], six["source"], six["target"], six["lacks"]) == (6, "fd77::/64", "::/0", False)
    assert (block["block"], block["lacks"], block["tcp"]) == (True, False, True)
    assert (block["source_port"], block["target_port"]) == (29500, None)


OTHERS = """
import json, subprocess
from distdoctor.model.facts import encode
from distdoctor.probes.network import routing
subprocess.run('''set -e
ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out action block mark 0xe00 mask 0xf00
ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out tmpl src 1.2.3.4 dst 4.3.2.1 proto esp mode tunnel if_id 42
ip xfrm policy add src 10.77.0.0/24 dst 10.77.0.0/24 dir out priority 9
ip xfrm policy add src 10.0.0.0/8 dst 10.0.0.0/8 dir out action block priority 9
ip xfrm policy add src 0.0.0.0/0 dst 0.0.0.0/0 dir out action block priority 9
''', shell=True, check=True)
for one in routing.ipsec_policies(): print(encode(one).decode())
"""


def test_of_equal_ones_the_oldest_comes_first_and_those_for_a_mark_or_an_interface_are_not_told() -> None:
    """A CNI's drop what has its mark, and a tunnel's are for what is sent by its interface."""
    told = [json.loads(line) for line in lines_of(OTHERS, "--net", tools=("ip",))]
    assert [one["source"] for one in told] == ["10.77.0.0/24", "10.0.0.0/8", "0.0.0.0/0"]
    assert [one["block"] for one in told] == [False, True, True]


@pytest.mark.parametrize(
    ("to", "number", "length", "mode", "lacks"),
    [
        ("10.77.0.10", 0x1000, 32, 0, False),
        ("10.77.0.10", 0, 32, 0, True),
        ("10.77.0.12", 0x1000, 32, 0, True),
        ("10.77.0.12", 0x1000, 24, 0, False),
        ("10.78.0.12", 0x1000, 24, 0, True),
        ("10.77.0.10", 0x1000, 24, 1, False),
        ("10.77.0.12", 0x1000, 24, 1, True),
    ],
    ids=[
        "it is there",
        "it is asked for",
        "that for another host",
        "that for a host of its network",
        "that for a host of another network",
        "that for the end of its tunnel",
        "that for another end",
    ],
)
def test_whether_a_policy_has_the_association_that_it_asks_for(
    to: str, number: int, length: int, mode: int, lacks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In transport mode there is one for each host that packets go to."""
    end, esp = socket.inet_aton("10.77.0.10").ljust(16, b"\0"), socket.IPPROTO_ESP
    target = socket.inet_aton("10.77.0.10" if length == 32 else "10.77.0.0").ljust(16, b"\0")
    selector = struct.pack("=16s16sHHHHHBBBxxxiI", target, bytes(16), 0, 0, 0, 0, socket.AF_INET, length, 0, 0, 0, 0)
    template = struct.pack("=16sIB27xB15x", end, 0, esp, mode)
    policy = selector + bytes(96) + struct.pack("=IIBB6x", 0, 0, 1, 0) + struct.pack("=HH", 68, 5) + template
    state = selector + struct.pack("=16sIB", socket.inet_aton(to).ljust(16, b"\0"), number, esp)
    told = {routing._GETPOLICY: policy, routing._GETSA: state}
    monkeypatch.setattr(routing, "dump", lambda request, answer, family: [told[request]])
    (found,) = routing.ipsec_policies()
    assert found.lacks == lacks and found.target.endswith(f"/{length}")


@pytest.fixture
def gateway(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel with as many policies and associations as a gateway has."""
    selector = struct.pack("=16s16sHHHHHBBBxxxiI", bytes(16), bytes(16), 0, 0, 0, 0, socket.AF_INET, 0, 0, 0, 0, 0)
    template = struct.pack("=HH", 68, 5) + struct.pack("=16sIB43x", bytes(16), 0, socket.IPPROTO_ESP)
    policy = selector + bytes(96) + struct.pack("=IIBB6x", 0, 0, 1, 0) + template
    states = [selector + struct.pack("=16sIB", struct.pack("=I12x", one), 1, 51) for one in range(6000)]
    told = {routing._GETPOLICY: [policy] * 6000, routing._GETSA: states}
    monkeypatch.setattr(routing, "dump", lambda request, answer, family: told[request])


@pytest.mark.usefixtures("gateway")
def test_a_gateways_policies_and_associations_are_left_alone() -> None:
    assert routing.ipsec_policies() == ()


@pytest.mark.perf
@pytest.mark.usefixtures("gateway")
def test_a_gateways_policies_and_associations_take_no_long_time() -> None:
    assert yardsticks(routing.ipsec_policies) < 8
