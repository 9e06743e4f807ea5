"""MASTER_PORT needs a privilege that node 0 lacks.

## What you see
Node 0 fails at once with `The server socket has failed to listen on any local network address` and `code: -13, name:
EACCES, message: permission denied`. The other nodes print nothing for 15 to 30 minutes.

## Why it happens
Ports below 1024 (net.ipv4.ip_unprivileged_port_start) are for root and for processes with CAP_NET_BIND_SERVICE.

## Fix
Use a higher port, the same on every node: `export MASTER_PORT=29500`.

## Confirm with
`sysctl net.ipv4.ip_unprivileged_port_start` prints a number not above MASTER_PORT.

## When it is harmless
Never.

## See also
network/port-not-bindable, network/port-in-use
"""

from distdoctor.check_api import DEFAULT_PORT, Cluster, Finding, Iterator, Line, Node, claims_node0, set_master_fixes

SEVERITY = "fail"
LOG = (
    Line("failed to bind to", r"failed to bind to \S{0,80}:(?P<port>\d{1,3}|10[01]\d|102[0-3]) \(errno: 13\b"),
    Line(
        "failed to bind to", r"Permission denied.{0,80}failed to bind to \S{0,80}:(?P<port>\d{1,3}|10[01]\d|102[0-3])$"
    ),
    Line("useIpv6:", r"port: (?P<port>\d{1,3}|10[01]\d|102[0-3]), .{0,80}(?:EACCES|code: -13)"),
)
PREVENTS = "store hosted"
LOOKS_AT = ("host.limits",)
FOLLOWS_ANYWHERE = ("environment/duplicate-rank", "environment/duplicate-node-rank", "environment/master-mismatch")
EACCES = 13


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        if claims_node0(node) and (start := closed_below(node)) is not None:
            yield finding(cluster, node, start)


def closed_below(node: Node) -> int | None:
    """The first port that this user may bind, where MASTER_PORT is below it and was not bound; else None."""
    limits, bind, port = node.limits, node.network.bind, node.plan.master_port
    if limits.unprivileged_port_start is None or limits.may_bind_privileged or node.plan.agent_store:
        return None
    if bind is not None and (bind.ok or bind.errno != EACCES):
        return None
    closed = 0 < port < limits.unprivileged_port_start and not node.meeting.joined
    return limits.unprivileged_port_start if closed else None


def finding(cluster: Cluster, node: Node, start: int) -> Finding:
    bind = node.network.bind
    user = f"the user {node.identity.user}" if node.identity.user else "this user"
    port = node.plan.master_port
    free = max(DEFAULT_PORT, start)
    error_lines = (f"{node.name}: {bind.error[:300]} (errno {bind.errno})",) if bind and bind.error else ()
    return Finding.about(
        [node],
        f"Node 0 cannot host the store: {user} on {node.name} may not bind port {port}.",
        evidence=(f"{node.name}: {user} may bind ports from {start} on; MASTER_PORT is {port}", *error_lines),
        fixes=set_master_fixes(cluster.nodes, f"Use a port from {start} on, the same on every node.", port=free),
    )
