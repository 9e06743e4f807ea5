"""The container has no RDMA device.

What you see
------------
`NET/OFI ... fi_getinfo() call failed: No data available`, `NET/IB : No device found` where the host has one.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

Why it happens
--------------
/dev/infiniband was not passed into the container, or the plugin finds no provider; or NCCL_IB_HCA names ports that are
not there or not up. NCCL then takes sockets without a word.

Fix
---
docker run --device=/dev/infiniband; in Kubernetes the device plugin of the fabric. Or unset NCCL_IB_HCA.

When it is harmless
-------------------
Where the job is to use TCP.

See also
--------
nccl/infiniband-gid
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, gpus, names_of, plans_nccl_group, rdma

SEVERITY = "fail"
PREVENTS = "nccl group formed"
FOLLOWS = ("nccl/infiniband-link",)
NEXT = ("the devices in the container", "ls /dev/infiniband")
REMEDY = "Give the container the devices (docker run --device=/dev/infiniband; Kubernetes: the fabric's plugin)."
LOG = (
    Line("fi_getinfo", r"fi_getinfo\(\) call failed", shows="hint", why="NCCL goes on with sockets"),
    Line(
        "NET/IB : Unable to open device",
        shows="hint",
        why="NCCL goes on with the devices that it can open; where nodes have unlike numbers of them, it may hang",
    ),
    Line("NET/IB : No device found", shows="noise", why="NCCL goes on with sockets"),
    Line(
        ("Error: network ", "Failed to initialize any NET plugin"),  # NCCL up to 2.26, and later
        r"NCCL WARN (?:Error: network \S{1,60} not found|Failed to initialize any NET plugin)",
        shows="symptom",
        why="NCCL_NET names a network; a plugin that is not installed, and a name that is none, show the same",
    ),
)
OVER_TCP = "Or go over TCP on all nodes, slower."
NET, DISABLED = "NCCL_NET", "NCCL_IB_DISABLE"
MATTERS = "NCCL goes on with TCP sockets, much slower"
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node)]
    usable = [node for node in nodes if rdma.openable(node) and rdma.active_ports(node)]
    without = [node for node in nodes if node not in usable and all_active(node)]
    if not gpus.nccl_made(cluster.nodes):
        yield from none_there(cluster, usable)
        yield from forbidden(cluster)
        yield from named(cluster, usable)
    # Where some nodes have what others lack, the two kinds cannot be connected; an NCCL_NET that names it needs it.
    needed = bool(usable) or any(map(rdma.needs_devices, without))
    closed = [node for node in without if not rdma.openable(node)]
    if closed:
        yield Finding.about(
            closed,
            f"The job cannot open the RDMA devices of {names_of(closed)}.",
            evidence=map(device_files, closed),
            fixes=[Fix.on(closed, REMEDY)],
            severity="fail" if needed else "warn",
        )
    if not gpus.nccl_made(cluster.nodes):
        yield from partly_open(usable)
    unnamed = [node for node in without if node not in closed]
    if unnamed:
        yield Finding.about(
            unnamed,
            f"{rdma.HCA} leaves none of the active RDMA ports of {names_of(unnamed)}.",
            evidence=map(ports, unnamed),
            fixes=[Fix.on(unnamed, "Let NCCL take the ports that are active.", env={rdma.HCA: None})],
            severity="fail" if needed else "warn",
        )


def none_there(cluster: Cluster, usable: list[Node]) -> Iterator[Finding]:
    """Nodes without a device, where NCCL takes those of others."""
    bare = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node) and rdma.has_no_device(node)]
    if bare and usable:
        yield Finding.about(
            bare,
            f"There is no RDMA device on {names_of(bare)}, and NCCL takes those of {names_of(usable)}.",
            evidence=[
                *(f"{node.name}: nothing in /sys/class/infiniband" for node in bare),
                *(f"{node.name}: active: {rdma.ports_text(rdma.active_ports(node))}" for node in usable[:1]),
            ],
            fixes=[
                Fix.on(bare, f"Load the adapter's driver, or take another node. {REMEDY}"),
                Fix.on(cluster.nodes, OVER_TCP, option=2, env=rdma.over_tcp(cluster.nodes)),
            ],
        )


def forbidden(cluster: Cluster) -> Iterator[Finding]:
    """Nodes whose settings name InfiniBand, and forbid it."""
    nodes = [n for n in cluster.nodes if plans_nccl_group(n) and rdma.needs_devices(n) and rdma.is_forbidden(n)]
    if nodes:
        yield Finding.about(
            nodes,
            f"On {names_of(nodes)} {NET} lets NCCL take nothing but InfiniBand and RoCE, and NCCL_IB_DISABLE forbids "
            "them: it finds no network.",
            evidence=[f"{n.name}: {NET}={n.variables[NET]}, NCCL_IB_DISABLE={n.variables[DISABLED]}" for n in nodes],
            fixes=[
                Fix.on(nodes, "Let NCCL take TCP sockets.", env={NET: None}),
                Fix.on(nodes, "Or let it take InfiniBand.", option=2, env={DISABLED: None}),
            ],
        )


def named(cluster: Cluster, usable: list[Node]) -> Iterator[Finding]:
    """Nodes whose settings name InfiniBand, where nobody has any: NCCL looks for it also where all ranks are on one
    host."""
    wanted = [node for node in cluster.nodes if plans_nccl_group(node) and rdma.needs_devices(node)]
    nodes = [node for node in wanted if rdma.has_no_device(node) and not rdma.is_forbidden(node)]
    if nodes and not usable:
        yield Finding.about(
            nodes,
            f"There is no RDMA device on {names_of(nodes)}, and {NET} lets NCCL take nothing else.",
            evidence=[f"{node.name}: {NET}={node.variables[NET]}; nothing in /sys/class/infiniband" for node in nodes],
            fixes=[
                Fix.on(nodes, "Let NCCL take what is there: TCP sockets.", env={NET: None}),
                Fix.on(nodes, f"Or load the adapter's driver. {REMEDY}", option=2),
            ],
        )


def partly_open(usable: list[Node]) -> Iterator[Finding]:
    """Nodes on which the job can open some devices and not others, where it can open all those of other nodes."""
    partly = [node for node in usable if node.facts.rdma and node.facts.rdma.unusable]
    if partly and len(partly) < len(usable):
        yield Finding.about(
            partly,
            f"The job can open some of the RDMA devices of {names_of(partly)} alone, and all of the other nodes.",
            matters="NCCL's channels over the others' have no like there, and some versions of NCCL hang",
            evidence=map(device_files, partly),
            fixes=[Fix.on(partly, REMEDY)],
            severity="warn",
        )


def all_active(node: Node) -> list[rdma.RdmaPort]:
    return [port for port in (node.facts.rdma.ports if node.facts.rdma else ()) if rdma.is_active(port)]


def ports(node: Node) -> str:
    return f"{node.name}: {rdma.HCA}={node.variables.get(rdma.HCA)}; active: {rdma.ports_text(all_active(node))}"


def device_files(node: Node) -> str:
    facts = node.facts.rdma
    active = f"{node.name}: active: {rdma.ports_text(all_active(node))}; "
    if facts is None or not facts.files:
        return f"{active}there is no /dev/infiniband/uverbs*"
    return active + ", ".join(f"{path}: {error}" for path, error in facts.unusable.items())
