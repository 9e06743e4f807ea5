"""LinkWatch, on interfaces of a namespace of its own."""

from __future__ import annotations

import json

import pytest

from tests.helpers.namespaces import lines_of

SCRIPT = """
import json, subprocess, time
from distdoctor.probes.network.interfaces import LinkWatch
def sh(line): subprocess.run(line, shell=True, check=True)
sh("ip link add one type veth peer name other; ip link set one up; ip link set other up")
time.sleep(0.3)
watch = LinkWatch()
print(json.dumps(watch.losses()))
sh(CHANGE)
time.sleep(0.3)
print(json.dumps(watch.losses()))
watch.close()
"""


@pytest.mark.parametrize(
    ("change", "losses"),
    [
        ("ip link set one down; ip link set one up", 1),
        ("ip link set other down; sleep 1; ip link set other up", 1),
        ("for i in 1 2 3; do ip link set one down; sleep 0.1; ip link set one up; done", 3),
        ("for i in 1 2 3; do ip link set other down; ip link set other up; done", 3),
        ("ip link set one down", 1),
        ("ip link set one mtu 1400; ip address add 10.9.9.1/24 dev one; ip link set one txqueuelen 10", 0),
        ("ip link add two type veth peer name three; ip link set two up; ip link del two", 0),
    ],
)
def test_losses_of_a_link(change: str, losses: int) -> None:
    before, after = lines_of(f"CHANGE = {change!r}\n{SCRIPT}", "--net", tools=("ip",))
    assert json.loads(before) == {}
    assert json.loads(after).get("one", 0) == losses
