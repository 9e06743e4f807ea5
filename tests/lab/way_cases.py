"""The table, continued: ways between the nodes that lead elsewhere, or exist in one direction only."""

# ruff: noqa: E501 - a case is a line, however long

from __future__ import annotations

from tests.lab.cases import Case
from tests.lab.faults import Fault, own_name_at, second_network, together
from tests.lab.field_faults import everywhere, inside
from tests.lab.launch import Launch

VPN = together(second_network("", "10.16.0.19/16", interface="tun0"), inside(1, "ip route add 10.77.0.0/25 dev tun0"))
DOWN = together(second_network("10.99.0.10/24", "10.99.0.11/24", joined=True), inside(1, "ip link set dev eth1 down"))
SERVICE = everywhere("ip link add kube-ipvs0 type bridge && ip address add 10.96.0.77/32 dev kube-ipvs0")


def behind_nat(network: str) -> Fault:
    """Host 1 is in this network (``10.5.0``), behind host 2, which masquerades and takes no part in the job."""

    def inject(launch: Launch) -> None:
        _, inner, router = launch.cluster
        inner.add_interface("eth1", f"{network}.2/24", bridge="inner")
        router.add_interface("eth1", f"{network}.1/24", bridge="inner")
        inner.inside(f"ip link set eth0 down && ip address flush dev eth0 && ip route add default via {network}.1")
        router.inside(
            "echo 1 > /proc/sys/net/ipv4/ip_forward && nft -f - <<'END'\ntable ip translated {\nchain out {\n"
            "type nat hook postrouting priority 100;\noifname eth0 masquerade\n}\n}\nEND"
        )
        own_name_at(f"{network}.2", 1)(launch)
        launch.starts = launch.starts[:2]
        for start in launch.starts:
            start.flags["--nnodes"] = "2"

    return inject


WAYS = [
    Case("a VPN of node 1 takes part of the LAN", VPN, "network/master-unreachable", ["host1"], curable=True, live=False),
    Case("the interface to the master is down", DOWN, "network/no-route", ["host1"], master="10.99.0.10", curable=True, live=False),
    Case("node 1 is behind NAT, and dials", behind_nat("172.28.0"), "network/no-route", ["host0"], "warn", hosts=3, by_hand=inside(0, "ip route add 172.28.0.0/24 via {host2}"), torch="never (trains)"),
    Case("node 1 is behind NAT, and is dialled", behind_nat("10.5.0"), "network/no-route", ["host0"], hosts=3, by_hand=inside(0, "ip route add 10.5.0.0/24 via {host2}")),
    Case("the master's address is on every node", SERVICE, "network/master-resolves-differently", ["host1"], master="10.96.0.77", curable=True, live=False),
]  # fmt: skip
