"""Nodes that do not reach an existing store: findings shared by the checks network/port-*."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from distdoctor.check_api.firewall import Suspect, filter_evidence, forwarding_rules, redirects, suspect
from distdoctor.check_api.fixes import end_leftover_fix, open_firewall_fix, other_master_port_fixes, set_master_fixes
from distdoctor.check_api.master import (
    FailedContact,
    contacted_another_host,
    contacted_itself,
    failed_contacts,
    grouped_by_address,
    master_address_owner,
    owner_name,
    route_obstacles,
    store_host_tried,
    tried_host,
)
from distdoctor.check_api.nodes import (
    claims_node0,
    missing_node_ranks,
    missing_ranks,
    node0_name,
    reachable_address,
    store_host,
)
from distdoctor.check_api.route_findings import (
    TITLE,
    odd_source,
    repair_route_fix,
    route_obstacle_evidence,
    route_obstacle_reason,
)
from distdoctor.check_api.routes import RouteObstacle, asymmetric_route, bypassed_interface, lookup, networks
from distdoctor.check_api.text import links_to, names_of, port_holder_evidence, together
from distdoctor.knowledge.network import contact_text
from distdoctor.model.addresses import in_network, parse_address
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import ShutPort
from distdoctor.model.findings import Finding, Fix

FORWARDED = "A rule of node 0 forwards MASTER_PORT to another host or port"
WITHOUT_PROXY = (
    "Start the job after the proxy (istio: holdApplicationUntilProxyStarts), or without it (the annotation "
    'sidecar.istio.io/inject: "false"; without a mesh: delete the rule).'
)
PUBLISHED = "a container publishes the port (docker ps --filter publish={}), or did before it was killed"
SENT_ELSEWHERE = "A rule of a node redirects its packets for MASTER_PORT to another host or port"
NODE_0_AND_CHECK = (
    "the log of node 0, which may have ended first, and the result of distdoctor check, run on each node",
    "distdoctor check --nnodes NNODES --master-addr HOST --master-port PORT --save FACTS",
)
"""Next evidence for an unreached store, whether nobody listens there or no packet arrives."""


def master_port_findings(
    cluster: Cluster, outcomes: Collection[str], meaning: str, at_once: Callable[[FailedContact], bool], how: str = ""
) -> Iterator[Finding]:
    """Yield the finding about the nodes whose last contact ended in one of ``outcomes``.

    ``meaning`` describes such an outcome (``PORT ... ``); ``at_once`` is True if one of them alone proves it, without
    node 0's own report that it hosts the store. An unproven one is a consequence of incomplete joining. ``how``
    (``ShutPort.how``): the kind of filter rule that has this effect, for a node 0 that knows of no other node.
    """
    shut = failed_contacts(cluster, outcomes)
    mirrored = [attempt for attempt in shut if contacted_itself(attempt)]
    if mirrored:
        yield _unproven(cluster, mirrored, meaning)
    shut = [attempt for attempt in shut if attempt not in mirrored]
    obstacles = route_obstacles(cluster, shut)
    if obstacles:
        yield misrouted_finding(cluster, [attempt for attempt in shut if attempt.node in obstacles], obstacles)
    shutting = shuts_itself(cluster, how, outcomes)
    for group in grouped_by_address([attempt for attempt in shut if attempt.node not in obstacles]):
        if contacted_another_host(cluster, group):
            yield _misaimed(cluster, group, meaning)
            continue
        zero, owner = store_host_tried(cluster, group), master_address_owner(cluster, group)
        if zero is None and shutting is not None and shutting is owner:
            zero = shutting  # it started after they gave up: its rule would have blocked them, too
        proven = (
            group
            if zero is not None
            else [attempt for attempt in group if at_once(attempt) or _is_redirected(attempt, owner)]
        )
        if proven:
            yield _blocked(cluster, proven, zero or owner, meaning)
        # A node with an invalid plan has tried once, without waiting.
        rest = [attempt for attempt in group if attempt not in proven and not attempt.node.plan.broken]
        if rest:
            yield _unproven(cluster, rest, meaning)
    if shutting is not None and not shut and not mirrored:
        yield own_filter_finding(cluster, shutting)


def _is_redirected(attempt: FailedContact, zero: Node | None) -> bool:
    """Return whether the node's own rules redirected its connection to another host than node 0.

    Without that host's facts, only for an address in the node's own network: a rule for another may be the right way to
    node 0, as those of a service are.
    """
    near = any(in_network(own, length, attempt.contact.address) for _, own, length in networks(attempt.node))
    return (zero is not None or near) and redirects(attempt.node, attempt.contact.port, zero)


def _proxied(attempt: FailedContact) -> tuple[str, ...]:
    """Return the rules that redirect all of the node's packets to a local proxy, if that refused.

    A running proxy accepts every connection. The rules may be for other users, which node 0 shows if it hosted its
    store meanwhile.
    """
    rules = attempt.node.network.firewall
    return rules.proxied if rules is not None and attempt.contact.outcome == "refused" else ()


def misrouted_finding(cluster: Cluster, shut: list[FailedContact], obstacles: Mapping[Node, RouteObstacle]) -> Finding:
    """Return the finding about nodes that a route, a netmask or a reverse path filter keeps from node 0."""
    name = owner_name(cluster, shut)
    its = list(dict.fromkeys(obstacles.values()))
    clients = [attempt.node for attempt in shut]
    at, why = shut[0].contact.address, route_obstacle_reason(its[0])
    return Finding.about(
        dict.fromkeys(block.node for block in its),
        f"{names_of(clients)} cannot reach {name} ({at}): {why}.",
        title=TITLE,
        ranks=(),
        links=links_to(clients, name),
        evidence=(*map(_line, shut), *map(route_obstacle_evidence, its)),
        fixes=(repair_route_fix(cluster, block) for block in its),
    )


def _unproven(cluster: Cluster, shut: list[FailedContact], meaning: str) -> Finding:
    name = node0_name(cluster, shut[0].node)
    itself = contacted_itself(shut[0])
    names = tuple(attempt.node.name for attempt in shut) if itself else (name,)
    return Finding.about(
        names,
        _summary(shut, _itself(shut) if itself else name, meaning),
        links=() if itself else links_to((attempt.node for attempt in shut), name),
        evidence=(*map(_line, shut), *(text for attempt in shut for text in _own_obstacles(attempt))),
        fixes=[Fix.on(names, what_to_start(cluster, shut, name))],
        because_of="all met",
    )


def _misaimed(cluster: Cluster, shut: list[FailedContact], meaning: str) -> Finding:
    """Return the finding about nodes that look for the store on another host than the one that has it."""
    zero = store_host(cluster)
    assert zero is not None
    clients = [attempt.node for attempt in shut]
    return Finding.about(
        clients,
        _summary(shut, tried_host(cluster, shut), meaning),
        evidence=(*map(_line, shut), f"{zero.name} hosts the store, at {zero.plan.master_addr}"),
        fixes=set_master_fixes(
            clients, f"Set the master to {zero.name}, which hosts the store.", address=zero.plan.master_addr
        ),
        because_of="plan agreed",
    )


def _itself(shut: list[FailedContact]) -> str:
    return "its own address" if len(shut) == 1 else "their own addresses"


def what_to_start(cluster: Cluster, shut: list[FailedContact], name: str) -> str:
    """Return what to start: node 0, or the time or place to start it, if its facts show that it was started."""
    if contacted_itself(shut[0]) and not shut[0].node.plan.agent_store:  # with it node 0 only connects, too
        return f"Set MASTER_ADDR on every node to an address of node 0 that {shut[0].node.name} does not have."
    zero = master_address_owner(cluster, shut)
    port = shut[0].contact.port
    if zero is None:
        return f"Start node 0 ({name}) with the same MASTER_PORT as the others."
    if store_host(cluster) is zero and zero.plan.master_port != port:
        port_of_zero = zero.plan.master_port
        return f"Use the same MASTER_PORT on all nodes: {name} hosts its store on {port_of_zero}, not {port}."
    if store_host(cluster) is zero:
        return f"Start all nodes within --wait of each other: {name} ran, but not while the others looked for it."
    return f"Fix the failure that kept {name} from hosting the store, then start all nodes within --wait of each other."


def _blocked(cluster: Cluster, shut: list[FailedContact], zero: Node | None, meaning: str) -> Finding:
    """Return the finding about a filter or redirection of node 0, of its clients, or of a router between them."""
    clients, port = [attempt.node for attempt in shut], shut[0].contact.port
    name = zero.name if zero else node0_name(cluster, clients[0])
    sides = {_side(attempt, zero) for attempt in shut}
    routers = () if sides in ({"to"}, {"from"}) else _between(cluster, shut, port)
    strays = [] if zero else [*filter(None, (asymmetric_route(one.node, None, one.contact.address) for one in shut))]
    nobody_joins = len(shut) > 1 and len(shut) == sum(node is not zero for node in cluster.nodes)
    # Only node 0 knows whether it has a route back to a stray address.
    side = "either" if strays else _common_side(sides, nobody_joins)
    words = _translated(cluster, shut, zero, side) or _Words("", meaning)
    names = tuple(client.name for client in clients)
    evidence = [_line(attempt) for attempt in shut]
    evidence += filter(None, (odd_source(attempt.node, attempt.contact.address) for attempt in shut))
    evidence += _filters(shut, zero, name, side, at_zero=side != "from" and not routers)
    fixes = words.fixes or (_own_address_fixes(cluster, shut, zero) if side != "to" else ())
    if not fixes:
        opening = routers or _opening_fixes(cluster, shut, zero, side, clients_too=not strays)
        fixes = (*opening, *(repair_route_fix(cluster, stray, 2) for stray in strays))
    return Finding.about(
        {"to": (name,), "from": names, "either": (*names, name)}[side],
        _summary(shut, name, words.meaning),
        title=words.title,
        links=links_to(clients, name),
        unsure=side == "either",
        evidence=(*evidence, *words.evidence),
        fixes=fixes,
    )


def _is_service(shut: list[FailedContact], zero: Node | None) -> bool:
    """Return whether the address leads to node 0 and is no host's."""
    return zero is not None and shut[0].contact.address not in zero.addresses


def _filters(shut: list[FailedContact], zero: Node | None, name: str, side: Suspect, *, at_zero: bool) -> Iterator[str]:
    """Yield the evidence of the packet filters on the blocking side."""
    clients, port = [attempt.node for attempt in shut], shut[0].contact.port
    if at_zero and zero:
        yield from filter_evidence(zero, "input", port, clients)
    elif at_zero:
        yield f"{name}: its firewall's rules are unknown"
    for client in clients if side != "to" else ():
        yield from filter_evidence(client, "output", port, [zero] if zero and not _is_service(shut, zero) else ())


def _own_address_fixes(cluster: Cluster, shut: list[FailedContact], zero: Node | None) -> Sequence[Fix]:
    """Return the fix that goes around a service address whose forwarding to node 0 fails; empty for any other."""
    real = reachable_address(zero, cluster) if zero is not None and _is_service(shut, zero) else None
    if zero is None or not real:
        return ()
    away = f"{shut[0].contact.address} is a service address whose forwarding to {zero.name} fails."
    return set_master_fixes(cluster.nodes, f"Set the master to {zero.name}'s own address: {away}", address=real)


def _common_side(sides: set[Suspect], nobody_joins: bool) -> Suspect:
    """Return the side that blocks all connections: node 0 (``to``) if it is uncertain and no node joins."""
    if len(sides) == 1 and "either" not in sides:
        return next(iter(sides))
    return "to" if nobody_joins else "either"


def _opening_fixes(
    cluster: Cluster, shut: list[FailedContact], zero: Node | None, side: Suspect, clients_too: bool
) -> Iterator[Fix]:
    """Yield the fixes that open the port on the blocking side; if it is uncertain, the clients' are the second
    option."""
    port = shut[0].contact.port
    if side != "from":
        name = zero.name if zero else node0_name(cluster, shut[0].node)
        peers = (attempt.node.reached_at or reachable_address(attempt.node, cluster) for attempt in shut)
        yield open_firewall_fix(zero, name, "input", [*filter(None, peers)], port)
    for attempt in shut if side != "to" and clients_too else ():
        option = 1 if side == "from" else 2
        yield open_firewall_fix(attempt.node, attempt.node.name, "output", [attempt.contact.address], port, option)


class _Words(NamedTuple):
    """Wording of a finding about a rule that redirects the packets."""

    title: str
    meaning: str
    evidence: tuple[str, ...] = ()
    fixes: tuple[Fix, ...] = ()
    """Fixes instead of accepting the port; empty if accepting it helps."""


def _translated(cluster: Cluster, shut: list[FailedContact], zero: Node | None, side: Suspect) -> _Words | None:
    """Return the wording if a rule of the blamed node redirects packets, else None."""
    port, clients = shut[0].contact.port, [attempt.node for attempt in shut]
    if zero is not None and side == "to" and forwarding_rules(zero, port):
        others = other_master_port_fixes(cluster, zero.network.bind.free_port if zero.network.bind else None)
        away = Fix.on(zero, f"Or delete the rule: {PUBLISHED.format(port)}.", 2)
        return _Words(FORWARDED, f"a rule of {zero.name} forwards the port to another place", fixes=(*others, away))
    if side != "from":
        return None
    if all(_is_redirected(attempt, zero) for attempt in shut):
        return _Words(SENT_ELSEWHERE, f"a rule of {names_of(clients)} redirects the packets to another place")
    if proxied := tuple(f"{attempt.node.name}: {rule}" for attempt in shut for rule in _proxied(attempt)):
        reason = f"a rule of {names_of(clients)} sends all packets to its own proxy, which is not running"
        return _Words(SENT_ELSEWHERE, reason, proxied, (Fix.on(clients, WITHOUT_PROXY),))
    return None


def _between(cluster: Cluster, shut: list[FailedContact], port: int) -> tuple[Fix, ...]:
    """Return fixes for an ICMP error that came from a router between the two ends."""
    senders = {attempt.contact.icmp_from if attempt.contact.outcome == "rejected" else "" for attempt in shut}
    known = {address for node in cluster.nodes for address in node.addresses} | {
        attempt.contact.address for attempt in shut
    }
    if "" in senders or senders & known:
        return ()
    to = together(dict.fromkeys(attempt.contact.address for attempt in shut))
    return (
        Fix(f"On {together(sorted(senders))}, a router or firewall between the nodes, allow TCP port {port} of {to}."),
    )


def _side(attempt: FailedContact, zero: Node | None) -> Suspect:
    """Return the node whose packet filter blocks the connection: the sender of the ICMP error, or by its rules.

    The sender is known without root, too. If a rule of the node itself rewrote the destination, the kernel rewrites the
    sender of an error, too.
    """
    if _is_redirected(attempt, zero) or (zero is not None and _proxied(attempt)):
        return "from"
    sender = attempt.contact.icmp_from if attempt.contact.outcome == "rejected" else ""
    if sender in attempt.node.addresses and sender != attempt.contact.address:
        return "from"
    if zero is not None and sender in zero.addresses:
        return "to"
    return suspect(attempt.node, zero, attempt.contact.port)


def _summary(shut: list[FailedContact], name: str, meaning: str) -> str:
    at = together(dict.fromkeys(attempt.contact.address for attempt in shut))
    port = shut[0].contact.port
    return f"{names_of(attempt.node for attempt in shut)} cannot connect to port {port} of {name} ({at}): {meaning}."


def _own_obstacles(attempt: FailedContact) -> Iterator[str]:
    """Yield the obstacles that the node's own interfaces and routing table show, whatever host is at the end."""
    who, at = attempt.node.name, attempt.contact.address
    near, entry = bypassed_interface(attempt.node, at), lookup(attempt.node, at)
    for rule in _proxied(attempt):
        yield f"{who}: {rule}: its own proxy gets the packets, and refused the connection"
    if contacted_itself(attempt):
        yield f"{who}: {at} is its own address ({attempt.node.interface_of(at)}): it connected to itself"
    elif near is not None and entry is not None:
        yield (
            f"{who}: packets to {at} leave by {entry.interface} ({entry.network}), but {near.address}/{near.length} on "
            f"{near.interface} is in the same network"
        )


def _line(attempt: FailedContact) -> str:
    line = f"{attempt.node.name}: {contact_text(attempt.contact)}"
    if attempt.control is not None:
        line += f"; on another port the same host {contact_text(attempt.control).partition(' ')[2]}"
    if attempt.contact.icmp_from and attempt.contact.outcome == "rejected":
        line += f"; {attempt.contact.icmp_from} sent the rejection"
    near = attempt.node.network.neighbour
    if near is not None and near.state == "answers" and near.address == attempt.contact.address:
        line += f"; the host is up: it answers {attempt.asked_neighbour}"
    return line


# Another service than this job's store on node 0's port: its owner, evidence and fixes.


def master_port_owner(cluster: Cluster, nodes: Sequence[Node]) -> tuple[Node | None, str]:
    """Return (node 0 if its facts are here, its name) for nodes that looked for it: one of them that takes itself for
    node 0, else the cluster's."""
    owner = next((node for node in nodes if claims_node0(node)), None) or cluster.node0
    return owner, owner.name if owner else node0_name(cluster, nodes[0])


def taken_port_finding(cluster: Cluster, nodes: Sequence[Node], service: str, evidence: Iterable[str]) -> Finding:
    """Return the finding about the service on node 0's port; ``service`` begins its sentence."""
    owner, name = master_port_owner(cluster, nodes)
    bind = owner.network.bind if owner else None
    port, holders = nodes[0].plan.master_port, bind.holders if bind else ()
    serves = bool(bind and bind.answer and bind.answer.kind == "tcpstore")
    return Finding.about(
        [name],
        f"{service} on port {port} of {name}.",
        evidence=(
            *evidence,
            *(f"{name}: {port_holder_evidence(replace(holder, hosts_store=serves), port)}" for holder in holders),
        ),
        fixes=(
            *other_master_port_fixes(cluster, bind.free_port if bind else None),
            *((end_leftover_fix(holders, owner),) if owner and holders else ()),
        ),
    )


# Node 0's own packet filter as the obstacle, before any other node's facts are here.


SHOWN = 8
"""Most missing nodes that are named."""
_REDIRECT = re.compile(r"\bredirect to :(\d+)|-j REDIRECT --to-ports (\d+)|(?<!-j )\bREDIRECT$")
"""Redirecting rule of nft, of iptables, and of iptables-nft as nft prints it, without the port. ``-j REDIRECT`` alone
keeps the port."""


def shuts_itself(cluster: Cluster, how: str, outcomes: Collection[str]) -> Node | None:
    """Return node 0, if it hosts the store, no other host joins it, and it shuts its port itself; else None.

    ``how``: a ``ShutPort.how``; ``outcomes``: its effects on others; any other outcome is evidence against it.
    """
    zero = store_host(cluster)
    if zero is None or not _waits_in_vain(cluster, zero, outcomes):
        return None
    rules = _shutting(zero)
    return zero if rules and rules[0].how == how else None


def own_filter_finding(cluster: Cluster, zero: Node) -> Finding:
    """Return the finding about such a node 0, if no other node's facts are here."""
    port, name = zero.plan.master_port, zero.name
    return Finding.about(
        (name,),
        f"{name}'s own packet filter shuts port {port}, on which it waits for the others.",
        links=((other, name) for other in _absent(cluster, zero)),
        evidence=(f"{name}: {port.rule}" for port in _shutting(zero)),
        fixes=(open_firewall_fix(zero, name, "input", neighbourhood(zero), port),),
    )


def _waits_in_vain(cluster: Cluster, zero: Node, outcomes: Collection[str]) -> bool:
    """Return whether no node joined ``zero`` from another host, and every failed contact had one of the
    ``outcomes``."""
    meeting = zero.meeting
    if not meeting.ended or len(meeting.arrived) >= meeting.expected or not cluster.multi_host:
        return False
    for peer in cluster.peers(zero):
        contact = peer.network.contact
        if peer.meeting.joined or (contact is not None and contact.outcome not in outcomes):
            return False
    hostname = zero.identity.hostname
    return all(key.partition(" ")[0] == hostname for key in meeting.arrived)


def _absent(cluster: Cluster, zero: Node) -> list[str]:
    """Return the missing nodes, by the launcher's list, else by number."""
    plan, numbers = zero.plan, missing_node_ranks(cluster)
    if plan.started == "rank":
        numbers = tuple(dict.fromkeys(rank // (plan.nproc_per_node or 1) for rank in missing_ranks(cluster)))
    return [plan.roster[n] if n < len(plan.roster) else f"node{n}" for n in numbers[:SHOWN]]


def _shutting(zero: Node) -> list[ShutPort]:
    """Return the chains that shut MASTER_PORT on every address at which it is looked for.

    Or the rules that redirect it to another port without a listener, which causes a TCP reset.
    """
    addresses = zero.master_addresses or ((zero.reached_at,) if zero.reached_at else ())
    parsed = [number for at in addresses if (number := parse_address(at)) is not None and not number.is_loopback]
    versions = {number.version for number in parsed} or {4, 6}
    rules = zero.network.firewall.shut if zero.network.firewall else ()
    ports = [rule for rule in rules if rule.port == zero.plan.master_port and rule.version in versions]
    if {port.version for port in ports} == versions:
        return ports
    port, redirecting = zero.plan.master_port, forwarding_rules(zero, zero.plan.master_port)
    redirected = bool(redirecting) and all(_to_another(rule, port) for rule in redirecting)
    return [ShutPort(port, 4, "reset", rule) for rule in redirecting] if redirected and versions == {4} else []


def _to_another(rule: str, port: int) -> bool:
    """Return whether a rule redirects the port to another one of the host."""
    match = _REDIRECT.search(rule)
    return match is not None and str(port) not in match.groups()


def neighbourhood(node: Node) -> tuple[str, ...]:
    """Return the network of the address by which the others reach it: the sources of peers whose facts are not here."""
    at = node.reached_at or next(iter(node.master_addresses), None)
    own_networks = (
        ipaddress.ip_network(f"{own}/{length}", strict=False) for _, own, length in networks(node) if own == at
    )
    return tuple(map(str, own_networks))
