"""A host name of digits only is read as an IPv4 address.

## What you see
Time-outs to an address that no host has, with the name next to it:

    failed to connect to 0.104.99.143:29500 (6841231, 29500)

## Why it happens
The resolver reads a name of digits only as an IPv4 address written as one number: 6841231 is 0.104.99.143. Some
container platforms assign such names.

## Fix
Use node 0's address instead of its name, `--master-addr 10.77.0.10`, or give it a name with a letter: `docker run
--hostname node0 ...`.

## Confirm with
`getent hosts $MASTER_ADDR` prints an address of node 0.

## When it is harmless
The name is only the host's own, and every backend has its interface set: no process then looks the name up.

## See also
network/master-unresolvable, host/hostname-unresolvable, gloo/loopback-address
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    names_of,
    parse_address,
    primary_interface,
    reachable_address,
    set_master_fixes,
    together,
)

SEVERITY = "fail"
LOG = (
    Line(("client socket has", "server socket has", "network addresses of"), r"\((?P<name>\d{1,10}), ?\d{1,5}\)"),
    Line(
        "Unable to find interface for: [0.",  # gloo/transport/tcp/device.cc: 3090 is 0.0.12.18
        r"Unable to find interface for: \[0\.(?!0\.0\.0\])\d{1,3}\.\d{1,3}\.\d{1,3}\]",
        fix="Give the host (a container: --hostname) a name with a letter. Or set, on each node, the interface that "
        "reaches the other nodes: `export GLOO_SOCKET_IFNAME=eth0`.",
    ),
)
MATTERS = "libraries that look up the host's own name, as gloo does, get an address that is not its own"
PREVENTS = "store hosted"
LOOKS_AT = ("host", "network.master")
FOLLOWS_ANYWHERE = ("environment/missing-variable", "environment/invalid-variable")


def judge(cluster: Cluster) -> Iterator[Finding]:
    misdirected = [node for node in cluster.nodes if master_is_number(cluster, node)]
    if misdirected:
        yield master_finding(cluster, misdirected)
    named = [node for node in cluster.nodes if node.identity.hostname.isdecimal() and matters(cluster, node)]
    if named and not misdirected:
        yield own_finding(named)


def master_is_number(cluster: Cluster, node: Node) -> bool:
    """Return whether MASTER_ADDR is digits only here, and the address that makes is no node's."""
    network, meeting, master = node.network, node.meeting, node.plan.master_addr
    if master is None or not master.isdecimal() or network.master is None:
        return False
    if network.master_is_own or meeting.joined:
        return False
    owned = {parse_address(address) for other in cluster.nodes for address in other.addresses}
    meant = {parse_address(address) for address in network.master.addresses}
    return not meant & owned and not any(
        number is not None and number.is_unspecified for number in meant
    )  # 0: the host itself


def matters(cluster: Cluster, node: Node) -> bool:
    """Return whether other hosts take part, and gloo looks the name up."""
    gloo = node.host.gloo
    if not node.saw("host") or (gloo and gloo.reason == "variable"):
        return False
    return bool(cluster.peers(node)) or (len(cluster.nodes) == 1 and cluster.multi_host)


def master_finding(cluster: Cluster, misdirected: list[Node]) -> Finding:
    masters = list(dict.fromkeys(str(node.plan.master_addr) for node in misdirected))
    owner = next((n for n in cluster.nodes if n.identity.hostname in masters), cluster.node0)
    address = reachable_address(owner, cluster) if owner else None
    text = "Set the master to node 0's address."
    fixes = (
        set_master_fixes(misdirected, text, address=address)
        if address
        else (Fix.on(misdirected, text, unknown=("--master-addr",)),)
    )
    own = tuple(own_fix(n) for n in cluster.nodes if n.identity.hostname.isdecimal() and matters(cluster, n))
    return Finding.about(
        misdirected,
        f"MASTER_ADDR {together(masters)} has digits only, so it is read as an IPv4 address that no node has.",
        evidence=map(line, misdirected),
        fixes=(*fixes, *own),
    )


def line(node: Node) -> str:
    addresses = node.master_addresses
    source = node.plan.sources.get("master_addr", "default")
    return f"{node.name}: {node.plan.master_addr} (from {source}) resolves to {', '.join(addresses) or 'no address'}"


def own_finding(named: list[Node]) -> Finding:
    return Finding.about(
        named,
        f"The host name of {names_of(named)} has digits only, so it is read as an IPv4 address.",
        severity="warn",
        evidence=map(own_line, named),
        fixes=map(own_fix, named),
        because_of="gloo/loopback-address",
    )


def own_line(node: Node) -> str:
    addresses = node.host.own_name.addresses
    return f"{node.name}: {node.identity.hostname} resolves to {', '.join(addresses) or 'no address'}"


def own_fix(node: Node) -> Fix:
    interface = primary_interface(node)
    text = "Set gloo's interface, so that it does not look the name up."
    if interface is None:
        return Fix.on(node, "Set GLOO_SOCKET_IFNAME to the interface that reaches the other nodes.")
    return Fix.on(node, text, env={"GLOO_SOCKET_IFNAME": interface})
