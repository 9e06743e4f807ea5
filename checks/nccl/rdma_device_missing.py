"""The job has no usable RDMA device.

## What you see
`NET/OFI ... fi_getinfo() call failed: No data available`, `NET/IB : No device found` on a host that has one.

Found for real on an NVIDIA H200 (driver 580.159, torch 2.11, NCCL 2.28.9).

## Why it happens
/dev/infiniband was not passed into the container, or the plugin finds no provider. Or NCCL_IB_HCA names ports that do
not exist or are down. NCCL then uses sockets without a message.

## Fix
Pass the devices into the container: `docker run --device=/dev/infiniband` (Kubernetes: the device plugin of the
fabric). Or `unset NCCL_IB_HCA`.

## Confirm with
`ls /dev/infiniband` and `ibv_devinfo`, both in the container.

## When it is harmless
When the job is meant to use TCP.

## See also
nccl/infiniband-gid
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, gpus, names_of, plans_nccl_group, rdma

SEVERITY = "fail"
PREVENTS = "nccl group formed"
FOLLOWS = ("nccl/infiniband-link",)
NEXT = ("the devices in the container", "ls /dev/infiniband")
REMEDY = "Pass the devices into the container: `docker run --device=/dev/infiniband` (Kubernetes: device plugin)."
LOG = (
    Line("fi_getinfo", r"fi_getinfo\(\) call failed", shows="hint", why="NCCL uses sockets instead"),
    Line(
        "NET/IB : Unable to open device",
        shows="hint",
        why="NCCL uses the devices that it can open; with different numbers of them per node it may hang",
    ),
    Line(
        ("is not enumerated as an mlx5 device", "no active IB device that supports GPU-initiated"),
        shows="hint",
        why="NVSHMEM's IBGDA takes an mlx5 device; it uses another transport if it has one",
    ),
    Line("NET/IB : No device found", shows="noise", why="NCCL uses sockets instead"),
    Line(
        ("Error: network ", "Failed to initialize any NET plugin"),  # NCCL up to 2.26, and later
        r"NCCL WARN Error: network \S{1,60} not found|(?:NCCL WARN |^)Failed to initialize any NET plugin",
        shows="symptom",
        why="NCCL_NET names a network; a plugin that is not installed and a misspelt name show the same",
    ),
)
OVER_TCP = "Or use TCP on all nodes; it is slower."
NET, DISABLED = "NCCL_NET", "NCCL_IB_DISABLE"
MATTERS = "NCCL uses TCP sockets instead, much slower"
LOOKS_AT = ("ranks.devices",)


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node)]
    usable = [node for node in nodes if rdma.openable(node) and rdma.active_ports(node)]
    without = [node for node in nodes if node not in usable and all_active(node)]
    if not gpus.nccl_made(cluster.nodes):
        yield from without_device(cluster, usable)
        yield from forbidden(cluster)
        yield from required_by_setting(cluster, usable)
    # Nodes with and without RDMA cannot connect to each other; an NCCL_NET that names it needs it.
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
            f"{rdma.HCA} excludes all active RDMA ports of {names_of(unnamed)}.",
            evidence=map(ports, unnamed),
            fixes=[Fix.on(unnamed, f"Unset {rdma.HCA}; NCCL then uses the active ports.", env={rdma.HCA: None})],
            severity="fail" if needed else "warn",
        )


def without_device(cluster: Cluster, usable: list[Node]) -> Iterator[Finding]:
    """Yield the finding about nodes without a device, where NCCL uses the devices of others."""
    lacking = [node for node in cluster.nodes if rdma.uses_rdma(cluster, node) and rdma.has_no_device(node)]
    if lacking and usable:
        yield Finding.about(
            lacking,
            f"{names_of(lacking)} {'have' if lacking[1:] else 'has'} no RDMA device, but NCCL uses those of "
            f"{names_of(usable)}.",
            evidence=[
                *(f"{node.name}: nothing in /sys/class/infiniband" for node in lacking),
                *(f"{node.name}: active: {rdma.ports_text(rdma.active_ports(node))}" for node in usable[:1]),
            ],
            fixes=[
                Fix.on(lacking, f"Load the adapter's driver (`modprobe mlx5_ib`), or use another node. {REMEDY}"),
                Fix.on(cluster.nodes, OVER_TCP, option=2, env=rdma.over_tcp(cluster.nodes)),
            ],
        )


def forbidden(cluster: Cluster) -> Iterator[Finding]:
    """Yield the finding about nodes with settings that require InfiniBand and forbid it."""
    nodes = [n for n in cluster.nodes if plans_nccl_group(n) and rdma.needs_devices(n) and rdma.is_forbidden(n)]
    if nodes:
        yield Finding.about(
            nodes,
            f"{NET} on {names_of(nodes)} requires InfiniBand or RoCE, and {DISABLED} forbids them: NCCL finds no "
            "network.",
            evidence=[f"{n.name}: {NET}={n.variables[NET]}, NCCL_IB_DISABLE={n.variables[DISABLED]}" for n in nodes],
            fixes=[
                Fix.on(nodes, f"Unset {NET}; NCCL then uses TCP sockets.", env={NET: None}),
                Fix.on(nodes, f"Or unset {DISABLED}; NCCL then uses InfiniBand.", option=2, env={DISABLED: None}),
            ],
        )


def required_by_setting(cluster: Cluster, usable: list[Node]) -> Iterator[Finding]:
    """Yield the finding about nodes with settings that require InfiniBand, if no node has it.

    NCCL looks for it even if all ranks are on one host."""
    wanted = [node for node in cluster.nodes if plans_nccl_group(node) and rdma.needs_devices(node)]
    nodes = [node for node in wanted if rdma.has_no_device(node) and not rdma.is_forbidden(node)]
    if nodes and not usable:
        yield Finding.about(
            nodes,
            f"{names_of(nodes)} {'have' if nodes[1:] else 'has'} no RDMA device, but {NET} requires one.",
            evidence=[f"{node.name}: {NET}={node.variables[NET]}; nothing in /sys/class/infiniband" for node in nodes],
            fixes=[
                Fix.on(nodes, f"Unset {NET}; NCCL then uses TCP sockets.", env={NET: None}),
                Fix.on(nodes, f"Or load the adapter's driver (`modprobe mlx5_ib`). {REMEDY}", option=2),
            ],
        )


def partly_open(usable: list[Node]) -> Iterator[Finding]:
    """Yield the finding about nodes on which the job can open only some devices, unlike on the others."""
    partly = [node for node in usable if node.facts.rdma and node.facts.rdma.unusable]
    if partly and len(partly) < len(usable):
        yield Finding.about(
            partly,
            f"The job can open only some RDMA devices of {names_of(partly)}; on the other nodes it can open all.",
            matters="NCCL has fewer channels there, and some versions of NCCL hang",
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
        return f"{active}no /dev/infiniband/uverbs* exists"
    return active + ", ".join(f"{path}: {error}" for path, error in facts.unusable.items())
