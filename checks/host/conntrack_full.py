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

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "fail"
MATTERS = "connections that begin while it is full get no answer"
PREVENTS = "store used"
LOOKS_AT = ("host.kernel_log",)
RESTART = "yes"
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
                    full,
                    "Make it larger, or end what has so many connections.",
                    commands=(
                        "sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max",
                        "sysctl -w net.netfilter.nf_conntrack_max=1048576",
                    ),
                ),
            ),
        )


def written(node: Node) -> list[str]:
    """The lines about this node's table. Linux 6.18 and later name the network namespace, but for the first."""
    lines = [line for line in node.system.kernel_log or () if line.check == "host/conntrack-full"]
    own = node.identity.netns
    return [line.text for line in lines if "netns" not in line.values or line.values["netns"] in own]
