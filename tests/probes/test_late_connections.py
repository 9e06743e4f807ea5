"""late_connections(), of connections to a listener behind a packet filter."""

from __future__ import annotations

import json

import pytest

from tests.helpers.namespaces import lines_of

SCRIPT = """
import dataclasses, json, os, socket, subprocess
from distdoctor.probes.network.tcp import late_connections
subprocess.run("ip link set lo up", shell=True, check=True)
server = socket.create_server((ADDRESS, 0), family=socket.AF_INET6 if ":" in ADDRESS else socket.AF_INET)
rules = "table inet f { chain i { type filter hook input priority 0;\\n%s\\n}\\n}" % RULES
subprocess.run(["nft", "-f", "-"], input=rules, text=True, check=True)
opened = [socket.create_connection(server.getsockname()[:2]) for _ in range(3)]
accepted = [server.accept() for _ in opened]
for one in opened:
    one.sendall(b"hello")
print(json.dumps([dataclasses.asdict(one) for one in late_connections([os.getpid()])]))
print(late_connections([os.getppid()]))
"""
SYN = "tcp flags & (syn | ack) == syn"


@pytest.mark.parametrize(
    ("address", "rules", "late"),
    [
        ("127.0.0.1", "accept", None),
        ("127.0.0.1", f"{SYN} limit rate over 1/second burst 1 packets drop", (3, 2)),
        ("::1", f"{SYN} limit rate over 1/second burst 2 packets drop", (3, 1)),
    ],
)
def test_a_repeated_syn(address: str, rules: str, late: tuple[int, int] | None) -> None:
    told, of_others = lines_of(f"ADDRESS, RULES = {address!r}, {rules!r}\n{SCRIPT}", "--net", tools=("nft", "ip"))
    assert of_others == "()"
    (one,) = json.loads(told) or [None]
    if late is None:
        assert one is None
    else:
        assert (one["address"], one["opened"], one["late"]) == (address, *late)
        assert one["repeated"] >= one["late"]
        assert one["established"] == one["opened"]
