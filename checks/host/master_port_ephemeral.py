"""MASTER_PORT is in the kernel's range of ephemeral ports.

## What you see
`EADDRINUSE` on node 0 in one start of many. A moment later no process holds the port.

## Why it happens
Every outgoing connection takes a port of net.ipv4.ip_local_port_range. A connection that holds MASTER_PORT, or has just
closed it, keeps the store from binding it.

## Fix
Use a port below the range, `export MASTER_PORT=29500`; or reserve this one on node 0: `sysctl -w
net.ipv4.ip_local_reserved_ports=40000`.

## Confirm with
`sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports` shows that the port is outside the range or
reserved.

## When it is harmless
The launcher itself picked a free port, as torchrun does: that is not reported.

## See also
network/port-in-use, host/ports-exhaustible
"""

from distdoctor.check_api import (
    DEFAULT_PORT,
    Cluster,
    Finding,
    Fix,
    Iterator,
    Node,
    claims_node0,
    is_reserved,
    launch_variables,
    set_master_fixes,
)

SEVERITY = "warn"
MATTERS = "any connection from that host may take this port before the job binds it"
LOOKS_AT = ("host.limits",)
FOLLOWS = ("network/port-in-use", "network/foreign-service", "store/foreign-store", "host/port-privileged")
FOLLOWS_ANYWHERE = ("environment/master-mismatch", "host/ports-exhaustible")


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if claims_node0(node) and picked_by_hand(node) and (held_range := inside(node)) is not None:
            yield finding(cluster, node, held_range)


def picked_by_hand(node: Node) -> bool:
    """Return whether a person chose the port: not torchrun for its ranks, and not "any free port"."""
    plan = node.plan
    if plan.agent_store or plan.master_port == 0 or launch_variables.RUN_ID in node.variables:
        return False
    source = plan.sources.get("master_port", "")
    return source.startswith(("--", "PET_", "MASTER_PORT"))


def inside(node: Node) -> tuple[int, int] | None:
    """The range where it holds MASTER_PORT and that is not reserved, else None."""
    limits = node.limits
    if limits.port_range is None:
        return None
    low, high = limits.port_range
    port = node.plan.master_port
    return (low, high) if low <= port <= high and not is_reserved(limits.reserved_ports, port) else None


def finding(cluster: Cluster, node: Node, held_range: tuple[int, int]) -> Finding:
    port, (low, high) = node.plan.master_port, held_range
    source = node.plan.sources.get("master_port", "default")
    named = source if node.plan.engine else "MASTER_PORT"
    value = ",".join(filter(None, (node.limits.reserved_ports, str(port))))
    reserve = Fix.on(
        node,
        f"Or reserve it on {node.name}, as root.",
        2,
        commands=(f"sysctl -w net.ipv4.ip_local_reserved_ports={value}",),
    )
    options: tuple[Fix, ...] = (reserve,)
    if not low <= DEFAULT_PORT <= high:
        text = f"Use a port outside that range, the same on every node, for example {DEFAULT_PORT}."
        options = (*set_master_fixes(cluster.nodes, text, port=DEFAULT_PORT), reserve)
    else:
        options = (Fix(reserve.text.replace("Or reserve", "Reserve"), reserve.nodes, commands=reserve.commands),)
    return Finding.about(
        [node],
        f"{named} {port} is in the range that {node.name} uses for outgoing connections ({low} to {high}).",
        evidence=(f"{node.name}: port {port} (from {source}); net.ipv4.ip_local_port_range is {low} to {high}",),
        fixes=options,
    )
