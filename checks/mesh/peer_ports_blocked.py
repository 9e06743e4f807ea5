"""A firewall accepts MASTER_PORT between the nodes and blocks the other ports.

## What you see
The store works on every rank. Then init_process_group() hangs (2.5 hours with gloo if packets are dropped), or reports
`connectFullMesh failed ... Connection refused` on one side. NCCL hangs at its bootstrap.

## Why it happens
gloo and NCCL connect the ranks to each other on random ports. A firewall that opens only MASTER_PORT, or a security
group that does not include itself, blocks these. If connections are accepted and then cut, another program answers for
the node: the sidecar of a service mesh, a proxy, a redirect. If even ARP gets no answer, the switch isolates the nodes
from each other (isolated ports, a private VLAN, macvlan in private mode).

Ranks of one host reach each other over its loopback interface. A packet filter that does not accept loopback traffic
(no `iif lo accept`) separates them, and the job hangs.

## Fix
Accept all TCP ports between the nodes: `nft insert rule inet filter input ip saddr 10.0.0.0/24 accept`. Or set a
narrow range with `sysctl -w net.ipv4.ip_local_port_range="40000 45000"` and open that range.

## Confirm with
`nft list ruleset` on the target; `nc -zv 10.0.0.11 40000` from another node, while `nc -l 40000` runs
there.

## When it is harmless
gloo connects only from the numerically larger address to the smaller one. A block in the other direction harms NCCL
but not gloo; the finding is then a warning.

## See also
network/port-filtered, mesh/ports-partly-open, mesh/one-way, mesh/node-isolated
"""

from collections.abc import Iterable, Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    FailingLink,
    Finding,
    Fix,
    Line,
    LinkGraph,
    Node,
    contact_text,
    cut_after_accept,
    how_links_fail,
    is_loopback,
    link_arrows,
    link_culprits,
    link_finding_by_need,
    link_graph,
    live,
    names_of,
    rank_count,
    some_of,
    together,
)

SEVERITY = "fail"
LOG = (
    Line(
        "connectFullMesh failed",
        "(?:timed out|No route|unreachable|Connect timeout)",
        shows="symptom",
        why="an address of the wrong network shows the same, without a firewall",
        unless=r"remote=\[?(?:127\.|172\.17\.|169\.254|fe80)",
    ),
    Line(
        ("ocketPollConnect", "ocketStartConnect", "Call to connect", "Net : Connect to", "connectFullMesh failed"),
        r"[Cc]onnection refused|No route to host|timed out",
        shows="symptom",
        why="a peer that died or never listened shows the same",
        unless=r"onnect to 127\.",
    ),
    Line(
        "gloo/transport",
        r"connect.{0,200}(?:Connection refused|No route to host|timed out)",
        shows="symptom",
        why="a peer that died or never listened shows the same",
    ),
)
MATTERS = "gloo does not connect in that direction; NCCL would, and hang"
PREVENTS = "peers connected"
FOLLOWS = (
    "store/node-lost",
    "network/port-*",
    "network/connection-limit",
    "network/overlapping-subnets",
    "network/arp-off",
    "network/duplicate-address",
    "network/neighbour-table-full",
)
SHUT = ("no-answer", "rejected", "refused")
"""Outcomes of a connection within a host, to a port that listens, that only a packet filter causes."""
SAMPLE = 64
SHOWN = 4
ENOUGH = 128
"""Fewer ports than this are no range for the connections of a job."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    if graph.deaf:
        yield accepting_nothing(cluster, graph, graph.deaf)
    for star in graph.stars:
        if star.one_way:
            continue
        blamed, unsure = link_culprits(cluster, star)
        how = how_links_fail(star.edges)
        summary = f"Connections from {link_arrows(star.edges)} {how}, although MASTER_PORT is reached."
        if len(star.edges) > SAMPLE and star.hub is None:
            summary = (
                f"{len(star.edges)} of {len(graph.nodes) * (len(graph.nodes) - 1)} connections between the nodes fail "
                "on random ports; they have no common node or group."
            )
        finding = link_finding_by_need(cluster, summary, star.edges, blamed, unsure)
        yield with_sample(star.edges, finding if unsure else with_range(finding, blamed))
    shut = [node for node in cluster.nodes if shut_to_itself(node)] if not graph.deaf and not graph.stars else []
    if shut:
        yield Finding.about(
            shut,
            f"A packet filter on {names_of(shut)} drops loopback traffic, so the ranks there cannot reach each other.",
            title="A packet filter drops loopback traffic of its host",
            evidence=map(own_port_evidence, shut),
            fixes=map(own_port_fix, shut),
        )


def shut_to_itself(node: Node) -> bool:
    """Return whether the ranks of this node cannot connect to each other although its loopback interface is up.

    An address of none of its interfaces does not count: packets for it leave the node."""
    own = node.network.own_port
    if own is not None and node.interfaces and not is_loopback(own.address) and own.address not in node.addresses:
        return False
    asleep = any(one.loopback and not one.up for one in node.interfaces)
    return not (node.plan.one_node or asleep) and rank_count(node) > 1 and own is not None and own.outcome in SHUT


def own_port_evidence(node: Node) -> str:
    own = node.network.own_port
    assert own
    return f"{node.name}: from itself, {contact_text(own)}, although a process listened there"


def own_port_fix(node: Node) -> Fix:
    own = node.network.own_port
    assert own
    rules = node.network.firewall
    if rules is None or not rules.readable:
        return Fix.on(
            node, f"On {node.name}, accept loopback traffic: `nft insert rule inet filter input iif lo accept`."
        )
    commands = tuple(
        f"nft insert rule {chain.family} {chain.table} {chain.name} {'i' if chain.hook == 'input' else 'o'}if lo accept"
        if chain.tool == "nft"
        else f"{chain.tool} -t {chain.table} -I {chain.name} -{'i' if chain.hook == 'input' else 'o'} lo -j ACCEPT"
        for chain in rules.chains
        if chain.family in ("inet", "ip6" if ":" in own.address else "ip")
    )
    return Fix.on(node, f"On {node.name}, accept loopback traffic before all other rules.", commands=commands)


def picked_range(node: Node) -> tuple[int, int]:
    """Return the range from which the kernel picks ports; Linux's default if it is unknown."""
    return node.limits.port_range or (32768, 60999)


def accepted_ports(node: Node) -> tuple[tuple[int, int], ...]:
    """Return the ports that the node's packet filter accepts, if it blocks some that the kernel picks."""
    return node.network.firewall.open_ports if node.network.firewall else ()


def usable(node: Node) -> tuple[int, int] | None:
    """Return the widest range of open ports without MASTER_PORT; None if none is wide enough."""
    master, pieces = node.plan.master_port, list[tuple[int, int]]()
    for first, last in accepted_ports(node):
        first = max(first, 1024)
        pieces += [(first, master - 1), (master + 1, last)] if first <= master <= last else [(first, last)]
    widest = max(pieces, key=lambda piece: piece[1] - piece[0], default=(1, 0))
    return widest if widest[1] - widest[0] + 1 >= ENOUGH else None


def range_evidence(node: Node) -> str:
    ports = some_of((f"{a}-{b}" if a < b else str(a) for a, b in accepted_ports(node)), 8)
    low, high = picked_range(node)
    return f"{node.name}: its packet filter accepts TCP ports {ports}; the kernel picks from {low}-{high}"


def range_fixes(nodes: Iterable[Node], option: int) -> Iterator[Fix]:
    for node in nodes:
        if (ports := usable(node)) is not None:
            text = f"Or make {node.name} pick its ports from the open range."
            command = f"sysctl -w net.ipv4.ip_local_port_range='{ports[0]} {ports[1]}'"
            yield Fix.on(node, text, option, commands=(command,))


def with_range(finding: Finding, blamed: Iterable[Node]) -> Finding:
    """Return the finding with the range of ports that a filter opens, and the fix that uses it."""
    known = [node for node in blamed if accepted_ports(node)]
    more = tuple(range_fixes(known, 2)) if all(usable(node) for node in blamed) else ()
    return replace(finding, evidence=(*finding.evidence, *map(range_evidence, known)), fixes=(*finding.fixes, *more))


def with_sample(edges: Iterable[FailingLink], finding: Finding) -> Finding:
    """Return the finding with the other ports that pass where the random one fails: a range is open."""
    sampled = [edge for edge in edges if edge.link.passing]
    if not sampled:
        return finding
    lines = []
    for edge in sampled[:SHOWN]:
        ports = together(map(str, edge.link.passing))
        lines.append(
            f"{edge.source.name} to {edge.target.name}: {edge.link.port} does not answer, {ports} "
            f"{'does' if len(edge.link.passing) == 1 else 'do'}: a part of the ports is open"
        )
    names = tuple(dict.fromkeys(name for edge in sampled for name in (edge.source.name, edge.target.name)))
    text = (
        "Or ask the firewall's administrator for the open range, and set it on these nodes: "
        "sysctl -w net.ipv4.ip_local_port_range='FIRST LAST'."
    )
    last = max((fix.option for fix in finding.fixes), default=0) + 1
    return replace(finding, evidence=(*finding.evidence, *lines), fixes=(*finding.fixes, Fix(text, names, last)))


def accepting_nothing(cluster: Cluster, graph: LinkGraph, deaf: tuple[Node, ...]) -> Finding:
    """Return the finding about nodes to which the connections of all other nodes fail."""
    edges = graph.edges_of(deaf, len(graph.nodes) * len(deaf), outward=False)
    verb = "accepts" if len(deaf) == 1 else "accept"
    names = some_of(n.name for n in deaf)
    summary = f"{names} {verb} no connection on random ports from any other node."
    if cut_after_accept(edges):
        summary = f"Connections from all other nodes to {names} {how_links_fail(edges)}."
    return with_sample(edges, with_range(link_finding_by_need(cluster, summary, edges, deaf), deaf))


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    group = job.store.default_group if job.store else None
    owners = {(m.address, m.port): m for m in (group.members if group else ())}
    tried = [
        (rank, one)
        for rank in job.ranks
        for one in live.dialling(rank.process, job.master_ports)
        if one.retransmits and rank.place.kind in (live.places.PEERS, live.places.GROUP, live.places.COLLECTIVE)
    ]
    if not tried:
        return
    hosts = []
    for _, one in tried:
        member = owners.get((one.remote, one.remote_port))
        hosts.append((member.host if member else "") or one.remote)
    names = tuple(dict.fromkeys(hosts))
    links = dict.fromkeys((rank.node.name, host) for (rank, _), host in zip(tried, hosts, strict=True))
    yield Finding.about(
        names,
        f"Connections to the ranks on {together(names)} get no answer, although the store is reached.",
        links=links,
        evidence=(
            f"{rank.node.name}: {rank.called} gets no answer from {one.remote} port {one.remote_port}, "
            f"sent {one.retransmits + 1} times"
            for rank, one in tried[:SAMPLE]
        ),
        fixes=(
            Fix(
                "Accept all TCP ports between the nodes, in their firewalls or security group; gloo and NCCL use "
                "any port.",
                names,
            ),
        ),
    )
