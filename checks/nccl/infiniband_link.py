"""An InfiniBand or RoCE link is down.

What you see
------------
`NCCL WARN NET/IB : Got async event : port error`, kernel log: `mlx5_core ... Link down`.

Why it happens
--------------
A cable, transceiver or switch port lost its link, or came up with fewer lanes or a lower rate. A port with a link that
stays in INIT or ARMED waits for the subnet manager of its fabric. An adapter that is not there on one node of several
is told, too.

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

from collections import Counter
from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, rdma, some_of

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = ("the state of the ports", "ibstat")
REMEDY = "Look at the port, its cable and its switch (ibstat, ibqueryerrors, ethtool), and take the node out."
UNMANAGED = (
    "See that a subnet manager runs on the fabric (sminfo; opensm, or the switch's own), and that it reaches this port "
    "(ibstat: SM lid, Base lid 0)."
)
ABSENT = (
    "See why the adapter is not there: lspci | grep -i mellanox, dmesg | grep mlx5, and the devices that the container "
    "is given."
)
LOG = (
    Line(
        ("async event", "async fatal event"),
        "async (?:fatal )?event ?: ?(?:port error|local catastrophic|device fatal)",
    ),
    Line(  # mlx5's driver; from 6.13 on the kernel's core/cache.c for every driver; mlx5's of the port's cable
        ("Link down", "Link DOWN", "Cable unplugged", "Cable error"),
        r"mlx[45]_\w+ .{0,120}(?:Link (?:down|DOWN)\b|Port module event.{0,40}, Cable (?:unplugged|error))",
        shows="hint",
        why="whether the job used that port is not said; one that is set up shows the same once",
        ahead_of="nccl/infiniband-unreachable",
    ),
    Line(
        "ports: ",
        r"^ports: (?P<host>[A-Za-z][\w.-]{0,63}): \S{1,64} port \d{1,3} is \w{1,20}, on the other hosts active",
        shows="hint",
        why="whether the job used that port is not said",
    ),
    Line(
        "device's health compromised",
        r"mlx5_core .{0,80}device's health compromised",
        shows="symptom",
        why="whether the job used that adapter is not said",
        told="A network adapter's firmware does not answer",
    ),
)
MATTERS = "NCCL takes the other ports there, and every collective goes at the speed of its slowest link"
LOOKS_AT = ("ranks.devices", "everyone")


def judge(cluster: Cluster) -> Iterator[Finding]:
    down = list(rdma.deviating_ports(cluster, lambda node, port: rdma.is_active(port)))
    slow = list(rdma.deviating_ports(cluster, rate))
    for node in cluster.nodes:
        lost = [port for of, port, up, _ in down if of is node and not up]
        left = rdma.active_ports(node)
        if lost:
            yield Finding.about(
                [node],
                f"{some(lost)} of {node.name}: not active; on the other nodes active.",
                evidence=[seen(node, port) for port in lost],
                fixes=[Fix.on(node, UNMANAGED if all(map(unmanaged, lost)) else REMEDY)],
                severity="warn" if left or gpus.nccl_made(cluster.nodes) else "fail",
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
    yield from fewer(cluster)
    yield from nowhere_active(cluster, {node for node, *_ in down})


def fewer(cluster: Cluster) -> Iterator[Finding]:
    """Nodes with fewer ports than most, and not the names of all that these have."""
    ports = {node: rdma.active_ports(node) for node in cluster.nodes if rdma.uses_rdma(cluster, node)}
    ((usual, count),) = Counter(len(its) for its in ports.values()).most_common(1) or [(0, 0)]
    if count < 2 or count * 2 <= len(ports):
        return
    names = Counter(port.name for its in ports.values() for port in its)
    for node, its in ports.items():
        there = {port.name for port in rdma.chosen_ports(node)}
        lacks = [name for name, of in names.items() if of * 2 > len(ports) and name not in there]
        if its and lacks and len(its) < usual:
            yield Finding.about(
                [node],
                f"{node.name} has no RDMA port {some_of(lacks, 4)}, which the other nodes have.",
                matters="NCCL's channels over these have no like there: slower, and some versions of NCCL hang",
                evidence=[f"{node.name}: active: {rdma.ports_text(its)}; on the other nodes {usual}"],
                fixes=[Fix.on(node, ABSENT)],
                severity="warn",
            )


def nowhere_active(cluster: Cluster, told: set[Node]) -> Iterator[Finding]:
    """Nodes that have a link, and no port that the fabric's subnet manager has made active."""
    found = {
        node: waiting
        for node in cluster.nodes
        if rdma.uses_rdma(cluster, node) and node not in told and not rdma.active_ports(node)
        if (waiting := [port for port in rdma.chosen_ports(node) if unmanaged(port)])
    }
    if found:
        yield Finding.about(
            found,
            f"No InfiniBand port of {names_of(found)} is active, and some have a link: no subnet manager set them up.",
            matters="NCCL goes on with TCP sockets, much slower",
            evidence=[seen(node, port) for node, ports in found.items() for port in ports[:1]],
            fixes=[Fix.on(found, UNMANAGED)],
            severity="fail" if any(map(rdma.needs_devices, found)) else "warn",
        )


def unmanaged(port: rdma.RdmaPort) -> bool:
    """Return whether the port has a link, and waits for the subnet manager (InfiniBand specification, port states)."""
    return port.link_layer == "InfiniBand" and port.physical == "LinkUp" and port.state in ("INIT", "ARMED")


def seen(node: Node, port: rdma.RdmaPort) -> str:
    return f"{node.name}: {port.name}: {port.state}, {port.physical}"


def some(ports: Iterable[rdma.RdmaPort]) -> str:
    names = list(ports)
    return f"RDMA port{'s' * (len(names) > 1)} {rdma.ports_text(names)}"


def rate(node: Node, port: rdma.RdmaPort) -> float | None:
    return port.rate if rdma.is_active(port) else None
