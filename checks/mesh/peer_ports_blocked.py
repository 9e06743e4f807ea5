"""A firewall between the nodes lets MASTER_PORT through and blocks the other ports.

What you see
------------
The store works on every rank, then init_process_group() hangs (2.5 hours with gloo where packets are dropped) or says
`connectFullMesh failed ... Connection refused` on one side; NCCL hangs at its bootstrap.

Why it happens
--------------
gloo and NCCL connect the ranks to each other on random ports. A firewall that opens only MASTER_PORT, or a security
group that does not include itself, blocks these. Where they are accepted and then cut, something else answers in place
of the node: the sidecar of a service mesh, a proxy, a redirect. Where nobody answers even ARP, the switch between the
nodes keeps them apart (isolated ports, a private VLAN, macvlan in private mode), though each reaches node 0.

Ranks of one host meet each other by its loopback interface: a packet filter of its own that does not accept what comes
by it (no `iif lo accept`) keeps these apart, and the job waits for them.

Fix
---
Let the nodes reach each other on all TCP ports. Or narrow net.ipv4.ip_local_port_range and open that range.

When it is harmless
-------------------
gloo connects from the numerically larger address to the smaller only: what is blocked in the other direction does it no
harm, and would to NCCL. The finding is then a warning.

See also
--------
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
        why="an address of the wrong network, which no firewall keeps, shows the same",
        unless=r"remote=\[?(?:127\.|172\.17\.|169\.254|fe80)",
    ),
    Line(
        ("ocketPollConnect", "ocketStartConnect", "Call to connect", "Net : Connect to", "connectFullMesh failed"),
        r"[Cc]onnection refused|No route to host|timed out",
        shows="symptom",
        why="a peer that died, or that never listened, shows the same",
        unless=r"onnect to 127\.",
    ),
    Line(
        "gloo/transport",
        r"connect.{0,200}(?:Connection refused|No route to host|timed out)",
        shows="symptom",
        why="a peer that died, or that never listened, shows the same",
    ),
)
MATTERS = "by luck: gloo does not connect in that direction; NCCL would, and hang"
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
"""What a connection within a host ends with, to a port that it listens on, only where a packet filter is against it."""
SAMPLE = 64
SHOWN = 4
ENOUGH = 128
"""Ports: fewer are no range for the connections of a job."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    graph = link_graph(cluster)
    if graph.deaf:
        yield accepting_nothing(cluster, graph, graph.deaf)
    for star in graph.stars:
        if star.one_way:
            continue
        blamed, unsure = link_culprits(cluster, star)
        how = how_links_fail(star.edges)
        summary = f"Connections from {link_arrows(star.edges)} {how}, though the nodes meet on MASTER_PORT."
        if len(star.edges) > SAMPLE and star.hub is None:
            summary = (
                f"{len(star.edges)} of {len(graph.nodes) * (len(graph.nodes) - 1)} connections between the nodes fail "
                "on random ports, with no node or group common to them."
            )
        finding = link_finding_by_need(cluster, summary, star.edges, blamed, unsure)
        yield with_sample(star.edges, finding if unsure else with_range(finding, blamed))
    shut = [node for node in cluster.nodes if shut_to_itself(node)] if not graph.deaf and not graph.stars else []
    if shut:
        yield Finding.about(
            shut,
            f"The ranks on {names_of(shut)} do not reach each other: what the host sends to itself is dropped.",
            title="A host's packet filter drops what it sends to itself",
            evidence=map(own_port_seen, shut),
            fixes=map(own_port_fix, shut),
        )


def shut_to_itself(node: Node) -> bool:
    """Return whether several ranks of this node meet by ports of its own, and those cannot be reached from it though
    its loopback interface, by which it sends to itself, is up. What is for an address of none of its interfaces
    leaves it."""
    own = node.network.own_port
    if own is not None and node.interfaces and not is_loopback(own.address) and own.address not in node.addresses:
        return False
    asleep = any(one.loopback and not one.up for one in node.interfaces)
    return not (node.plan.one_node or asleep) and rank_count(node) > 1 and own is not None and own.outcome in SHUT


def own_port_seen(node: Node) -> str:
    own = node.network.own_port
    assert own
    return f"{node.name}: from itself, {contact_text(own)}, though it listened there"


def own_port_fix(node: Node) -> Fix:
    own = node.network.own_port
    assert own
    rules = node.network.firewall
    if rules is None or not rules.readable:
        return Fix.on(node, f"On {node.name}, accept what comes by lo (its firewall's rules were not seen).")
    commands = tuple(
        f"nft insert rule {chain.family} {chain.table} {chain.name} {'i' if chain.hook == 'input' else 'o'}if lo accept"
        if chain.tool == "nft"
        else f"{chain.tool} -t {chain.table} -I {chain.name} -{'i' if chain.hook == 'input' else 'o'} lo -j ACCEPT"
        for chain in rules.chains
        if chain.family in ("inet", "ip6" if ":" in own.address else "ip")
    )
    return Fix.on(node, f"On {node.name}, accept what it sends to itself, before all other rules.", commands=commands)


def picked(node: Node) -> tuple[int, int]:
    """The ports of which the kernel gives one to who asks for any; those of Linux where that is not known."""
    return node.limits.port_range or (32768, 60999)


def let_in(node: Node) -> tuple[tuple[int, int], ...]:
    """The ports that the node's own packet filter lets in, where it shuts some of those that the kernel picks."""
    return node.network.firewall.open_ports if node.network.firewall else ()


def usable(node: Node) -> tuple[int, int] | None:
    """The widest range of open ports that has MASTER_PORT not in it; None without any that is wide enough."""
    master, pieces = node.plan.master_port, list[tuple[int, int]]()
    for first, last in let_in(node):
        first = max(first, 1024)
        pieces += [(first, master - 1), (master + 1, last)] if first <= master <= last else [(first, last)]
    widest = max(pieces, key=lambda piece: piece[1] - piece[0], default=(1, 0))
    return widest if widest[1] - widest[0] + 1 >= ENOUGH else None


def range_seen(node: Node) -> str:
    ports = some_of((f"{a}-{b}" if a < b else str(a) for a, b in let_in(node)), 8)
    low, high = picked(node)
    return f"{node.name}: its packet filter lets in TCP ports {ports}; the kernel picks from {low}-{high}"


def range_fixes(nodes: Iterable[Node], option: int) -> Iterator[Fix]:
    for node in nodes:
        if (ports := usable(node)) is not None:
            text = f"Or let {node.name} pick its ports from those that are open (net.ipv4.ip_local_port_range)."
            command = f"sysctl -w net.ipv4.ip_local_port_range='{ports[0]} {ports[1]}'"
            yield Fix.on(node, text, option, commands=(command,))


def with_range(finding: Finding, blamed: Iterable[Node]) -> Finding:
    """The finding, with what is open where a filter opens a range of ports, and how to keep to it."""
    known = [node for node in blamed if let_in(node)]
    more = tuple(range_fixes(known, 2)) if all(usable(node) for node in blamed) else ()
    return replace(finding, evidence=(*finding.evidence, *map(range_seen, known)), fixes=(*finding.fixes, *more))


def with_sample(edges: Iterable[FailingLink], finding: Finding) -> Finding:
    """The finding, with the other ports that are let through where the random one is not: a range of them is open."""
    sampled = [edge for edge in edges if edge.link.passing]
    if not sampled:
        return finding
    lines = []
    for edge in sampled[:SHOWN]:
        ports = together(map(str, edge.link.passing))
        lines.append(
            f"{edge.source.name} to {edge.target.name}: {edge.link.port} gives no answer, and {ports} "
            f"{'does' if len(edge.link.passing) == 1 else 'do'}: a part of the ports is let through"
        )
    names = tuple(dict.fromkeys(name for edge in sampled for name in (edge.source.name, edge.target.name)))
    text = (
        "Or ask which range is open, and let these nodes pick their ports from it (sysctl -w "
        "net.ipv4.ip_local_port_range='FIRST LAST')."
    )
    last = max((fix.option for fix in finding.fixes), default=0) + 1
    return replace(finding, evidence=(*finding.evidence, *lines), fixes=(*finding.fixes, Fix(text, names, last)))


def accepting_nothing(cluster: Cluster, graph: LinkGraph, deaf: tuple[Node, ...]) -> Finding:
    """The finding about nodes on which every other node's connections fail."""
    edges = graph.edges_of(deaf, len(graph.nodes) * len(deaf), outward=False)
    what = "accepts" if len(deaf) == 1 else "accept"
    names = some_of(n.name for n in deaf)
    summary = f"{names} {what} nothing on random ports from any other node."
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
        f"Connections to the ranks on {together(names)} get no answer, though the store was reached.",
        links=links,
        evidence=(
            f"{rank.node.name}: {rank.called} gets no answer from {one.remote} port {one.remote_port}, "
            f"sent {one.retransmits + 1} times"
            for rank, one in tried[:SAMPLE]
        ),
        fixes=(Fix("Let the nodes talk to each other on all ports: gloo and NCCL use any.", names),),
    )
