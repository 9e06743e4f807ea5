"""A node's own host name resolves to a loopback address.

## What you see
Nothing, until a library looks its own host name up and advertises the address. gloo does: see gloo/loopback-address. So
do torchrun's c10d rendezvous on node 0, and RPC frameworks.

## Why it happens
Debian and Ubuntu write `127.0.1.1 <hostname>` into /etc/hosts.

## Fix
Replace the loopback address in /etc/hosts by the node's real one: `10.77.0.10 host0`.

## Confirm with
`getent ahostsv4 $(hostname)` prints the node's real address.

## When it is harmless
All ranks are on one host, or GLOO_SOCKET_IFNAME is set: gloo then does not look the name up.

## See also
gloo/loopback-address, host/hostname-unresolvable
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    correct_own_hosts_line,
    has_other_hosts,
    is_loopback,
    names_of,
    own_host_names,
    reachable_address,
    together,
)

SEVERITY = "warn"
LOG = (Line("Using the loopback address as fallback", shows="hint", why="harmless where all ranks are on one host"),)
MATTERS = "libraries that advertise the host's own name, as gloo does, give other hosts a useless address"
FOLLOWS = ("gloo/loopback-address", "gloo/interface-not-found", "gloo/interface-unreachable")


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if loopback(node) is not None and has_other_hosts(cluster, node)]
    if not bad:
        return
    means = together(dict.fromkeys(str(loopback(node)) for node in bad))
    yield Finding.about(
        bad,
        f"The host name of {names_of(bad)} resolves to {means} there.",
        evidence=(line for node in bad for line in evidence(node)),
        fixes=(fix(cluster, node) for node in bad),
    )


def loopback(node: Node) -> str | None:
    """The loopback address that is the first usable one of the own name; None if it is another, or not looked at."""
    host = node.host
    if host.gloo and host.gloo.reason == "variable":
        return None
    usable = [a for a in host.own_name.addresses if is_loopback(a) or a in node.addresses]
    return usable[0] if usable and is_loopback(usable[0]) else None


def evidence(node: Node) -> Iterator[str]:
    host = node.host
    if host is not None:
        yield f"{node.name}: {host.own_name.name} resolves to {', '.join(host.own_name.addresses)}"
        for line in host.hosts_lines:
            yield f"{node.name}: /etc/hosts line {line.number}: {' '.join(line.text.split())}"


def fix(cluster: Cluster, node: Node) -> Fix:
    address = reachable_address(node, cluster)
    if "localhost" in own_host_names(node):
        text = f"Give {node.name} its own name, as root: hostnamectl set-hostname NAME, and add NAME to /etc/hosts."
        return Fix.on(node, text)
    if address is None:
        return Fix.on(node, f"Give {node.name} its real address in /etc/hosts.")
    command = correct_own_hosts_line(node, address)
    return Fix.on(node, f"Give {node.name} its real address in /etc/hosts.", commands=(command,) if command else ())
