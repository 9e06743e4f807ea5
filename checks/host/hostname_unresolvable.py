"""A node's own host name has no address.

## What you see
gloo warns on every rank of the node and falls back to 127.0.0.1:

    Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback.

With torchrun's c10d rendezvous the other nodes print `The IPv6 network addresses of (host0, PORT) cannot be retrieved`.

## Why it happens
The name has no entry in /etc/hosts or the name service, as in many containers and cloud images. A look-up that times
out (a silent name server) ends the same way, each time seconds later.

## Fix
Add the name with the node's real address to /etc/hosts: `echo "10.77.0.10 host0" >> /etc/hosts`.

## Confirm with
`getent hosts $(hostname)` prints the node's real address.

## When it is harmless
For gloo if all ranks are on one host, or GLOO_SOCKET_IFNAME is set. torchrun's c10d rendezvous needs the name, also
with one node: see host/rendezvous-name.

## See also
gloo/loopback-address, host/rendezvous-name, host/hostname-loopback, network/master-unresolvable
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    has_other_hosts,
    hosts_file_commands,
    hosts_file_unread,
    lookup_failed,
    names_of,
    reachable_address,
)

SEVERITY = "warn"
LOG = (
    Line(
        "network addresses of", r"network addresses of \((?P<name>[^,]{1,253}\.local), ?\d{1,9}\) cannot be retrieved"
    ),
    Line(
        "rp != nullptr. Unable to find address for",  # gloo/transport/tcp/device.cc, lookupAddrForHostname()
        r"Unable to find address for: ?(?P<name>\S{1,253})",
        told="A node's own host name has no address that gloo can use",
    ),
    Line(
        "gethostbyname error on",  # MPICH's and Intel MPI's mpiexec, of a host that it was given or of its own
        r"gethostbyname error on (?P<name>[\w.-]{1,253})",
        told="mpiexec cannot resolve a host name",
    ),
    Line(
        "Unable to resolve hostname to a (local) address", shows="hint", why="harmless where all ranks are on one host"
    ),
    Line(
        "gaierror: ", r"gaierror: \[Errno -[235]\]", shows="symptom", why="it may be any name that the program looks up"
    ),
    Line("error encountered when getting address info", shows="symptom", why="the line does not name the host"),
)
MATTERS = "libraries that look up the host's own name, as gloo does, get no address"
FOLLOWS = ("host/rendezvous-name", "gloo/loopback-address", "gloo/interface-not-found")


def judge(cluster: Cluster) -> Iterator[Finding]:
    bad = [node for node in cluster.nodes if node.saw("host") and not node.host.own_name.addresses]
    bad = [node for node in bad if has_other_hosts(cluster, node)]
    if not bad:
        return
    yield Finding.about(
        bad,
        f"The host name of {names_of(bad)} has no address there.",
        evidence=(*(evidence(node) for node in bad), *hosts_file_unread(bad)),
        fixes=(fix(cluster, node) for node in bad),
    )


def evidence(node: Node) -> str:
    return f"{node.name}: {lookup_failed(node.host.own_name)}"


def fix(cluster: Cluster, node: Node) -> Fix:
    address = reachable_address(node, cluster)
    if address is None:
        return Fix.on(node, f"Add {node.name} with its real address to /etc/hosts.")
    commands = hosts_file_commands(node, address, node.identity.hostname)
    if not commands:
        text = f"Let {node.name} read its line in /etc/hosts. Confirm with: getent hosts {node.identity.hostname}."
        return Fix.on(node, text)
    return Fix.on(node, f"Give {node.name} its address in /etc/hosts.", commands=commands)
