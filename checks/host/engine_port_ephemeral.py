"""A port of the engine is in the kernel's range of ephemeral ports.

## What you see
`Address already in use` in one start of many. A moment later no process holds the port.

## Why it happens
Every outgoing connection takes a port of net.ipv4.ip_local_port_range. An engine picks its ports first and binds them
seconds later, as its workers start. In between, any connection on the host may take a port of this range.

## Fix
Use a port below the range, `export VLLM_PORT=21000`; or reserve the port: `sysctl -w
net.ipv4.ip_local_reserved_ports=40000-40019`.

## Confirm with
`sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports` shows that the port is outside the range or
reserved.

## When it is harmless
Ports that the engine has by default, and those that it picks itself, are not reported.

## See also
host/master-port-ephemeral, network/engine-port-in-use
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, is_reserved

SEVERITY = "warn"
MATTERS = "any connection from that host may take this port before the engine binds it"
LOOKS_AT = ("host.limits",)
FOLLOWS = ("network/engine-port-in-use", "network/engine-ports-overlap", "host/ports-exhaustible")
VLLM_PORT = "VLLM_PORT"


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        limits = node.limits
        if limits.port_range is None or not node.plan.engine:
            continue
        low, high = limits.port_range
        inside = {
            setting: port
            for setting, port in chosen(node)
            if low <= port <= high and not is_reserved(limits.reserved_ports, port)
        }
        if inside:
            yield finding(node, inside, (low, high))


def chosen(node: Node) -> Iterator[tuple[str, int]]:
    """Yield the settings that a person has given, each with its port."""
    first = node.variables.get(VLLM_PORT, "")
    if node.plan.engine == "vLLM" and first.isdecimal():
        yield VLLM_PORT, int(first)
    for port in node.plan.ports:
        if port.given and port.port != node.plan.master_port:
            yield port.setting, port.port


def finding(node: Node, inside: dict[str, int], held: tuple[int, int]) -> Finding:
    low, high = held
    setting, port = next(iter(inside.items()))
    better = max(1024, min(low, 22768) - 1768)
    named = ", ".join(f"{name} {number}" for name, number in inside.items())
    options: dict[str, str | None] = {setting: str(better)}
    by_flag = setting.startswith("--") and setting != "--dist-init-addr"
    move = Fix.on(
        node,
        f"Use a port below {low}, such as {better}.",
        flags=options if by_flag else {},
        env={} if setting.startswith("--") else options,
    )
    reserve = ",".join(filter(None, (node.limits.reserved_ports, f"{port}-{min(port + 19, 65535)}")))
    return Finding.about(
        [node],
        f"{named} of {node.plan.engine} is in the range that {node.name} uses for outgoing connections.",
        evidence=(f"{node.name}: {named}; net.ipv4.ip_local_port_range is {low} to {high}",),
        fixes=(
            move,
            Fix.on(
                node,
                f"Or reserve it on {node.name}, as root.",
                2,
                commands=(f"sysctl -w net.ipv4.ip_local_reserved_ports={reserve}",),
            ),
        ),
    )
