"""An InfiniBand or RoCE link is down or slow.

## What you see
`NCCL WARN NET/IB : Got async event : port error`, kernel log: `mlx5_core ... Link down`.

## Why it happens
A cable, transceiver or switch port lost its link, or started with fewer lanes or a lower rate. A port that has a link
and stays in INIT or ARMED waits for the subnet manager of its fabric. The check also reports an adapter that only one
of several nodes lacks.

## Fix
Remove the node from the job: `scontrol update nodename=host1 state=drain reason="RDMA link down"`. Then replace the
cable, or reset the switch port. If no subnet manager runs, start one: `systemctl start opensm`.

## Confirm with
`ibstat` (State: Active, Rate), `ibqueryerrors` and `ethtool eth0`.

## When it is harmless
Never.

## See also
nccl/infiniband-unreachable
"""

from collections import Counter
from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, rdma, some_of

SEVERITY = "fail"
PREVENTS = "nccl group formed"
RESTART = "other-nodes"
NEXT = ("the state of the ports", "ibstat")
REMEDY = (
    "Replace the cable of this port, or reset its switch port; until then remove the node from the job. "
    "Confirm with: `ibstat`, `ibqueryerrors`."
)
UNMANAGED = (
    "Start a subnet manager on the fabric (`systemctl start opensm`, or that of the switch). "
    "Confirm with: `sminfo`, `ibstat` (SM lid must not be 0)."
)
ABSENT = (
    "Load the adapter's driver (`modprobe mlx5_ib`), or pass its device into the container. "
    "Confirm with: `lspci | grep -i mellanox`, `dmesg | grep mlx5`."
)
LOG = (
    Line(
        ("async event", "async fatal event"),
        "async (?:fatal )?event ?: ?(?:port error|local catastrophic|device fatal)",
    ),
    Line(  # of mlx5's driver; from 6.13 on of the kernel's core/cache.c for every driver; of mlx5's port module
        ("Link down", "Link DOWN", "Cable unplugged", "Cable error"),
        r"mlx[45]_\w+ .{0,120}(?:Link (?:down|DOWN)\b|Port module event.{0,40}, Cable (?:unplugged|error))",
        shows="hint",
        why="the job may not use that port; a port that is being set up shows the same once",
        ahead_of="nccl/infiniband-unreachable",
    ),
    Line(
        "ports: ",
        r"^ports: (?P<host>[A-Za-z][\w.-]{0,63}): \S{1,64} port \d{1,3} is \w{1,20}, on the other hosts active",
        shows="hint",
        why="the job may not use that port",
    ),
    Line(
        "device's health compromised",
        r"mlx5_core .{0,80}device's health compromised",
        shows="symptom",
        why="the job may not use that adapter",
        told="A network adapter's firmware does not answer",
    ),
)
MATTERS = "NCCL uses the other ports there, and the slowest link limits every collective"
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
                f"{ports_named(lost)} on {node.name} {'are' if lost[1:] else 'is'} not active; on the other nodes "
                "active.",
                evidence=[port_evidence(node, port) for port in lost],
                fixes=[Fix.on(node, UNMANAGED if all(map(unmanaged, lost)) else REMEDY)],
                severity="warn" if left or gpus.nccl_made(cluster.nodes) else "fail",
            )
        slower = [(port, has, usual) for of, port, has, usual in slow if of is node and has < usual]
        if slower:
            _, has, usual = slower[0]
            yield Finding.about(
                [node],
                f"{ports_named(port for port, _, _ in slower)} on {node.name}: {has:g} Gb/s; on the other nodes "
                f"{usual:g} Gb/s.",
                evidence=[f"{node.name}: {port.name}: {has:g} of {usual:g} Gb/s" for port, has, usual in slower],
                fixes=[Fix.on(node, REMEDY)],
                severity="warn",
            )
    yield from ports_missing(cluster)
    yield from nowhere_active(cluster, {node for node, *_ in down})


def ports_missing(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes with fewer ports than most, which lack names that most nodes have."""
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
                f"{node.name} has no RDMA port {some_of(lacks, 4)}; the other nodes have it.",
                matters="NCCL has fewer channels there: slower, and some versions of NCCL hang",
                evidence=[f"{node.name}: active: {rdma.ports_text(its)}; on the other nodes {usual}"],
                fixes=[Fix.on(node, ABSENT)],
                severity="warn",
            )


def nowhere_active(cluster: Cluster, reported: set[Node]) -> Iterator[Finding]:
    """Yield the finding about nodes with a link and without a port that a subnet manager made active."""
    waiting_ports = {
        node: waiting
        for node in cluster.nodes
        if rdma.uses_rdma(cluster, node) and node not in reported and not rdma.active_ports(node)
        if (waiting := [port for port in rdma.chosen_ports(node) if unmanaged(port)])
    }
    if waiting_ports:
        yield Finding.about(
            waiting_ports,
            f"No InfiniBand port on {names_of(waiting_ports)} is active, although some have a link: no subnet "
            "manager configured them.",
            matters="NCCL uses TCP sockets instead, much slower",
            evidence=[port_evidence(node, port) for node, ports in waiting_ports.items() for port in ports[:1]],
            fixes=[Fix.on(waiting_ports, UNMANAGED)],
            severity="fail" if any(map(rdma.needs_devices, waiting_ports)) else "warn",
        )


def unmanaged(port: rdma.RdmaPort) -> bool:
    """Return whether the port has a link and waits for the subnet manager (InfiniBand specification, port states)."""
    return port.link_layer == "InfiniBand" and port.physical == "LinkUp" and port.state in ("INIT", "ARMED")


def port_evidence(node: Node, port: rdma.RdmaPort) -> str:
    return f"{node.name}: {port.name}: {port.state}, {port.physical}"


def ports_named(ports: Iterable[rdma.RdmaPort]) -> str:
    names = list(ports)
    return f"RDMA port{'s' * (len(names) > 1)} {rdma.ports_text(names)}"


def rate(node: Node, port: rdma.RdmaPort) -> float | None:
    return port.rate if rdma.is_active(port) else None
