"""The loopback interface is down or has no address.

## What you see
Silence: rank 0 waits for its own store, or ranks of one host for each other. Tools print `Network is unreachable` or
`Cannot assign requested address` for 127.0.0.1.

## Why it happens
A network namespace starts with its loopback interface down (`unshare -n`, a sandbox, a container runtime without a
network plugin). All packets of a host to itself use that interface, also packets to its other addresses.

## Fix
Set the interface up, which also gives it its addresses: `ip link set lo up`. If the addresses were removed: `ip address
add 127.0.0.1/8 dev lo`.

## Confirm with
`ip -br address show lo` prints UNKNOWN and 127.0.0.1/8.

## When it is harmless
On a node with one rank that is not node 0: it sends nothing to itself.

## See also
host/hostname-loopback, network/port-not-bindable
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Node, claims_node0, names_of, rank_count

SEVERITY = "fail"
MATTERS = "the node loses all packets that it sends to itself"
PREVENTS = "store hosted"
LOOKS_AT = ("host.interfaces",)
LOOPBACK = ("127.0.0.1", "localhost")


def judge(cluster: Cluster) -> Iterator[Finding]:
    bare = [node for node in cluster.nodes if without_address(node) and needs_loopback(node)]
    if bare:
        commands = ("ip address add 127.0.0.1/8 dev lo",)
        yield Finding.about(
            bare,
            f"The loopback interface of {names_of(bare)} has no address, but its ranks use 127.0.0.1.",
            title="The loopback interface has no address",
            evidence=map(evidence_line, bare),
            fixes=(Fix.on(bare, "Give the interface its address, as root.", commands=commands),),
        )
    bad = [node for node in cluster.nodes if down(node)]
    needed = [node for node in bad if rank_count(node) > 1 or claims_node0(node)]
    blamed = needed or bad
    if blamed:
        yield Finding.about(
            blamed,
            f"The loopback interface of {names_of(blamed)} is down: the node cannot connect to itself.",
            severity="fail" if needed else "warn",
            evidence=map(evidence_line, blamed),
            fixes=(Fix.on(blamed, "Set the interface up, as root.", commands=("ip link set lo up",)),),
        )


def down(node: Node) -> bool:
    """Return whether none of its loopback interfaces is up; where none is seen it is not known."""
    loopbacks = [interface for interface in node.host.interfaces if interface.loopback]
    return bool(loopbacks) and not any(interface.up for interface in loopbacks)


def without_address(node: Node) -> bool:
    """Return whether none of its loopback interfaces has an address of IPv4, and the main one has a name."""
    loopbacks = [interface for interface in node.host.interfaces if interface.loopback or interface.name == "lo"]
    return bool(loopbacks) and not any("." in address for interface in loopbacks for address in interface.addresses)


def needs_loopback(node: Node) -> bool:
    """Return whether the store of this one node is hosted at 127.0.0.1."""
    return node.plan.nnodes == 1 and node.plan.master_addr in LOOPBACK and not down(node)


def evidence_line(node: Node) -> str:
    names = [interface.name for interface in node.host.interfaces if interface.loopback]
    addresses = [address for interface in node.host.interfaces if interface.loopback for address in interface.addresses]
    state = "down" if down(node) else "up"
    return f"{node.name}: {', '.join(names)} is {state} and has {', '.join(addresses) or 'no address'}"
