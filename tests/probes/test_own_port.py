"""Tests of whether a host gets to a port of its own, with and without a packet filter that is against it."""

from __future__ import annotations

import pytest

from tests.helpers.namespaces import lines_of

_CODE = """
import asyncio, subprocess
from distdoctor.probes.network import ports
ports.SECONDS = 0.5
def sh(line): subprocess.run(line, shell=True, check=True)
def ask(address): return getattr(asyncio.run(ports.own_port_reached(address)), "outcome", None)
sh("ip link set lo up; ip link add one type veth peer name two; ip link set two up")
sh("ip address add 10.77.0.1/24 dev one; ip link set one up")
print(ask(None), ask("10.77.0.1"), ask("10.77.0.9"), ask("fe80::1%one"))
sh("nft 'table ip f { chain c { type filter hook input priority 0; iif lo RULE; }; }'")
print(ask(None), ask("10.77.0.1"))
"""


@pytest.mark.parametrize(
    ("rule", "ended"),
    [
        ("drop", "no-answer"),
        ("meta l4proto tcp reject with icmp type admin-prohibited", "rejected"),
        ("tcp flags & (syn | ack) == syn reject with tcp reset", "refused"),
    ],
)
def test_a_port_of_this_host(rule: str, ended: str) -> None:
    found = lines_of(_CODE.replace("RULE", rule), "--net", tools=("ip", "nft"))
    assert found == ["open open None None", f"{ended} {ended}"]
