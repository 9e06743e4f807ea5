"""The table of connections is full.

What you see
------------
Kernel log: `nf_conntrack: table full, dropping packet`; connections time out under load.

Why it happens
--------------
The firewall follows every connection, and has no room for more.

Fix
---
sysctl net.netfilter.nf_conntrack_max, or no tracking between the nodes of the job.

When it is harmless
-------------------
Never.

See also
--------
network/port-filtered
"""

from collections.abc import Iterable, Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "connections that begin while it is full get no answer"
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
    full = {node: lines for node in cluster.nodes if (lines := written(node))}
    if full:
        yield Finding.about(
            full,
            f"The table of connections of {names_of(list(full))} was full a short time ago, and packets were dropped.",
            severity="warn",
            evidence=(f"{node.name}: the kernel's log: {lines[-1]}" for node, lines in full.items()),
            fixes=(
                Fix.on(
                    nodes,
                    "Make it larger, as root, on the machine itself where these are containers; or end what has so "
                    "many connections.",
                    commands=(f"sysctl {COUNT} {MAX}", f"sysctl -w {MAX}={size}"),
                )
                for size, nodes in by_size(full).items()
            ),
        )


def by_size(full: Iterable[Node]) -> dict[int, list[Node]]:
    """The nodes by how large their tables should be: twice as large as they are, at least."""
    found: dict[int, list[Node]] = {}
    for node in full:
        now = node.host.sysctls.get(MAX, "")
        found.setdefault(max(AMPLE, 2 * int(now) if now.isdecimal() else 0), []).append(node)
    return found


def written(node: Node) -> list[str]:
    """The lines about this node's table. Linux 6.18 and later name the network namespace, but for the first."""
    lines = [line for line in node.host.kernel_log or () if line.check == "host/conntrack-full"]
    own = node.identity.netns
    return [line.text for line in lines if "netns" not in line.values or line.values["netns"] in own]
