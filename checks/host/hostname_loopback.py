"""A node's own host name means a loopback address.

What you see
------------
Nothing, as long as no library looks its own host name up to tell others where it is. gloo does: see
gloo/loopback-address. So do torchrun's c10d rendezvous on node 0, and RPC frameworks.

Why it happens
--------------
Debian and Ubuntu write `127.0.1.1 <hostname>` into /etc/hosts.

Fix
---
Give the name its real address in /etc/hosts, in place of the loopback one.

When it is harmless
-------------------
When all ranks are on one host, and when GLOO_SOCKET_IFNAME is set: it is then not looked at.

See also
--------
gloo/loopback-address, host/hostname-unresolvable
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
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
MATTERS = "whatever offers the host's own name to other hosts, as gloo does, would lead them nowhere"
FOLLOWS = ("gloo/loopback-address", "gloo/interface-not-found", "gloo/interface-unreachable")


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if loopback(node) is not None and has_other_hosts(cluster, node)]
    if not bad:
        return
    means = together(dict.fromkeys(str(loopback(node)) for node in bad))
    yield Finding.about(
        bad,
        f"The own host name of {names_of(bad)} means {means}.",
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
        text = f"Give {node.name} a name of its own, as root: hostnamectl set-hostname NAME, and NAME in /etc/hosts."
        return Fix.on(node, text)
    if address is None:
        return Fix.on(node, f"Give {node.name} its real address in /etc/hosts.")
    command = correct_own_hosts_line(node, address)
    return Fix.on(node, f"Give {node.name} its real address in /etc/hosts.", commands=(command,) if command else ())
