"""The kernel's connection tracking table is full.

## What you see
Kernel log: `nf_conntrack: table full, dropping packet`. Connections time out under load.

## Why it happens
The firewall tracks every connection, and its table has no free entry.

## Fix
Enlarge the table, `sysctl -w net.netfilter.nf_conntrack_max=1048576`, or exempt the job's nodes from tracking (nft:
notrack).

## Confirm with
`sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max` shows a count well below the maximum.

## When it is harmless
Never.

## See also
network/port-filtered
"""

from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "new connections get no answer while the table is full"
PREVENTS = "store used"
LOOKS_AT = ("host.kernel_log",)
RESTART = "yes"
COUNT, MAX = "net.netfilter.nf_conntrack_count", "net.netfilter.nf_conntrack_max"
AMPLE = 1 << 20
"""Entries: how many the table has room for by default goes by the machine's memory, 262,144 at most."""
LOG = (
    Line(
        ("table full, dropping packet", "table full in netns"),
        r"conntrack: table full(?: in netns (?P<netns>\d{1,10}))?, dropping packet",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    full = {node: lines for node in cluster.nodes if (lines := log_lines(node))}
    if full:
        yield Finding.about(
            full,
            f"The connection tracking table of {names_of(list(full))} was full recently, and the kernel dropped "
            "packets.",
            severity="warn",
            evidence=(f"{node.name}: kernel log: {lines[-1]}" for node, lines in full.items()),
            fixes=(
                Fix.on(
                    nodes,
                    "Enlarge the table, as root (for containers, on their machine); or end the processes with so many "
                    "connections.",
                    commands=(f"sysctl {COUNT} {MAX}", f"sysctl -w {MAX}={size}"),
                )
                for size, nodes in by_size(full).items()
            ),
        )


def by_size(full: Iterable[Node]) -> dict[int, list[Node]]:
    """The nodes by how large their tables should be: twice as large as they are, at least."""
    sizes: dict[int, list[Node]] = {}
    for node in full:
        now = node.host.sysctls.get(MAX, "")
        sizes.setdefault(max(AMPLE, 2 * int(now) if now.isdecimal() else 0), []).append(node)
    return sizes


def log_lines(node: Node) -> list[str]:
    """The lines about this node's table. Linux 6.18 and later name the network namespace, but for the first."""
    lines = [line for line in node.host.kernel_log or () if line.check == "host/conntrack-full"]
    own = node.identity.netns
    return [line.text for line in lines if "netns" not in line.values or line.values["netns"] in own]
