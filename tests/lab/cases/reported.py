"""The table, faults as people report them (forums, issues of PyTorch, of clouds and of container tools).

What was to be found was written down before the first run of each.
"""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.faults import inside, together
from tests.lab.faults.host import ACCEPTS_AND_CLOSES, port_held
from tests.lab.faults.launch import flag, variable
from tests.lab.faults.links import dropped_in_switch, switch_repaired
from tests.lab.faults.names import name_at
from tests.lab.faults.packet_filter import iptables, ufw
from tests.lab.harness.case import Case

BOTH = ("host0", "host1")
ITSELF = "network/master-not-node0"
FILTERED, MEANS_ANOTHER = "network/port-filtered", "network/master-resolves-differently"

CASES = [
    Case("the master is 0.0.0.0", flag("--master-addr", "0.0.0.0", 0, 1), "network/master-not-node0", BOTH, curable=True),
    Case("the master's name is 127.0.1.1 on node 1", name_at(1, "host0", "127.0.1.1"), MEANS_ANOTHER, ["host1"], curable=True, live=False, alone=[ITSELF]),
    Case("ufw lets nothing but ssh in", ufw(0), FILTERED, ["host0"]),
    Case("a security group drops the master's port", dropped_in_switch("tcp dport 29500"), FILTERED, BOTH, blame="one-of", by_hand=switch_repaired),
    Case("a security group drops the master's port, and node 0's ufw lets the nodes in", together(ufw(0), iptables(0, "-A ufw-user-input -s 10.77.0.0/24 -j ACCEPT"), dropped_in_switch("tcp dport 29500")), FILTERED, BOTH, blame="one-of", by_hand=switch_repaired),
    Case("a VLAN keeps the hosts apart", dropped_in_switch("iifname != lo"), "network/master-unreachable", BOTH, blame="one-of", curable=True, by_hand=switch_repaired),
    Case("GLOO_SOCKET_IFNAME with a space behind it", variable("GLOO_SOCKET_IFNAME", "eth0 ", 1), "gloo/interface-not-found", ["host1"]),
    Case("a proxy for a container that is gone holds the port", port_held(0, ACCEPTS_AND_CLOSES), "network/foreign-service", ["host0"]),
    Case("IPv6 is switched off on node 1", inside(1, "echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6"), "network/no-route", ["host1"], subnets=["fd77::/64"], curable=True, by_hand=inside(1, "echo 0 > /proc/sys/net/ipv6/conf/all/disable_ipv6; ip address add fd77::b/64 dev eth0 nodad")),
]  # fmt: skip
