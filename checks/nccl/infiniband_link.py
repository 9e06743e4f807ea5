"""An InfiniBand or RoCE link is down.

What you see
------------
`NCCL WARN NET/IB : Got async event : port error`, kernel log: `mlx5_core ... Link down`.

Why it happens
--------------
A cable, transceiver or switch port lost its link, or came up with fewer lanes or a lower rate.

Fix
---
Look at the port on that host (ibstat, ibqueryerrors, ethtool), and take the node out.

When it is harmless
-------------------
Never.

See also
--------
nccl/infiniband-unreachable
"""

from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, rdma

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = (
    "the state of the ports",
    "ibstat",
)
REMEDY = "Look at the port, its cable and its switch (ibstat, ibqueryerrors, ethtool), and take the node out."
LOG = (
    Line(
        ("async event", "async fatal event"),
        "async (?:fatal )?event ?: ?(?:port error|local catastrophic|device fatal)",
    ),
    Line(
        "Link down",
        r"mlx[45]_\w+ .{0,120}Link down",
    ),
)
MATTERS = "NCCL takes the other ports there, and every collective goes at the speed of its slowest link"
LOOKS_AT = ("ranks.devices", "everyone")


def judge(cluster: Cluster) -> Iterator[Finding]:
    down = list(rdma.unlike_on_other_nodes(cluster, lambda node, port: rdma.is_active(port)))
    slow = list(rdma.unlike_on_other_nodes(cluster, rate))
    for node in cluster.nodes:
        lost = [port for of, port, up, _ in down if of is node and not up]
        left = rdma.active_ports(node)
        if lost:
            yield Finding.about(
                [node],
                f"{some(lost)} of {node.name}: not active; on the other nodes active.",
                evidence=[f"{node.name}: {port.name}: {port.state}, {port.physical}" for port in lost],
                fixes=[Fix.on(node, REMEDY)],
                severity="warn" if left else "fail",
            )
        slower = [(port, has, usual) for of, port, has, usual in slow if of is node and has < usual]
        if slower:
            _, has, usual = slower[0]
            yield Finding.about(
                [node],
                f"{some(port for port, _, _ in slower)} of {node.name}: {has:g} Gb/s, {usual:g} on the other nodes.",
                evidence=[f"{node.name}: {port.name}: {has:g} of {usual:g} Gb/s" for port, has, usual in slower],
                fixes=[Fix.on(node, REMEDY)],
                severity="warn",
            )


def some(ports: Iterable[rdma.RdmaPort]) -> str:
    names = list(ports)
    return f"RDMA port{'s' * (len(names) > 1)} {rdma.ports_said(names)}"


def rate(node: Node, port: rdma.RdmaPort) -> float | None:
    return port.rate if rdma.is_active(port) else None
