"""The table, stage gloo: what gloo makes of names and interfaces."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases.common import BOTH, LOOPBACK, NO_INTERFACE, PRIVATE_LAN, TWO_NETWORKS
from tests.lab.faults import nothing, together
from tests.lab.faults.host import port_range
from tests.lab.faults.launch import flag, variable
from tests.lab.faults.links import second_network
from tests.lab.faults.names import name_removed, own_name_at, silent_name_server
from tests.lab.harness.case import Case, Root, patient

CASES = [
    # The case this project began with.
    Case("127.0.1.1 on both", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], verified=True, options=(1, 2)),
    Case("127.0.1.1 on both, 192.168", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], subnets=[PRIVATE_LAN], verified=True),
    Case("0.0.0.0 on node 1", own_name_at("0.0.0.0", 1), LOOPBACK, ["host1"], verified=True, options=(1, 2), torch="not measured"),
    Case("0.0.0.0 on both", own_name_at("0.0.0.0", 0, 1), LOOPBACK, ["host0", "host1"], verified=True, torch="not measured"),
    Case("::1 on node 1", own_name_at("::1", 1), LOOPBACK, ["host1"], verified=True),
    Case("127.0.1.1 on both, under torchrun", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], style="torchrun", verified=True),
    Case("127.0.1.1 on both, interfaces of other names", own_name_at("127.0.1.1", 0, 1), LOOPBACK, ["host0", "host1"], interface="enp0s31f6"),
    # One such node: the larger address connects, so 127 reaches 10 by luck, and is not reached from 192.168.
    Case("127.0.1.1 on node 1, 10.x", own_name_at("127.0.1.1", 1), LOOPBACK, ["host1"], "warn"),
    Case("127.0.1.1 on node 0, 10.x", own_name_at("127.0.1.1", 0), LOOPBACK, ["host0"], "warn"),
    Case("127.0.1.1 on node 1, 192.168", own_name_at("127.0.1.1", 1), LOOPBACK, ["host1"], subnets=[PRIVATE_LAN]),
    Case("127.0.1.1 on node 2 of 3, 192.168", own_name_at("127.0.1.1", 2), LOOPBACK, ["host2"], hosts=3, subnets=[PRIVATE_LAN]),
    Case("own name at ::1", together(own_name_at("::1", 0, 1)), LOOPBACK, ["host0", "host1"], subnets=["fd77::/64"]),
    Case("own name unknown on both", together(name_removed(0, "host0"), name_removed(1, "host1")), LOOPBACK, ["host0", "host1"], master="10.77.0.10"),
    Case("GLOO_SOCKET_IFNAME=lo on both", variable("GLOO_SOCKET_IFNAME", "lo", 0, 1), LOOPBACK, ["host0", "host1"]),
    Case("GLOO_SOCKET_IFNAME names no interface", variable("GLOO_SOCKET_IFNAME", "ib0", 1), "gloo/interface-not-found", ["host1"], verified=True, options=(1, 2)),
    Case("GLOO_SOCKET_IFNAME in NCCL's syntax", variable("GLOO_SOCKET_IFNAME", "^docker0", 0, 1), "gloo/interface-not-found", ["host0", "host1"]),
    Case("a second network without a route", together(second_network("", "10.55.1.11/24"), variable("GLOO_SOCKET_IFNAME", "eth1", 1)), "gloo/interface-unreachable", ["host1"], verified=True),
    Case("a second network without a route, dialling", together(second_network("", "10.99.1.11/24"), variable("GLOO_SOCKET_IFNAME", "eth1", 1)), "gloo/interface-unreachable", ["host1"], "warn"),
    *patient(
        Case("GLOO_SOCKET_IFNAME, the second is missing", variable("GLOO_SOCKET_IFNAME", "eth0,eth7", 1), NO_INTERFACE, ["host1"], verified=True, options=(1, 2)),
        Case("GLOO_SOCKET_IFNAME, the second is missing on one of 2", together(TWO_NETWORKS, variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 0), variable("GLOO_SOCKET_IFNAME", "eth0,eth7", 1)), NO_INTERFACE, ["host1"], verified=True),
        Case("GLOO_SOCKET_IFNAME, the second leads nowhere", together(second_network("10.99.0.10/24", "10.98.0.11/24"), variable("GLOO_SOCKET_IFNAME", "eth0,eth1", 0, 1)), "gloo/interface-unreachable", BOTH, verified=True),
        Case("GLOO_SOCKET_IFNAM, and 127.0.1.1", together(variable("GLOO_SOCKET_IFNAM", "eth0", 0, 1), own_name_at("127.0.1.1", 0, 1)), LOOPBACK, BOTH, verified=True),
        Case("a silent name server, 127.0.1.1 on both", together(own_name_at("127.0.1.1", 0, 1), silent_name_server(0, 1), silent_name_server(1, 0)), LOOPBACK, BOTH, also=[Root("host/dns-slow", BOTH, "warn")], master="10.77.0.10", within=15, torch="+10 s a look-up, one side"),
        Case("host names of digits, master by address", nothing, LOOPBACK, ["6841231", "6841232"], hosts=["6841231", "6841232"], master="10.77.0.10"),
        Case("two: 127.0.1.1, and a port anybody may get", together(own_name_at("127.0.1.1", 0, 1), flag("--master-port", "40000", 0, 1)), LOOPBACK, BOTH, also=[Root("host/master-port-ephemeral", ["host0"], "warn")]),
        Case("two: no such interface, few ports", together(variable("GLOO_SOCKET_IFNAME", "ib0", 1), port_range(40000, 40019, 0)), NO_INTERFACE, ["host1"], also=[Root("host/ports-exhaustible", ["host0"], "warn")]),
        Case("two: no such interface on one, another setting on another of 3", together(variable("GLOO_SOCKET_IFNAME", "ib0", 1), variable("TORCH_GLOO_LAZY_INIT", "1", 2)), NO_INTERFACE, ["host1"], hosts=3, also=[Root("environment/setting-mismatch", ["host2"])]),
    ),
]  # fmt: skip
