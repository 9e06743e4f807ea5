"""The kernel's neighbour table has no room for all peers.

## What you see
Some connections between nodes of one network hang or fail with `No buffer space available`, others work. Each time
other connections fail. The kernel log may have `neighbour: arp_cache: neighbor table overflow!`.

## Why it happens
Linux stores the hardware address of each host of its own network that it talks to. The limit is
net.ipv4.neigh.default.gc_thresh3, by default 1,024 entries. All containers of a machine share that table. A large flat
network, or many containers on one machine, exceed it, and the kernel drops packets to further hosts.

## Fix
Raise the three limits well above the number of hosts on the network: `sysctl -w net.ipv4.neigh.default.gc_thresh1=4096
net.ipv4.neigh.default.gc_thresh2=8192 net.ipv4.neigh.default.gc_thresh3=16384`.

## Confirm with
`ip neigh | wc -l; sysctl net.ipv4.neigh.default.gc_thresh3` shows fewer entries than the limit.

## When it is harmless
Never while the job connects its ranks: each of them to every other.

## See also
mesh/peer-ports-blocked, network/duplicate-address, host/conntrack-full
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, Link, Node, Sequence, names_of, parse_address

SEVERITY = "fail"
PREVENTS = "peers connected"
LOG = (Line(("neighbor table overflow", "eighbour table overflow"), "[Nn]eighbou?r table overflow"),)
USUAL = 1024
"""gc_thresh3 where nobody has set it (net/ipv4/arp.c, arp_tbl)."""
LOST = ("no-answer", "unreachable", "error")
SHOWN = 8


def judge(cluster: Cluster) -> Iterator[Finding]:
    full = {node: why for node in cluster.nodes if (why := reason(cluster, node))}
    if not full:
        return
    most = max(room(node) for node in full)
    wanted = 2 * max([most, *(wants(cluster, node) for node in full)])
    version = 6 if any(table.version == 6 for node in full if (table := node.network.neighbour_table)) else 4
    limits = " ".join(
        f"net.ipv{version}.neigh.default.gc_thresh{number}={size}"
        for number, size in ((1, wanted // 4), (2, wanted // 2), (3, wanted))
    )
    links = [(node.name, cluster.by_key[link.to].name) for node in full for link in lost(cluster, node)]
    yield Finding.about(
        full,
        f"The kernel's neighbour table on {names_of(full)} has no room for the hardware addresses of all peers.",
        links=links[: 8 * SHOWN],
        evidence=list(full.values())[:SHOWN],
        fixes=(
            Fix.on(full, "Raise the limits (for containers, on their machine).", commands=(f"sysctl -w {limits}",)),
        ),
    )


def reason(cluster: Cluster, node: Node) -> str:
    """Return what proves it of a node; empty where nothing does."""
    table = node.network.neighbour_table
    answered = {neighbour.address for neighbour in node.network.hardware_addresses}
    known = answered | {address.address for address in node.network.unanswered}
    if table is None and not known:  # nothing was read: what links there are need not be gone through
        return ""
    failing = lost(cluster, node)
    if table is not None and failing:
        return (
            f"{node.name}: the table was full {table.refused} times during the link test, and {len(failing)} links "
            f"failed; net.ipv{table.version}.neigh.default.gc_thresh3 is {table.most}"
        )
    # The kernel's table has no entry for them, neither answered nor failed. A long table was not kept.
    unasked = [link for link in failing if link.address not in known]
    if answered and unasked and (count := wants(cluster, node)) > USUAL:
        return (
            f"{node.name}: {len(unasked)} of its links failed before the kernel asked for the other end's hardware "
            f"address; its machine's nodes need {count} entries (default limit: {USUAL})"
        )
    return ""


def lost(cluster: Cluster, node: Node) -> list[Link]:
    """Return the links to hosts of the own network without any answer."""
    near = own_networks(node)
    return [
        link
        for link in node.mesh.bad
        if link.outcome in LOST and not link.accepted and link.to in cluster.by_key and is_in(near, link.address)
    ]


def own_networks(node: Node) -> Sequence[tuple[int, int, int]]:
    """(version, bits of the network, how many bits of an address are the host's) of each network that the node is in.
    Once for all of its links: they may be half a million."""
    networks_found = []
    for interface in node.interfaces:
        for own, length in zip(interface.addresses, interface.prefix_lengths, strict=False):
            mine = parse_address(own)
            if mine is not None and interface.up and not interface.loopback:
                rest = max(0, mine.max_prefixlen - length)
                networks_found.append((mine.version, int(mine) >> rest, rest))
    return networks_found


def is_in(networks: Sequence[tuple[int, int, int]], address: str) -> bool:
    """Return whether the address is in one of them."""
    number = parse_address(address)
    if number is None:
        return False
    version, bits = number.version, int(number)
    return any(version == number and bits >> rest == network for number, network, rest in networks)


def wants(cluster: Cluster, node: Node) -> int:
    """Return how many entries the nodes on the same machine need in its table, each one for each of its peers."""
    peers = [
        len({peer.host_key for peer in cluster.nodes if peer.host_key != member.host_key})
        for member in machine(cluster, node)
    ]
    return sum(peers)


def machine(cluster: Cluster, node: Node) -> list[Node]:
    """One node of each network namespace on the node's machine."""
    same = [peer for peer in cluster.nodes if peer.identity.boot_id == node.identity.boot_id]
    return list({member.host_key: member for member in same}.values())


def room(node: Node) -> int:
    table = node.network.neighbour_table
    return table.most if table is not None and table.most else USUAL
