"""Connections between nodes are cut after some bytes.

What you see
------------
The store is reached, small collectives work, and then `Connection reset by peer` or silence in the middle of the first
step, on connections that worked a moment before. The store's own connection may go the same way.

Why it happens
--------------
Something on the way ends connections that have carried a certain amount: a rule of a packet filter (nft's ct bytes,
iptables' connbytes or quota), a firewall that inspects what it carries, a proxy or a NAT gateway. Or it forgets
connections on which nothing was sent for a while (net.netfilter.nf_conntrack_tcp_timeout_established, in seconds), and
drops what belongs to none that it knows.

Fix
---
Let the connections between the nodes through without such a limit, before the rule that has it; or let them be idle for
longer than any step of the job takes.

When it is harmless
-------------------
Never for a job that exchanges tensors.

See also
--------
mesh/mtu-blackhole, mesh/peer-ports-blocked, store/node-lost
"""

import re
from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    FailingLink,
    Finding,
    Fix,
    Node,
    blamed_for_links,
    failed_ranks,
    link_arrows,
    link_graph,
    node0_name,
    open_firewall_fix,
    own_addresses_filtered,
    parse_address,
    rank_errors_text,
    source_addresses,
    together,
)

SEVERITY = "fail"
PREVENTS = "store used"
FOLLOWS = ("network/duplicate-address",)
LOOKS_AT = ("mesh",)
BY_AMOUNT = re.compile(r"\bct (?:bytes|packets|avgpkt)\b|connbytes|quota")
ADDRESS = re.compile(r"([0-9a-fA-F:.]{2,})(?:/(\d{1,3}))?")
"""What may be an address or a network in a rule."""
AMOUNT = re.compile(r"(?:\bct (?:bytes|packets) >=? |--connbytes )(\d{1,20})")
MOST = 1 << 30
"""More bytes, or packets, than a check sends."""
IDLE = "net.netfilter.nf_conntrack_tcp_timeout_established"
IDLE_SECONDS = 60
"""What is forgotten later is not forgotten while a check waits."""
AT_WORK = ("gloo", "barrier", "collective")
SILENT = re.compile(r"(?i)did not return|another rank failed|timed? ?out|reset by peer|closed by")
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    ruled_out = list(by_own_rule(cluster))
    yield from (used_up(cluster, node, its) for node, its in ruled_out)
    if not ruled_out and cluster.node0 is not None and (its := unheard(cluster, cluster.node0)):
        yield used_up(cluster, cluster.node0, its, unsure=True)
    failed = silent_ranks(cluster)
    yield from (at_work(cluster, node, its, failed) for node, its in among_ranks(cluster, failed))
    yield from (forgotten(node, seconds, failed) for node, seconds in forgetful(cluster, failed))
    for common, edges, unsure in blamed_for_links(cluster, cut(cluster), all_pairs=True):
        ends = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
        ruled = tuple(node for node in ends if rules(node))
        yield finding(cluster, edges, ruled or common, unsure and not ruled)
    for node in cluster.nodes:
        if node.meeting.host_lost and (dead := dead_to_unmet(cluster, node)):
            yield seen_alone(node, dead)
        elif node.meeting.store_there and unknown_to_store(cluster, node):
            yield cut_from_store(cluster, node)


def dead_to_unmet(cluster: Cluster, node: Node) -> dict[str, int]:
    """The bytes after which this node's links were dead, by the names of the nodes whose facts are not here."""
    unmet = {one.to.partition(" ")[0]: one.dead_after for one in node.mesh.bad if one.to not in cluster.by_key}
    return {name: after for name, after in unmet.items() if after is not None}


def cut(cluster: Cluster) -> list[FailingLink]:
    """The links that were cut, those also to a node that went out of sight before it could tell of its own."""
    found = list(link_graph(cluster).cut)
    gone = {key: node for key, node in cluster.by_key.items() if not node.saw("mesh")}
    for node in cluster.nodes if gone else ():
        for link in node.mesh.bad:
            if link.dead_after is not None and link.to in gone:
                found.append(FailingLink(node, gone[link.to], link))
    return found


def rules(node: Node) -> tuple[str, ...]:
    """The rules of this node's packet filter that drop by how much a connection has carried."""
    return tuple(rule for chain in node.filter_chains for rule in chain.blocking_rules if BY_AMOUNT.search(rule))


def by_own_rule(cluster: Cluster) -> Iterator[tuple[Node, list[tuple[Node, str]]]]:
    """The nodes that lost others out of sight, or were lost, with a rule that drops by the amount what these send; each
    with (whom, rule). Only where no link was seen to be cut: that tells more."""
    zero = cluster.node0
    if zero is None or cut(cluster):
        return
    apart = [node for node in lost_by(cluster, zero) if node.meeting.host_lost]
    for node in (zero, *apart):
        others = apart if node is zero else [zero]
        if its := [(other, rule) for other in others for rule in rules(node) if means(rule, other)]:
            yield node, its


def unheard(cluster: Cluster, zero: Node) -> list[tuple[Node, str]]:
    """The same of node 0 and those that it lost and that did not say that they lost it: they may as well have ended."""
    if cut(cluster):
        return []
    gone = [node for node in lost_by(cluster, zero) if not node.meeting.host_lost]
    return [(other, rule) for other in gone for rule in rules(zero) if means(rule, other) and within_reach(rule)]


def lost_by(cluster: Cluster, zero: Node) -> list[Node]:
    return [cluster.by_key[key] for key in zero.meeting.lost if cluster.by_key.get(key, zero) is not zero]


def within_reach(rule: str) -> bool:
    """Return whether a check may send as much as the rule lets through."""
    return not any(int(amount) > MOST for amount in AMOUNT.findall(rule))


def silent_ranks(cluster: Cluster) -> list[FailedRank]:
    """The ranks that no longer heard of others, where the links carried all that was measured, and no more is said."""
    failed = [one for stage in AT_WORK for one in failed_ranks(cluster, stage)]
    silent = bool(failed) and all(SILENT.search(one.stage.error or "") for one in failed)
    links_good = not cut(cluster) and not any(node.mesh.bad for node in cluster.nodes)
    return failed if silent and links_good and cluster.multi_host else []


def among_ranks(cluster: Cluster, failed: list[FailedRank]) -> Iterator[tuple[Node, list[str]]]:
    """The nodes with a rule that drops by the amount what ranks of others send or are sent; each with its rules."""
    for node in cluster.nodes if failed else ():
        others = [peer for peer in cluster.peers(node) if peer.host_key != node.host_key]
        if its := [rule for rule in rules(node) if any(means(rule, other) for other in others) and within_reach(rule)]:
            yield node, its


def forgetful(cluster: Cluster, failed: list[FailedRank]) -> Iterator[tuple[Node, int]]:
    """The nodes whose packet filter forgot connections meanwhile, and shuts out what belongs to none; each with the
    seconds after which it does."""
    longest = max((one.stage.seconds or 0.0 for one in failed), default=0.0)
    for node in cluster.nodes if failed else ():
        seconds = node.host.sysctls.get(IDLE, "")
        shuts = any(chain.policy != "accept" or chain.blocking_rules for chain in node.filter_chains)
        if shuts and seconds.isdecimal() and int(seconds) < min(longest, IDLE_SECONDS):
            yield node, int(seconds)


def forgotten(node: Node, seconds: int, failed: list[FailedRank]) -> Finding:
    """The finding about such a node."""
    return Finding.about(
        (node.name,),
        f"{node.name} forgets connections on which nothing was sent for {seconds} s, its packet filter lets in what it "
        "knows, and ranks no longer heard of each other.",
        title="Connections between nodes are forgotten while nothing is sent",
        ranks=(),
        evidence=(f"{node.name}: {IDLE} is {seconds}", *rank_errors_text(failed)),
        fixes=(
            Fix.on(
                node,
                f"On {node.name}, let connections be idle for longer; 432000 s is Linux's own value.",
                commands=(f"sysctl -w {IDLE}=432000",),
            ),
        ),
    )


def at_work(cluster: Cluster, node: Node, its: list[str], failed: list[FailedRank]) -> Finding:
    """The finding about a rule by whose amount ranks no longer heard of each other."""
    return Finding.about(
        (node.name,),
        "The links between the nodes carried all that was measured, and then ranks no longer heard of each other; a "
        f"rule of {node.name} drops by how much was sent.",
        ranks=(),
        links=((peer.name, node.name) for peer in cluster.peers(node)[:SHOWN]),
        evidence=(*rank_errors_text(failed), *(f"{node.name}: {rule}" for rule in its)),
        fixes=(fix(cluster, node, 1),),
    )


def means(rule: str, other: Node) -> bool:
    """Return whether the rule is about packets from or to this node: it names no network, or one with an address of
    it."""
    named = [network for network in ADDRESS.findall(rule) if parse_address(network[0]) is not None]
    return not named or any(holds(address, length, own) for address, length in named for own in other.addresses)


def holds(address: str, length: str, own: str) -> bool:
    """Return whether the network ``address``/``length`` (empty: that address alone) has ``own`` in it."""
    network, mine = parse_address(address), parse_address(own)
    if network is None or mine is None or network.version != mine.version:
        return False
    rest = max(0, network.max_prefixlen - int(length or network.max_prefixlen))
    return int(network) >> rest == int(mine) >> rest


def used_up(cluster: Cluster, node: Node, its: list[tuple[Node, str]], unsure: bool = False) -> Finding:
    """The finding about a rule by whose amount nodes lost sight of each other; ``unsure`` whether both did."""
    others = list(dict.fromkeys(other for other, _ in its))
    names = together(other.name for other in others)
    what = f"{node.name} no longer heard of {names}" if unsure else f"{node.name} and {names} lost sight of each other"
    return Finding.about(
        (node, *others) if unsure else (node,),
        f"{what} in the middle of the check, and a rule of {node.name} drops by how much was sent.",
        ranks=(),
        links=((other.name, node.name) for other in others),
        unsure=unsure,
        evidence=dict.fromkeys(f"{node.name}: {rule}" for _, rule in its),
        fixes=(fix(cluster, node, 1),),
    )


def finding(cluster: Cluster, edges: list[FailingLink], nodes: tuple[Node, ...], unsure: bool) -> Finding:
    most = max(edge.link.dead_after or 0 for edge in edges)
    return Finding.about(
        nodes,
        f"Connections from {link_arrows(edges)} work at first, and are dead after at most {most} bytes.",
        ranks=(),
        links=((edge.source.name, edge.target.name) for edge in edges[:MAX_LINKS]),
        unsure=unsure,
        evidence=(*map(line, edges[:SHOWN]), *(f"{node.name}: {rule}" for node in nodes for rule in rules(node))),
        fixes=(fix(cluster, node, n if unsure else 1) for n, node in enumerate(nodes[:MAX_LINKS], start=1)),
    )


def line(edge: FailingLink) -> str:
    how = "was reset" if edge.link.outcome == "reset" else "carried nothing more"
    return f"{edge.source.name} to {edge.target.name}: {edge.link.address}: {how} after {edge.link.dead_after} bytes"


def fix(cluster: Cluster, node: Node, option: int) -> Fix:
    if rules(node):
        peers = [address for peer in cluster.peers(node)[:MAX_LINKS] for address in source_addresses(cluster, peer)]
        peers = peers or [*node.master_addresses]
        return open_firewall_fix(
            node, node.name, "input", [*peers, *own_addresses_filtered(cluster, node)], None, option
        )
    text = f"Find what ends connections between {node.name} and the others: a firewall that inspects, a proxy, NAT."
    return Fix.on(node, text, option)


def unknown_to_store(cluster: Cluster, node: Node) -> bool:
    """Return whether node 0 did not hear from the node, or its facts are not here: what it heard, and then lost, it
    tells."""
    zero = cluster.node0
    return zero is None or (zero.meeting.ended and not {*node.keys} & {*zero.meeting.arrived})


def cut_from_store(cluster: Cluster, node: Node) -> Finding:
    """Return what a node says whose connection to node 0's store was cut, and which knows no more than its own
    rules."""
    zero = node0_name(cluster, node)
    both, its = (node.name, zero), rules(node)
    text = f"Find what ends connections between {together(both)}: a packet filter, a proxy, NAT."
    return Finding.about(
        (node.name,) if its else both,
        f"The connection from {node.name} to the store of {zero} was cut in the middle of the check.",
        links=((node.name, zero),),
        unsure=not its,
        evidence=(
            f"{node.name}: the store of {zero} went away before the report; a new connection gets to it",
            *(f"{node.name}: {rule}" for rule in its),
        ),
        fixes=(fix(cluster, node, 1) if its else Fix(text, both),),
    )


def seen_alone(node: Node, dead: dict[str, int]) -> Finding:
    """Return what a node says that lost the others, whose facts are not here."""
    both = (node.name, *dead)
    return Finding.about(
        both,
        f"Connections from {node.name} to {together(dead)} work at first, and are dead after at most "
        f"{max(dead.values())} bytes.",
        links=((node.name, other) for other in dead),
        unsure=True,
        evidence=(
            *(f"{node.name} to {other}: dead after {after} bytes" for other, after in list(dead.items())[:SHOWN]),
            *(f"{node.name}: {rule}" for rule in rules(node)),
        ),
        fixes=(Fix(f"Look at the packet filters of {together(both)}, and at what is between them.", both),),
    )
