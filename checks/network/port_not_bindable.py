"""Node 0 may not bind MASTER_PORT.

What you see
------------
On node 0 at once `The server socket has failed to listen on any local network address`, with `code: -13, name: EACCES`
for a port below 1024; on the other nodes nothing.

Why it happens
--------------
Ports below 1024 need a privilege. Other codes: no IPv4 or IPv6 at all in this container, or a security module. Without
a code it was no answer of the kernel's: the process that was to host the store came to an end, or did not get about.

Fix
---
Use a port above 1023, the same one on every node. Where listening itself is forbidden (EPERM), no port helps: allow it
in the container's seccomp profile or security module. Where the process came to an end, what ended it.

When it is harmless
-------------------
Never.

See also
--------
network/port-in-use
"""

import os
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Node, other_master_port_fixes

SEVERITY = "fail"
PREVENTS = "store hosted"
LOOKS_AT = ("meeting",)
FOLLOWS = (
    "store/libuv-missing",
    "host/port-privileged",
    "host/lo-down",
    "host/rendezvous-name",
    "host/dns-slow",
    "host/thread-limit",
)
EPERM, EACCES, EADDRINUSE = 1, 13, 98


def judge(cluster: Cluster) -> Iterator[Finding]:
    for node in cluster.nodes:
        bind = node.network.bind
        if bind is not None and not bind.ok and bind.errno != EADDRINUSE:
            yield finding(cluster, node)


def finding(cluster: Cluster, node: Node) -> Finding:
    assert node.network.bind
    bind = node.network.bind
    name = os.strerror(bind.errno) if bind.errno else (bind.error or "no reason given")
    return Finding.about(
        [node],
        f"{node.name} cannot host the store on port {bind.port}: {name}.",
        evidence=(f"{node.name}: {(bind.error or name)[:300]} (errno {bind.errno})",),
        fixes=remedies(cluster, node, bind.errno, bind.free_port),
    )


def remedies(cluster: Cluster, node: Node, errno: int | None, free_port: int | None) -> tuple[Fix, ...]:
    """Another port only where it is the port that is refused."""
    if errno == EACCES:
        return other_master_port_fixes(cluster, free_port)
    if errno == EPERM:
        return (allowed(node),)
    if errno:
        return (Fix.on(node, "Give the container or host an IPv4 or IPv6 address that a socket can listen on."),)
    return (
        Fix.on(
            node,
            "Find out what ended or stopped the process that was to host the store: the kernel log (dmesg: a crash, "
            "out of memory), the limits of the job's cgroup, who else kills processes. Another port does not help.",
        ),
    )


def allowed(node: Node) -> Fix:
    """bind() gives EACCES for a port that needs a privilege; EPERM is a filter's answer, whatever the port."""
    return Fix.on(node, "Let the job listen: a seccomp profile, security module or BPF program of the host forbids it.")
