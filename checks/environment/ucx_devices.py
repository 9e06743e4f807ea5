"""UCX's own variables leave the KV cache no network device.

## What you see
`UCX WARN network device 'mlx5_9:1' is not available, please use one or more of: ...`, then `NIXL_ERR_BACKEND` or
`NIXL_ERR_REMOTE_DISCONNECT` at the first request. If no transport at all is left, the engine ends with `no usable
transports/devices (asked ...)`.

## Why it happens
NIXL moves the KV cache by UCX, which does not read NCCL's variables. UCX_NET_DEVICES names devices that another node
has: cards are numbered differently, or the container has none. Or UCX_TLS names only transports inside a node, such as
cuda_ipc and sm.

## Fix
`unset UCX_NET_DEVICES UCX_TLS`; UCX then uses what the node has. Or name devices of this node, as RDMA device and port
or as interface: `export UCX_NET_DEVICES=mlx5_0:1`. Add tcp or rc to UCX_TLS.

## Confirm with
`ls /sys/class/infiniband /sys/class/net` lists the devices; `ucx_info -d | grep -E 'Transport|Device'` shows what UCX
uses.

## When it is harmless
All instances that exchange KV caches run on this node, or NIXL has another backend than UCX; the finding is then a
WARN.

## See also
nccl/rdma-device-missing, environment/engine-address
"""

import re

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Node, Severity, names_of, some_of, together

SEVERITY = "fail"
PREVENTS = "results right"
MATTERS = "the KV cache cannot go from this node to another"
LOOKS_AT = ("host.limits", "host.interfaces")
LOG = (
    Line(
        "no usable transports/devices",
        r"no usable transports/devices \(asked ",
        told="UCX_TLS and UCX_NET_DEVICES leave UCX no transport",
        fix="Unset UCX_TLS and UCX_NET_DEVICES; UCX then uses what the node has.",
    ),
    Line(
        " not available, please use one or more of",  # ucp_report_unavailable()
        r"\b(?:network devices?|transports?) .{1,200} not available, please use one or more of",
        shows="hint",
        why="UCX goes on with what is left of UCX_NET_DEVICES and UCX_TLS; ranks of another node may not be reached",
    ),
)
DEVICES, TRANSPORTS = "UCX_NET_DEVICES", "UCX_TLS"
BETWEEN_NODES = re.compile(r"all|ib|tcp|srd|(?:rc|ud|dc|gga)(?:_\w+)?|ugni\w*")
"""Transports that reach another node (src/ucp/core/ucp_context.c, UCX 1.22, UCX_TLS and its aliases)."""
_RANGE = re.compile(r"([^\[\]]*)\[(\d{1,6})-(\d{1,6})\]([^\[\]]*)")
MOST = 64
"""UCX reads as many devices at most."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    nodes = [node for node in cluster.nodes if node.plan.engine and node.interfaces and node.limits.open_files]
    absent = {node: missing for node in nodes if (missing := missing_devices(node))}
    blind = [node for node in absent if len(absent[node]) == len(listed(node, DEVICES))]
    partly = [node for node in absent if node not in blind]
    local = [node for node in nodes if only_inside(node)]
    if blind:
        named = together(dict.fromkeys(node.variables[DEVICES] for node in blind))
        summary = f"{DEVICES}={named} names no device of {names_of(blind)}."
        yield about(blind, DEVICES, summary, evidence=(devices_text(node) for node in blind))
    if partly:
        named = together(dict.fromkeys(name for node in partly for name in absent[node]))
        summary = f"{names_of(partly)} {'has' if len(partly) == 1 else 'have'} no {named}, which {DEVICES} names."
        yield about(partly, DEVICES, summary, evidence=(devices_text(node) for node in partly), severity="warn")
    if local:
        named = together(dict.fromkeys(node.variables[TRANSPORTS] for node in local))
        summary = f"{TRANSPORTS}={named} on {names_of(local)} has no transport that reaches another node."
        evidence = (f"{node.name}: {TRANSPORTS}={node.variables[TRANSPORTS]}" for node in local)
        yield about(local, TRANSPORTS, summary, evidence=evidence)


def about(
    nodes: list[Node], variable: str, summary: str, *, evidence: Iterator[str], severity: Severity | None = None
) -> Finding:
    needed = any(moves_cache(node) and (node.plan.nnodes or 1) > 1 for node in nodes)
    return Finding.about(
        nodes,
        summary,
        severity=severity or ("fail" if needed else "warn"),
        evidence=evidence,
        fixes=[Fix.on(nodes, f"Unset {variable}; UCX then uses what the node has.", env={variable: None})],
    )


def moves_cache(node: Node) -> bool:
    """Return whether the line has a connector that moves the KV cache by UCX."""
    return any(port.use.endswith("side channel") for port in node.plan.ports)


def listed(node: Node, variable: str) -> list[str]:
    """Return the names that UCX is to use; none if it may use all, or all but some (``^``)."""
    text = node.variables.get(variable, "")
    names = [name.strip() for name in text.split(",") if name.strip()]
    return [] if text.startswith("^") or names[:1] == ["all"] else [one for name in names for one in expanded(name)]


def expanded(name: str) -> list[str]:
    """Return the names of a range, as UCX reads it: ``mlx5_[0-3]:1``."""
    match = _RANGE.fullmatch(name)
    if match is None:
        return [name]
    numbers = range(int(match[2]), int(match[3]) + 1)[:MOST]
    return [f"{match[1]}{number}{match[4]}" for number in numbers]


def missing_devices(node: Node) -> list[str]:
    has = {*node.limits.rdma_devices, *(interface.name for interface in node.interfaces)}
    return [name for name in listed(node, DEVICES) if re.sub(r"^cuda\d+-|:\d+$", "", name) not in has]


def only_inside(node: Node) -> bool:
    names = [name.lstrip("\\").partition(":")[0] for name in listed(node, TRANSPORTS)]
    return bool(names) and not any(map(BETWEEN_NODES.fullmatch, names))


def devices_text(node: Node) -> str:
    has = [*node.limits.rdma_devices, *(interface.name for interface in node.interfaces)]
    return f"{node.name}: {DEVICES}={node.variables[DEVICES]}; it has {some_of(has, 6)}"
