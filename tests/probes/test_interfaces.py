"""Interfaces, as the kernel tells of those in a network namespace of its own."""

from __future__ import annotations

from tests.helpers.namespaces import lines_of

_CODE = """
import subprocess
from distdoctor.probes.interfaces import interfaces
pair = "link add eth0 type veth peer name eth1"
for line in (pair, "link set eth0 up", "link set eth1 up", "link add eth2 type bridge"):
    subprocess.run(["ip", *line.split()], check=True)
for one in interfaces():
    print(one.name, one.up, one.speed, one.half_duplex)
"""


def test_the_speed_that_was_agreed_upon() -> None:
    """veth tells of 10 Gbit/s; what is down, and what has no speed, of none."""
    lines = sorted(lines_of(_CODE, "--net", tools=("ip",)))
    assert lines == ["eth0 True 10000 False", "eth1 True 10000 False", "eth2 False None False", "lo False None False"]
