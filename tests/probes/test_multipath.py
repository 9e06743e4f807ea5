"""Routes with several next hops, as a real kernel tells them."""

from __future__ import annotations

from tests.helpers.namespaces import lines_of

PROGRAM = """
import subprocess
from distdoctor.probes.network import routing, routing
subprocess.run('''set -e
for n in 0 1; do ip link add eth$n type veth peer name p$n; ip link set eth$n up; ip link set p$n up; done
ip address add 10.77.0.11/24 dev eth0; ip address add 10.99.0.11/24 dev eth1
ip address add fd77::b/64 dev eth0 nodad
ip route add 10.77.0.10/32 nexthop via 10.77.0.10 dev eth0 nexthop via 10.77.0.99 dev eth0
ip route add default metric 7 nexthop via 10.77.0.1 dev eth0 nexthop via 10.99.0.1 dev eth1
ip route add 10.1.0.0/16 via 10.77.0.1
ip -6 route add fd99::/64 nexthop via fd77::1 dev eth0 nexthop via fd77::2 dev eth0
ip route add table 300 default nexthop via 10.77.0.1 dev eth0 nexthop via 10.99.0.1 dev eth1
ip rule add from 10.77.0.11 lookup 300
''', shell=True, check=True)
def say(entry): print(entry.network, entry.gateway, *(f"{hop.gateway}%{hop.interface}" for hop in entry.next_hops))
for entry in routing.routing_table():
    if entry.gateway: say(entry)
for entry in routing.routing_rules()[0].routes: say(entry)
"""


def test_all_next_hops_are_told() -> None:
    told = lines_of(PROGRAM, "--net", tools=("ip",))
    assert told[:3] == [
        "10.1.0.0/16 10.77.0.1",
        "10.77.0.10/32 10.77.0.10 10.77.0.10%eth0 10.77.0.99%eth0",
        "0.0.0.0/0 10.77.0.1 10.77.0.1%eth0 10.99.0.1%eth1",
    ]
    assert "fd99::/64 fd77::1 fd77::1%eth0 fd77::2%eth0" in told
    assert told[-1] == "0.0.0.0/0 10.77.0.1 10.77.0.1%eth0 10.99.0.1%eth1", "a table of policy routing, too"
