"""Tests of what accepts connections where nobody listens."""

from __future__ import annotations

import asyncio

from distdoctor.probes.network.ports import intercepted
from tests.helpers.namespaces import lines_of

REDIRECTED = """
import asyncio, socket, subprocess
from distdoctor.probes.network.ports import intercepted
subprocess.run("ip link set lo up && ip link add dummy0 type veth peer name far0 && ip link set far0 up && "
    "ip address add 10.9.9.1/24 dev dummy0 && "
    "ip link set dummy0 up && nft -f -", shell=True, check=True, text=True, input=RULES)
server = socket.create_server(("0.0.0.0", 15001))
print(*asyncio.run(intercepted("10.9.9.9")))
"""
RULES = (
    "table ip mesh { chain proxied { type nat hook output priority -100; "
    "oifname != lo tcp dport PORTS redirect to :15001; }; }"
)


def test_nobody_listens() -> None:
    assert asyncio.run(intercepted("127.0.0.1")) == ((), False)


def test_a_redirect_on_the_way_out() -> None:
    code = f"RULES = {RULES.replace('PORTS', '1-99')!r}\n{REDIRECTED}"
    assert lines_of(code, "--net", tools=("ip", "nft")) == ["(1, 9, 11) True"]
