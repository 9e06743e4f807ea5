"""A device between nodes cuts connections after some bytes.

## What you see
The store is reached and small collectives work. Then `Connection reset by peer` or silence in the middle of the first
step, on connections that worked before. The connection to the store may be cut in the same way.

## Why it happens
A rule ends connections that have carried a certain amount (nft's ct bytes, iptables' connbytes or quota). An
inspecting firewall, a proxy or a NAT gateway can do the same. Or a firewall forgets idle connections
(net.netfilter.nf_conntrack_tcp_timeout_established, in seconds), and drops packets of unknown connections.

## Fix
Accept the other nodes before the rule with the limit: `nft insert rule inet filter input ip saddr 10.0.0.0/24 accept`.
Or raise the idle timeout: `sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=432000`.

## Confirm with
`nft list ruleset | grep -E "ct bytes|quota"` and
`sysctl net.netfilter.nf_conntrack_tcp_timeout_established` on every node.

## When it is harmless
Never for a job that exchanges tensors.

## See also
mesh/mtu-blackhole, mesh/peer-ports-blocked, store/node-lost
"""

import re
from collections.abc import Iterable, Iterator

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
"""An address or a network in a rule."""
AMOUNT = re.compile(r"(?:\bct (?:bytes|packets) >=? |--connbytes )(\d{1,20})")
MOST = 1 << 30
"""More bytes, or packets, than a check sends."""
IDLE = "net.netfilter.nf_conntrack_tcp_timeout_established"
IDLE_SECONDS = 60
"""A longer timeout does not end while a check waits."""
AT_WORK = ("gloo", "barrier", "collective")
SILENT = re.compile(r"(?i)did not return|another rank failed|timed? ?out|reset by peer|closed by")
SHOWN = 8
MAX_LINKS = 64


def judge(cluster: Cluster) -> Iterator[Finding]:
    ruled_out = list(by_own_rule(cluster))
    yield from (used_up(cluster, node, its) for node, its in ruled_out)
    if not ruled_out and cluster.node0 is not None and (its := lost_without_report(cluster, cluster.node0)):
        yield used_up(cluster, cluster.node0, its, unsure=True)
    failed = silent_ranks(cluster)
    yield from (amount_rule_finding(cluster, node, its, failed) for node, its in among_ranks(cluster, failed))
    yield from (idle_timeout_finding(node, seconds, failed) for node, seconds in idle_timeouts(cluster, failed))
    for common, edges, unsure in blamed_for_links(cluster, cut(cluster), all_pairs=True):
        ends = dict.fromkeys(node for edge in edges for node in (edge.source, edge.target))
        ruled = tuple(node for node in ends if rules(node))
        yield finding(cluster, edges, ruled or common, unsure and not ruled)
    for node in cluster.nodes:
        if node.meeting.host_lost and (dead := dead_links_to_absent(cluster, node)):
            yield lost_others_finding(node, dead)
        elif node.meeting.store_there and unknown_to_store(cluster, node):
            yield cut_from_store(cluster, node, "a new connection reaches it")
        elif node.meeting.store_unanswered and cluster.node0 is None and filters_store(node):
            yield cut_from_store(cluster, node, "a new connection got no answer")


def dead_links_to_absent(cluster: Cluster, node: Node) -> dict[str, int]:
    """Return the bytes after which this node's links were dead, by the names of the nodes without facts."""
    absent = {one.to.partition(" ")[0]: one.dead_after for one in node.mesh.bad if one.to not in cluster.by_key}
    return {name: after for name, after in absent.items() if after is not None}


def cut(cluster: Cluster) -> list[FailingLink]:
    """Return the links that were cut, including those to a node that was lost before it reported its own."""
    links = list(link_graph(cluster).cut)
    gone = {key: node for key, node in cluster.by_key.items() if not node.saw("mesh")}
    for node in cluster.nodes if gone else ():
        for link in node.mesh.bad:
            if link.dead_after is not None and link.to in gone:
                links.append(FailingLink(node, gone[link.to], link))
    return links


def rules(node: Node) -> tuple[str, ...]:
    """Return the rules of this node's packet filter that drop by the amount that a connection has carried."""
    return tuple(rule for chain in node.filter_chains for rule in chain.blocking_rules if BY_AMOUNT.search(rule))


def by_own_rule(cluster: Cluster) -> Iterator[tuple[Node, list[tuple[Node, str]]]]:
    """Yield the nodes that lost others, or were lost, and have a rule that drops packets of these by amount; each with
    (other node, rule). Nothing if a cut link was measured, which is better evidence."""
    zero = cluster.node0
    if zero is None or cut(cluster):
        return
    separated = [node for node in lost_by(cluster, zero) if node.meeting.host_lost]
    for node in (zero, *separated):
        others = separated if node is zero else [zero]
        if its := [(other, rule) for other in others for rule in rules(node) if concerns(rule, other.addresses)]:
            yield node, its


def lost_without_report(cluster: Cluster, zero: Node) -> list[tuple[Node, str]]:
    """Return the same for node 0 and the nodes that it lost and that did not report it: they may have ended."""
    if cut(cluster):
        return []
    gone = [node for node in lost_by(cluster, zero) if not node.meeting.host_lost]
    return [
        (other, rule)
        for other in gone
        for rule in rules(zero)
        if concerns(rule, other.addresses) and within_reach(rule)
    ]


def lost_by(cluster: Cluster, zero: Node) -> list[Node]:
    return [cluster.by_key[key] for key in zero.meeting.lost if cluster.by_key.get(key, zero) is not zero]


def within_reach(rule: str) -> bool:
    """Return whether a check may send as much as the rule accepts."""
    return not any(int(amount) > MOST for amount in AMOUNT.findall(rule))


def silent_ranks(cluster: Cluster) -> list[FailedRank]:
    """Return the ranks that stopped receiving while all measured links were good, if they all report just that."""
    failed = [one for stage in AT_WORK for one in failed_ranks(cluster, stage)]
    silent = bool(failed) and all(SILENT.search(one.stage.error or "") for one in failed)
    links_good = not cut(cluster) and not any(node.mesh.bad for node in cluster.nodes)
    return failed if silent and links_good and cluster.multi_host else []


def among_ranks(cluster: Cluster, failed: list[FailedRank]) -> Iterator[tuple[Node, list[str]]]:
    """Yield the nodes with rules that drop the traffic of other nodes' ranks by amount; each with its rules."""
    for node in cluster.nodes if failed else ():
        others = [peer for peer in cluster.peers(node) if peer.host_key != node.host_key]
        if its := [
            rule
            for rule in rules(node)
            if any(concerns(rule, other.addresses) for other in others) and within_reach(rule)
        ]:
            yield node, its


def idle_timeouts(cluster: Cluster, failed: list[FailedRank]) -> Iterator[tuple[Node, int]]:
    """Yield the nodes whose packet filter forgot idle connections meanwhile and drops unknown ones; each with its
    timeout in seconds."""
    longest = max((one.stage.seconds or 0.0 for one in failed), default=0.0)
    for node in cluster.nodes if failed else ():
        seconds = node.host.sysctls.get(IDLE, "")
        shuts = any(chain.policy != "accept" or chain.blocking_rules for chain in node.filter_chains)
        if shuts and seconds.isdecimal() and int(seconds) < min(longest, IDLE_SECONDS):
            yield node, int(seconds)


def idle_timeout_finding(node: Node, seconds: int, failed: list[FailedRank]) -> Finding:
    """Return the finding about a node that forgets idle connections."""
    return Finding.about(
        (node.name,),
        f"{node.name} forgets connections after {seconds} s without data and drops them, and ranks stopped receiving.",
        title="A firewall forgets idle connections between nodes",
        ranks=(),
        evidence=(f"{node.name}: {IDLE} is {seconds}", *rank_errors_text(failed)),
        fixes=(
            Fix.on(
                node,
                f"On {node.name}, raise the idle timeout of connections to Linux's default, 432000 s.",
                commands=(f"sysctl -w {IDLE}=432000",),
            ),
        ),
    )


def amount_rule_finding(cluster: Cluster, node: Node, its: list[str], failed: list[FailedRank]) -> Finding:
    """Return the finding about a rule with an amount, after which ranks stopped receiving."""
    return Finding.about(
        (node.name,),
        f"A rule of {node.name} drops connections by the amount sent; the measured links were good, then ranks stopped "
        "receiving.",
        ranks=(),
        links=((peer.name, node.name) for peer in cluster.peers(node)[:SHOWN]),
        evidence=(*rank_errors_text(failed), *(f"{node.name}: {rule}" for rule in its)),
        fixes=(fix(cluster, node, 1),),
    )


def concerns(rule: str, addresses: Iterable[str]) -> bool:
    """Return whether the rule concerns packets of these addresses: it names no network, or one of one of them."""
    named = [network for network in ADDRESS.findall(rule) if parse_address(network[0]) is not None]
    return not named or any(contains(network, length, own) for network, length in named for own in addresses)


def contains(address: str, length: str, own: str) -> bool:
    """Return whether the network ``address``/``length`` (empty: that address alone) contains ``own``."""
    network, mine = parse_address(address), parse_address(own)
    if network is None or mine is None or network.version != mine.version:
        return False
    rest = max(0, network.max_prefixlen - int(length or network.max_prefixlen))
    return int(network) >> rest == int(mine) >> rest


def used_up(cluster: Cluster, node: Node, its: list[tuple[Node, str]], unsure: bool = False) -> Finding:
    """Return the finding about a rule with an amount, by which nodes lost each other; ``unsure``: by one report."""
    others = list(dict.fromkeys(other for other, _ in its))
    names = together(other.name for other in others)
    loss = f"{node.name} stopped receiving from {names}" if unsure else f"{node.name} and {names} lost their connection"
    return Finding.about(
        (node, *others) if unsure else (node,),
        f"{loss} in the middle of the check; a rule of {node.name} drops connections by the amount sent.",
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
        f"Connections from {link_arrows(edges)} stop after at most {most} bytes.",
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
    text = (
        f"Remove the amount or time limit on connections of {node.name}: in a firewall, proxy or NAT gateway in "
        "between. "
        "Confirm with: `nft list ruleset`, `iptables-save`."
    )
    return Fix.on(node, text, option)


def unknown_to_store(cluster: Cluster, node: Node) -> bool:
    """Return whether node 0 never received the node, or has no facts; otherwise node 0 reports the loss itself."""
    zero = cluster.node0
    return zero is None or (zero.meeting.ended and not {*node.keys} & {*zero.meeting.arrived})


def filters_store(node: Node) -> bool:
    """Return whether a rule of this node drops packets of node 0's addresses by amount."""
    hosts = {*node.master_addresses}
    return any(concerns(rule, hosts) and within_reach(rule) for rule in rules(node))


def cut_from_store(cluster: Cluster, node: Node, now: str) -> Finding:
    """Return the finding of a node whose connection to node 0's store was cut, by its own facts alone."""
    zero = node0_name(cluster, node)
    both, own_rules = (node.name, zero), rules(node)
    text = (
        f"Remove the limit on connections between {together(both)}: in a packet filter, proxy or NAT gateway. "
        "Confirm with: `nft list ruleset`, `iptables-save`."
    )
    return Finding.about(
        (node.name,) if own_rules else both,
        f"The connection from {node.name} to the store of {zero} was cut in the middle of the check.",
        links=((node.name, zero),),
        unsure=not own_rules,
        evidence=(
            f"{node.name}: the store of {zero} closed before the report; {now}",
            *(f"{node.name}: {rule}" for rule in own_rules),
        ),
        fixes=(fix(cluster, node, 1) if own_rules else Fix(text, both),),
    )


def lost_others_finding(node: Node, dead: dict[str, int]) -> Finding:
    """Return the finding of a node that lost the others, which have no facts."""
    both = (node.name, *dead)
    return Finding.about(
        both,
        f"Connections from {node.name} to {together(dead)} stop after at most {max(dead.values())} bytes.",
        links=((node.name, other) for other in dead),
        unsure=True,
        evidence=(
            *(f"{node.name} to {other}: dead after {after} bytes" for other, after in list(dead.items())[:SHOWN]),
            *(f"{node.name}: {rule}" for rule in rules(node)),
        ),
        fixes=(
            Fix(
                f"Remove the limit on connections between {together(both)}: in a packet filter, proxy or NAT gateway. "
                "Confirm with: `nft list ruleset`, `iptables-save`.",
                both,
            ),
        ),
    )
