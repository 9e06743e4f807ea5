"""A sandbox hides the host's network interfaces.

## What you see
`[enforce fail at device.cc:186] rv != -1. -1 vs -1. Address family not supported by protocol` on one node when it
creates its gloo group. NCCL reports no interface. The other nodes wait.

## Why it happens
gloo and NCCL list interfaces with getifaddrs(), which uses a netlink socket. The job's sandbox forbids such sockets: a
systemd unit with RestrictAddressFamilies= without AF_NETLINK, a seccomp profile, or gVisor.

## Fix
Add AF_NETLINK to the unit, `systemctl edit job.service` with `RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
AF_NETLINK`, or start the job without the sandbox.

## Confirm with
`python -c "import socket; print(socket.if_nameindex())"` lists eth0 in the job's environment.

## When it is harmless
Never: each backend lists the interfaces.

## See also
gloo/init-failed, gloo/interface-not-found
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, names_of

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
            f"A sandbox on {names_of(list(hidden))} forbids listing network interfaces, which gloo and NCCL need.",
            evidence=(f"{node.name}: getifaddrs() fails with {error}" for node, error in hidden.items()),
            fixes=[Fix.on(hidden, REMEDY)],
        )
