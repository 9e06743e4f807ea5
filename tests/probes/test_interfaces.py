"""Interfaces, as the kernel tells of those in a network namespace of its own."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.namespaces import ENV, lines_of
from tests.helpers.sandbox import forbid

_CODE = """
import subprocess
from distdoctor.probes.network.interfaces import interfaces
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


_PORTS = """
import subprocess
from distdoctor.probes.network.interfaces import interfaces
for line in ("add eth0 type veth peer name eth1", "add br0 type bridge", "set eth0 master br0",
             "add mv0 link eth1 type macvlan"):
    subprocess.run(["ip", "link", *line.split()], check=True)
for one in interfaces():
    print(one.name, one.bridge or "-")
"""


def test_the_bridge_that_a_card_is_a_port_of() -> None:
    lines = sorted(lines_of(_PORTS, "--net", tools=("ip",)))
    assert lines == ["br0 -", "eth0 br0", "eth1 -", "lo -", "mv0 -"]


_HIDDEN = """
from distdoctor.probes.network import interfaces
before = interfaces.interfaces()
assert interfaces.hidden() == ""
{forbid}
def named(found):
    return [(one.name, one.addresses[:1], one.prefix_lengths[:1], one.up, one.loopback) for one in found]
found = interfaces.interfaces()
print(interfaces.hidden(), sorted(named(found)) == sorted(named(before)), "lo" in [one.name for one in found])
"""
SOCKET, AF_NETLINK = 41, 16
"""The number of socket() on x86-64, and what it is called with."""


def test_interfaces_that_a_sandbox_hides_are_seen_one_by_one() -> None:
    """Without netlink sockets getifaddrs() has no answer; psutil asks it, as gloo and NCCL do."""
    code = _HIDDEN.format(forbid=forbid(SOCKET, AF_NETLINK))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60, check=False
    )
    assert done.stdout.strip() in ("skip", "EPERM True True"), done.stderr


_WITHOUT_ARP = """
import subprocess
from distdoctor.probes.network.interfaces import interfaces
for line in ("link add eth0 type veth peer name eth1", "link set eth1 arp off"):
    subprocess.run(["ip", *line.split()], check=True)
open("/proc/sys/net/ipv4/conf/eth0/arp_ignore", "w").write("8")
open("/proc/sys/net/ipv4/conf/all/arp_ignore", "w").write("1")
for one in interfaces():
    print(one.name, one.no_arp, one.arp_ignore)
"""


def test_a_card_that_does_not_answer_who_has_its_address() -> None:
    """Of the interface's setting and that of all the larger one counts."""
    lines = sorted(lines_of(_WITHOUT_ARP, "--net", tools=("ip",)))
    assert lines == ["eth0 False 8", "eth1 True 1", "lo False 1"]


_WITHOUT_PORTS = """
import subprocess
from distdoctor.probes.network.interfaces import interfaces, route
for line in ("link set lo up", "link add eth0 type veth peer name eth1", "link set eth0 up", "link set eth1 up",
             "address add 10.77.0.11/24 dev eth0"):
    subprocess.run(["ip", *line.split()], check=True)
print(route("10.77.0.10", 29500, interfaces()).interface, route("10.88.0.10", 29500, interfaces()).error)
open("/proc/sys/net/ipv4/ip_local_reserved_ports", "w").write("32768-60999")
found = route("10.77.0.10", 29500, interfaces())
print(found.source, found.error)
"""


def test_without_a_port_left_the_route_is_not_known() -> None:
    lines = lines_of(_WITHOUT_PORTS, "--net", tools=("ip",))
    assert lines == ["eth0 Network is unreachable", "None None"]


_REFUSED = """
import subprocess, time
from distdoctor.probes.network.interfaces import interfaces
subprocess.run('''set -e
ip link add v0 type veth peer name v1
for i in v0 v1; do echo 1 > /proc/sys/net/ipv6/conf/$i/accept_dad; ip link set $i up; done
ip -6 address add fd77::b/64 dev v0 nodad && ip -6 address add fd77::b/64 dev v1 && ip -6 address add fd77::c/64 dev v1
''', shell=True, check=True)
end = time.monotonic() + 10
while not any(one.refused for one in interfaces()) and time.monotonic() < end: time.sleep(0.1)
print(sorted((one.name, one.refused) for one in interfaces() if one.name != "lo"))
"""


def test_an_ipv6_address_for_which_another_host_answered_is_told() -> None:
    assert lines_of(_REFUSED, "--net", tools=("ip",)) == ["[('v0', ()), ('v1', ('fd77::b',))]"]


_LABEL = """
import subprocess
from distdoctor.probes.network.interfaces import interfaces, reachable_address
for line in ("link add eth0 type veth peer name x0", "link set eth0 up", "link set x0 up",
             "address add 10.77.0.11/24 dev eth0 label eth0:0", "route add default via 10.77.0.1 dev eth0"):
    subprocess.run(["ip", *line.split()], check=True)
found = {one.name: one for one in interfaces()}
one, card = found["eth0:0"], found["eth0"]
print(one.addresses, one.up, one.device, one.mac == card.mac != "", one.mtu)
print(reachable_address(tuple(found.values())))
"""


def test_an_address_with_a_label_is_on_a_card_that_is_up() -> None:
    """getifaddrs() lists it by its label, of which the kernel tells nothing."""
    address, reached = lines_of(_LABEL, "--net", tools=("ip",))
    assert address == "('10.77.0.11',) True eth0 True 1500"
    assert "'eth0:0'" in reached and "default route" in reached
