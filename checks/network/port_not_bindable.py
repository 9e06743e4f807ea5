"""Node 0 cannot bind MASTER_PORT.

## What you see
Node 0 fails at once with `The server socket has failed to listen on any local network address`, with `code: -13, name:
EACCES` for a port below 1024. The other nodes print nothing.

## Why it happens
Ports below 1024 need a privilege. Other codes: this container has no IPv4 or IPv6 at all, or a security module forbids
it. Without a code the kernel did not answer: the process that should host the store ended or made no progress.

## Fix
Use a port above 1023, the same on every node: `export MASTER_PORT=29500`.

If listening itself is forbidden (EPERM), allow it in the container's seccomp profile or security module. If the process
ended, fix its cause (`dmesg -T`).

## Confirm with
`python -c "import socket; socket.create_server(('', 29500))"` on node 0 exits without an error.

## When it is harmless
Never.

## See also
network/port-in-use
"""

import os

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, other_master_port_fixes

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
            "Fix the crash, memory limit or kill that ended the process that should host the store; another port does "
            "not help. Confirm with: dmesg -T.",
        ),
    )


def allowed(node: Node) -> Fix:
    """bind() gives EACCES for a port that needs a privilege; EPERM is a filter's answer, whatever the port."""
    text = "Allow the job to listen: a seccomp profile, security module or BPF program of the host forbids it."
    return Fix.on(node, text)
