"""The range of ports for outgoing connections is too narrow.

## What you see
`Cannot assign requested address` (errno 99) or EADDRINUSE without a port of your own, on nodes with many ranks or in
large jobs, after most connections exist. NCCL prints `Call to bind failed: Address already in use`.

## Why it happens
Every listener on a random port, and every outgoing connection, takes a port of net.ipv4.ip_local_port_range. All ranks
of a node share the range, and a closed connection keeps its port for a minute. The range was narrowed for a firewall,
mostly reserved (net.ipv4.ip_local_reserved_ports), or the job has outgrown it.

## Fix
Widen the range and open the same ports in the firewall: `sysctl -w net.ipv4.ip_local_port_range="32768 60999"`.

## Confirm with
`sysctl net.ipv4.ip_local_port_range net.ipv4.ip_local_reserved_ports` shows the range; `ss -s` shows the connections in
use.

## When it is harmless
If the range is enough for this job, but not twice, the finding is a WARN. A restart within a minute may find no free
port.

## See also
host/master-port-ephemeral, mesh/peer-ports-blocked
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
    Line,
    Node,
    errors_with_words,
    names_of,
    planned_rank_count,
    rank_count,
    some_of,
    together,
)

SEVERITY = "fail"
LOG = (
    # NCCL binds to no port of anybody's choice (socket.cc, ncclSocketListen), so that none was free: nccl#1882.
    Line("Call to bind failed", r"NCCL WARN .{0,80}?Call to bind failed ?: Address already in use"),
    # Nor does gloo (transport/tcp/pair.cc and listener.cc).
    Line("] bind: Address already in use", r"gloo/transport/tcp/\w+\.cc:\d+\] bind: Address already in use"),
    Line(  # EADDRINUSE of port 0 means that no port of the range is free (bind(2))
        "ddress already in use",
        r"OSError: \[Errno (?:98|48)\]",
        stack=r"\.bind\(\(?[^()]{0,60}, 0\)",
        told="The host has no free port for a listener of the program",
    ),
)
MATTERS = "a restart within a minute may find no port left"
PREVENTS = "store reached"
LOOKS_AT = ("host.limits",)
USUAL = (32768, 60999)
"""Linux's default."""
WIDER = (USUAL, (USUAL[0], 65535), (10000, 65535), (1024, 65535))
EACH = 3
"""Ports of a rank without any peer: gloo's listener, the store, and one more for the next connection."""
MESSAGES = ("Cannot assign requested address", "EADDRNOTAVAIL")


def judge(cluster: Cluster) -> Iterator[Finding]:
    # A bind() that says so was given an address that this host does not have: that is no matter of ports.
    hit, world = errors_with_words(cluster, MESSAGES, unless="bind"), planned_rank_count(cluster)
    short = [n for n in cluster.nodes if (w := width(n)) is not None and (w < least(n) or n.name in hit)]
    tight = [n for n in cluster.nodes if (w := width(n)) is not None and w < most(n, world)]
    bad = short or tight
    if not bad:
        return
    counts = together(dict.fromkeys(str(width(node)) for node in bad))
    enough = "" if short else ", perhaps too few for this job"
    yield Finding.about(
        bad,
        f"{names_of(bad)} {'has' if len(bad) == 1 else 'have'} only {counts} ports for outgoing connections{enough}.",
        severity="fail" if short else "warn",
        evidence=(line for node in bad for line in (evidence(node, world), *hit.get(node.name, ()))),
        fixes=fixes(bad, world),
    )


def port_range(node: Node) -> tuple[int, int] | None:
    return node.limits.port_range


def width(node: Node) -> int | None:
    """Return how many ports there are that the kernel hands out."""
    known = port_range(node)
    return room(node, *known) if known else None


def room(node: Node, low: int, high: int) -> int:
    """Return how many ports of a range are not reserved."""
    return high - low + 1 - sum(last - first + 1 for first, last in reserved(node, low, high))


def reserved(node: Node, low: int, high: int) -> Iterator[tuple[int, int]]:
    """The parts of a range in net.ipv4.ip_local_reserved_ports, which the kernel keeps in order and apart."""
    for part in node.limits.reserved_ports.split(","):
        first, _, last = part.partition("-")
        if len(part) < 12 and first.isdecimal() and (not last or last.isdecimal()):
            pair = max(low, int(first)), min(high, int(last or first))
            if pair[0] <= pair[1]:
                yield pair


def least(node: Node) -> int:
    """Ports without which the ranks of this node cannot even listen and reach the store."""
    return (EACH + len(node.plan.gloo_group_sizes())) * rank_count(node)


def most(node: Node, world: int) -> int:
    """Ports with which each rank of this node can connect to each other rank, twice over."""
    return 2 * rank_count(node) * (EACH + world + sum(node.plan.gloo_group_sizes()))


def evidence(node: Node, world: int) -> str:
    low, high = port_range(node) or USUAL
    kept = some_of((f"{a}-{b}" if a < b else str(a) for a, b in reserved(node, low, high)), 4)
    but = f", and ip_local_reserved_ports reserves {kept}" if kept else ""
    return (
        f"{node.name}: net.ipv4.ip_local_port_range is {low} to {high}{but}; {rank_count(node)} ranks here need "
        f"{least(node)} at least, and about {most(node, world)} to be safe"
    )


def fixes(bad: list[Node], world: int) -> Iterator[Fix]:
    """Yield the narrowest wider range with enough ports besides the reserved ones, for each node."""
    by_command: dict[tuple[str, ...], list[Node]] = {}
    for node in bad:
        by_command.setdefault(commands(node, world), []).append(node)
    for wider, nodes in by_command.items():
        if wider:
            text = "Widen the range, as root, and open the same ports in the firewall."
        else:
            text = "Reserve fewer ports in net.ipv4.ip_local_reserved_ports, or start fewer ranks there."
        yield Fix.on(nodes, text, commands=wider)


def commands(node: Node, world: int) -> tuple[str, ...]:
    """None where no range has more than there is now, or enough. MASTER_PORT stays out of what the kernel hands out to
    anybody."""
    more = [pair for pair in WIDER if room(node, *pair) > max(width(node) or 0, least(node) - 1)]
    if not more:
        return ()
    low, high = next((pair for pair in more if room(node, *pair) >= most(node, world)), more[-1])
    settings = [f'net.ipv4.ip_local_port_range="{low} {high}"']
    port = node.plan.master_port
    if low <= port <= high and not any(first <= port <= last for first, last in reserved(node, low, high)):
        settings.append(
            f"net.ipv4.ip_local_reserved_ports={','.join(filter(None, (node.limits.reserved_ports, str(port))))}"
        )
    return (f"sysctl -w {' '.join(settings)}",)
