"""A sandbox keeps the interfaces of the host from being listed.

What you see
------------
`[enforce fail at device.cc:186] rv != -1. -1 vs -1. Address family not supported by protocol` on one node, where its
gloo group is made; of NCCL, that there is no interface; the other nodes wait.

Why it happens
--------------
gloo and NCCL ask getifaddrs() which interfaces there are, and that asks the kernel over a netlink socket. What started
the job forbids such sockets: a systemd unit with RestrictAddressFamilies= that does not name AF_NETLINK, a seccomp
profile, gVisor without it.

Fix
---
Add AF_NETLINK to RestrictAddressFamilies=, or start the job without that sandbox.

When it is harmless
-------------------
Never: each backend asks.

See also
--------
gloo/init-failed, gloo/interface-not-found
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, names_of

SEVERITY = "fail"
PREVENTS = "gloo group formed"
LOOKS_AT = ("host",)
LOG = (
    Line(
        "enforce fail at",
        r"device\.cc:\d+\] rv != -1\. -1 vs -1\. (?:Address family not supp|Operation not perm|Permission den)",
    ),
)
REMEDY = "Add AF_NETLINK to RestrictAddressFamilies= of the unit that starts the job, or start it without the sandbox."


def judge(cluster: Cluster) -> Iterator[Finding]:
    hidden = {node: error for node in cluster.nodes if (error := node.host.interfaces_hidden)}
    if hidden:
        yield Finding.about(
            hidden,
            f"The interfaces of {names_of(list(hidden))} cannot be listed, as gloo and NCCL do: a sandbox forbids it.",
            evidence=(f"{node.name}: getifaddrs() ends with {error}" for node, error in hidden.items()),
            fixes=[Fix.on(hidden, REMEDY)],
        )
