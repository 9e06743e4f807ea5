"""MASTER_ADDR had no address at first.

## What you see
Only at the start, on some nodes, for a few seconds:

    The IPv6 network addresses of (job-0, 29500) cannot be retrieved (gai error: -2 - Name or service not known)

A job whose processes do not retry, or a launcher without retries, fails. After a restart it runs.

## Why it happens
The DNS record appears when the pod is up (a headless Kubernetes service without publishNotReadyAddresses). Or a name
server, or an agent that writes /etc/hosts, starts together with the job.

## Fix
Wait for the name before the launch, `until getent hosts job-0; do sleep 1; done`, or set the master to node 0's
address.

## Confirm with
`getent hosts job-0` prints node 0's address on every node before the launch.

## When it is harmless
With PyTorch's own store, which retries the look-up until its timeout.

## See also
network/master-unresolvable, network/master-resolves-differently
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, hosts_file_commands, master_means_itself, names_of

SEVERITY = "warn"
LOG = (
    Line(
        "host not found: ",
        "host not found: (?:Name or service|Temporary failure)",
        shows="symptom",
        why="a name that never has an address shows the same",
    ),
    Line(
        "Temporary failure in name resolution",
        r"gai error: -3|c10d|TCPStore|socket\.cpp",
        shows="symptom",
        why="a silent name server shows the same",
    ),
)
MATTERS = "PyTorch retries the look-up until it works; programs without a retry would fail"
LOOKS_AT = ("network.master",)
FOLLOWS = ("network/master-unresolvable",)
AT_ONCE = 2.0
"""Seconds within which a name that is found counts as there from the start."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    late = [n for n in cluster.nodes if n.network.resolved_after > AT_ONCE]
    if not late:
        return
    slowest = max(after(node) for node in late)
    yield Finding.about(
        late,
        f"{names_of(late)} could not resolve MASTER_ADDR {late[0].plan.master_addr} until {slowest:.0f} s "
        "after the start.",
        ranks=(),
        evidence=map(line, late),
        fixes=(fix for node in late for fix in fixes(node)),
    )


def after(node: Node) -> float:
    return node.network.resolved_after


def line(node: Node) -> str:
    addresses = ", ".join(node.master_addresses)
    return f"{node.name}: {node.plan.master_addr} had no address for {after(node):.1f} s, then it was {addresses}"


def fixes(node: Node) -> Iterator[Fix]:
    name = node.plan.master_addr or ""
    addresses = node.master_addresses
    wait = f"until getent hosts {name}; do sleep 1; done"
    if not addresses or master_means_itself(node):
        yield Fix.on(node, f"On {node.name}, wait for the name {name} before the launch.")
    elif commands := hosts_file_commands(node, addresses[0], name):
        text = f"On {node.name}, add {name} to /etc/hosts, or wait for the name before the launch."
        yield Fix.on(node, text, commands=commands)
    else:  # /etc/hosts has it by now: what writes it there is late
        yield Fix.on(node, f"On {node.name}, wait for the name {name} before the launch.", commands=(wait,))
        return
    yield Fix.on(node, f"Or run this before the launch on {node.name}: {wait}", 2)
