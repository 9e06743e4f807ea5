"""Nodes that did not reach MASTER_ADDR:MASTER_PORT, the hosts that they tried, and nodes and ranks that did not
join."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from shlex import quote

from distdoctor.check_api.firewall import suspect
from distdoctor.check_api.fixes import set_master_fixes
from distdoctor.check_api.nodes import claims_node0, master_means_itself, node0_name, reachable_address, store_host
from distdoctor.check_api.route_findings import mask_obstacle
from distdoctor.check_api.routes import RouteObstacle, proven_obstacle, route_obstacle
from distdoctor.knowledge.network import contact_text
from distdoctor.model.addresses import endpoint, is_loopback, parse_address
from distdoctor.model.bounds import MOST_ABSENT
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import Contact, Neighbour, RendezvousFacts
from distdoctor.model.findings import Fix
from distdoctor.model.launch_variables import SLURM_LISTS
from distdoctor.plan.syntax import expand

ENETUNREACH = 101


@dataclass(frozen=True)
class FailedContact:
    """Node whose connections to MASTER_ADDR:MASTER_PORT ended in the wanted outcome."""

    node: Node
    contact: Contact
    control: Contact | None

    @property
    def silent_neighbour(self) -> Neighbour | None:
        """Return the next hop, the master's or a gateway, if nobody answers for its address."""
        near = self.node.network.neighbour
        return near if near is not None and near.state == "silent" else None

    @property
    def asked_neighbour(self) -> str:
        """Return how the hardware address of that host was requested, and on which interface."""
        near = self.node.network.neighbour
        how = "neighbour discovery" if ":" in self.contact.address else "ARP"
        return f"{how} on {near.interface}" if near is not None else how


def failed_contacts(cluster: Cluster, outcomes: Collection[str]) -> list[FailedContact]:
    """Return the nodes that did not get into the store, and whose last contact ended so."""
    attempts = []
    for node in cluster.nodes:
        network, meeting = node.network, node.meeting
        if network.contact is None or network.contact.outcome not in outcomes:
            continue
        if meeting.joined or meeting.hosted:
            continue
        # Node 0 that could not host, or that MASTER_ADDR does not lead to, has another failure than a shut port.
        own = claims_node0(node) and network.bind
        if not own or (network.bind and network.bind.ok and network.master_is_own):
            attempts.append(FailedContact(node, network.contact, network.control))
    return attempts


def store_host_tried(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Return node 0, if its facts show that it hosted the store where these nodes looked for it, meanwhile."""
    zero = store_host(cluster)
    if zero is None:
        return None
    own = addresses_of_node0(cluster, zero)
    for attempt in shut:
        if (
            parse_address(attempt.contact.address) not in own
            or not _meanwhile(zero, attempt.node)
            or attempt.node.host_key == zero.host_key
        ):
            return None
        if attempt.contact.port != zero.plan.master_port:
            return None
    return zero


def master_address_owner(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Return node 0, if its facts are here and the address that these nodes tried is its own, or leads to it."""
    zero = cluster.node0
    own = addresses_of_node0(cluster, zero) if zero is not None else frozenset[object]()
    return zero if all(parse_address(attempt.contact.address) in own for attempt in shut) else None


def contacted_another_host(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Return whether these nodes tried another host than node 0, by another name or address than node 0's own.

    That host's shut port then concerns neither node 0 nor the route to it.
    """
    zero = store_host(cluster)
    if zero is None:
        return False
    own = addresses_of_node0(cluster, zero)
    return all(
        attempt.node.plan.master_addr != zero.plan.master_addr
        and parse_address(attempt.contact.address) not in own
        and not is_loopback(attempt.contact.address)
        for attempt in shut
    )


def tried_host(cluster: Cluster, shut: list[FailedContact]) -> str:
    """Return the name of the node that has the address which these nodes tried, else the address."""
    address = shut[0].contact.address
    return next((node.name for node in cluster.nodes if address in node.addresses), address)


def lacks_route(attempt: FailedContact) -> bool:
    """Return whether this node's own kernel has no route to the address, without a policy of its own that drops it."""
    network = attempt.node.network
    refused_here = attempt.contact.errno == ENETUNREACH and not attempt.contact.icmp
    if refused_here or network.route is None or not network.route.error:
        return refused_here
    its = proven_obstacle(attempt.node, attempt.contact.address, attempt.contact.port)
    return its is None or its.kind != "ipsec"


def _meanwhile(zero: Node, node: Node) -> bool:
    """Return whether the store was there while ``node`` still tried it, by their clocks; True if unknown.

    A slow node 0 (a slow import of torch) refuses connections until then, like one that is not started.
    """
    spans = []
    for side in (zero, node):
        waited = side.meeting.waited
        if not side.facts.started_at or not waited:
            return True
        bind = side.network.bind
        start = side.facts.started_at + (bind.after if bind is not None and side is zero else 0.0)
        spans.append((start, side.facts.started_at + waited))
    (start, end), (other_start, other_end) = spans
    return start <= other_end and other_start <= end


def contacted_itself(attempt: FailedContact) -> bool:
    """Return whether it looked for another node's store at its own address: no filter and no route is at fault.

    A host of the store that does not reach it itself is blocked by its own filter.
    """
    if attempt.contact.address not in attempt.node.addresses or is_loopback(attempt.contact.address):
        return False
    bind = attempt.node.network.bind
    return not (claims_node0(attempt.node) and bind is not None and bind.ok)


def grouped_by_address(shut: list[FailedContact]) -> list[list[FailedContact]]:
    """Return the contacts grouped by the address that they tried: another address has another cause."""
    groups: dict[tuple[object, int, int | None], list[FailedContact]] = {}
    for attempt in shut:
        groups.setdefault(
            (parse_address(attempt.contact.address), attempt.contact.port, attempt.contact.errno), []
        ).append(attempt)
    return list(groups.values())


def route_obstacles(cluster: Cluster, shut: list[FailedContact]) -> dict[Node, RouteObstacle]:
    """Return the obstacles that routing tables of these nodes and of node 0 show between them."""
    obstacles = {}
    for attempt in shut:
        zero = master_address_owner(cluster, [attempt])
        if zero is None:
            if (its := proven_obstacle(attempt.node, attempt.contact.address, attempt.contact.port)) is not None:
                obstacles[attempt.node] = its
            continue
        ruled, answers = suspect(attempt.node, zero, attempt.contact.port) != "either", _answers(attempt)
        its = route_obstacle(attempt.node, zero, attempt.contact.address, attempt.contact.port)
        if its is None and not ruled and not answers:
            its = mask_obstacle(attempt.node, zero, attempt.contact.address)
        # A filter's own rule explains it, while the same host answers on another port: its route works.
        if its is not None and not (ruled and answers):
            obstacles[attempt.node] = its
    return obstacles


def _answers(attempt: FailedContact) -> bool:
    """Return whether the same host answers on another port."""
    return attempt.control is not None and attempt.control.answered


def owner_name(cluster: Cluster, shut: list[FailedContact]) -> str:
    zero = master_address_owner(cluster, shut)
    return zero.name if zero is not None else node0_name(cluster, shut[0].node)


def master_is_up(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Return whether the host that these nodes tried is known to be up: its facts are here, or another node reached
    it."""
    if master_address_owner(cluster, shut) is not None:
        return True
    tried = {parse_address(attempt.contact.address) for attempt in shut}
    return any(
        n.network.contact and n.network.contact.outcome == "open"
        and parse_address(n.network.contact.address) in tried
        for n in cluster.nodes
    )  # fmt: skip


# Targets of MASTER_ADDR on each node (hosts rather than spellings), and the right one among them.


Host = tuple[str, str, str]
MasterTarget = tuple[object, int]
"""(host of the cluster, or addresses that are none of its; port)."""


def master_targets(cluster: Cluster) -> dict[str, MasterTarget]:
    """Return the target of MASTER_ADDR and MASTER_PORT from each node for which it is known."""
    owners: dict[object, Host] = {}
    for node in reversed(cluster.nodes):
        owners.update({parse_address(address): node.host_key for address in node.addresses})
    targets: dict[str, MasterTarget] = {}
    zero, other_meanings = cluster.node0, _other_meanings(cluster)
    owners.update(
        dict.fromkeys(addresses_of_node0(cluster, zero) - owners.keys(), zero.host_key) if zero is not None else {}
    )
    for node in cluster.nodes:
        if zero is not None and joined_store(node) and arrived(zero, node):
            # It got there by any name: a service's address, or a published port that is forwarded.
            targets[node.name] = (zero.host_key, zero.plan.master_port)
            continue
        place = _target_host(cluster, node, owners, other_meanings)
        if place is not None:
            targets[node.name] = (place, node.plan.master_port)
    return targets


def _target_host(
    cluster: Cluster, node: Node, owners: Mapping[object, Host], other_meanings: Mapping[str, set[Host]]
) -> object | None:
    """Return the target of MASTER_ADDR from this node: a host of the cluster, else its addresses; None if unknown."""
    addresses, contact = node.master_addresses, node.network.contact
    if len(addresses) > 1 and contact and joined_store(node):
        # A store client tries one address after the other: a name that means every node (a headless service) leads each
        # of them, its own address refused, to the one that hosts the store.
        addresses = (contact.address,)
    # A name that means just this node here, and another host on others: its own file is wrong.
    only_here = any(host != node.host_key for host in other_meanings.get(node.plan.master_addr or "", ()))
    if not addresses or (cluster.multi_host and not only_here and master_means_itself(node)):
        return None
    numbers = [parse_address(address) for address in addresses]
    own = {parse_address(address) for address in node.addresses}
    if any(is_loopback(address) for address in addresses) or any(number in own for number in numbers):
        return node.host_key
    for number in numbers:
        if number in owners:
            return owners[number]
    return frozenset(map(str, numbers))


def _other_meanings(cluster: Cluster) -> dict[str, set[Host]]:
    """Return, by each name of MASTER_ADDR, the hosts on which it does not mean just the node itself."""
    meanings: dict[str, set[Host]] = {}
    for node in cluster.nodes:
        if node.plan.master_addr and node.master_addresses and not master_means_itself(node):
            meanings.setdefault(node.plan.master_addr, set()).add(node.host_key)
    return meanings


def shared_master_address(cluster: Cluster, node: Node, right: MasterTarget) -> str | None:
    """Return the master's address on ``node`` that is its own as well as that of the right host."""
    own = {a for other in cluster.nodes if other.host_key == right[0] for a in other.addresses if not is_loopback(a)}
    resolved = node.master_addresses
    return next((a for a in resolved if a in own and a in node.addresses and node.host_key != right[0]), None)


def names_with_different_masters(cluster: Cluster, targets: Mapping[str, MasterTarget]) -> dict[str, list[Node]]:
    """Return hostnames with different targets, each with the nodes that use them on one port.

    Also addresses that several hosts have.
    """
    groups: dict[tuple[str, int], list[Node]] = {}
    for node in cluster.nodes:
        name = node.plan.master_addr
        if node.name in targets and name is not None:
            groups.setdefault((name, node.plan.master_port), []).append(node)
    return {name: nodes for (name, _), nodes in groups.items() if len({targets[node.name] for node in nodes}) > 1}


def correct_master_target(nodes: Sequence[Node], targets: Mapping[str, MasterTarget]) -> tuple[MasterTarget, bool]:
    """Return (the presumably right target, whether it is certain)."""
    target_counts = Counter(targets[node.name] for node in nodes)
    arrived = Counter[MasterTarget]()
    outside = any(isinstance(targets[node.name][0], frozenset) for node in nodes)
    whole = not outside or len(nodes) >= (nodes[0].plan.nnodes or 0)
    for node in nodes:
        # A host of a store that nobody joined need not be node 0 if others look for it on a host without facts
        chosen = whole or len(node.meeting.arrived) > 1 or 0 in (node.plan.node_rank, node.plan.rank)
        if node.meeting.hosted and chosen:
            arrived[targets[node.name]] = max(arrived[targets[node.name]], len(node.meeting.arrived), 1)
    usual, votes = target_counts.most_common(1)[0]
    lonely = [target for target, came in arrived.items() if came == 1 and target != usual and target[0] == usual[0]]
    if lonely and all(votes > target_counts[target] for target in lonely) and len(lonely) == len(arrived):
        return usual, True  # nobody joined that store: more look on its host for another port
    for counts in (arrived, target_counts):
        ranked = counts.most_common(2)
        if len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1]):
            return ranked[0][0], True
    declared = [n for n in nodes if n.plan.node_rank == 0 or n.plan.rank == 0]
    if len(declared) == 1 and (not declared[0].saw("meeting") or targets[declared[0].name] in arrived):
        return targets[declared[0].name], True
    return targets[nodes[0].name], False


# Addresses that lead to node 0 though no host has them: a service's, or a translated one.


@lru_cache(maxsize=4)
def addresses_of_node0(cluster: Cluster, zero: Node) -> frozenset[object]:
    """Return, as numbers, the addresses of ``zero``, and those by which nodes reached its store and which no node
    has."""
    owned = {parse_address(address) for node in cluster.nodes for address in node.addresses}
    addresses: set[object] = {parse_address(address) for address in zero.addresses}
    for node in cluster.nodes:
        contact = node.network.contact
        if contact is None or node.network.master_is_own or not joined_store(node) or not arrived(zero, node):
            continue
        if (number := parse_address(contact.address)) not in owned:
            addresses.add(number)
    return frozenset(addresses)


def joined_store(node: Node) -> bool:
    """Return whether the node got into the store that it looked for."""
    contact = node.network.contact
    return bool(node.meeting.joined and contact and contact.outcome == "open")


def arrived(zero: Node, node: Node) -> bool:
    """Return whether ``zero`` counted it."""
    return bool({*node.keys} & {*zero.meeting.arrived})


# Nodes that did not join, by name: an unknown node has the name by which others know it.


JOB_LIST = SLURM_LISTS[0]


def incomplete(meeting: RendezvousFacts) -> bool:
    """Return whether node 0's wait is over and not all joined."""
    return meeting.ended and 0 < len(meeting.arrived) < meeting.expected


def fullest(cluster: Cluster) -> Node | None:
    """Return the host of the fullest store, if several nodes hosted one each, and not all joined; else None."""
    short = [node for node in cluster.nodes if node.meeting.hosted and incomplete(node.meeting)]
    return max(short, key=lambda node: len(node.meeting.arrived), default=None)


def missing(cluster: Cluster, zero: Node, meeting: RendezvousFacts) -> tuple[list[str], tuple[int, ...]]:
    """Return (names, global ranks) of the nodes that did not join: by their own facts, by rank, else numbered from the
    top."""
    count = meeting.expected - len(meeting.arrived)
    here = [cluster.by_key[key] for key in meeting.arrived if key in cluster.by_key]
    strangers = [node for node in cluster.nodes if node not in here and node is not zero]
    if meeting.counts == "ranks":
        return missing_ranks(cluster, zero, meeting, strangers)
    names = [node.name for node in strangers[:count]]
    taken = {node.node_rank for node in (*here, *strangers)}
    free = [rank for rank in range(min(meeting.expected, MOST_ABSENT)) if rank not in taken]
    rest = count - len(names)
    return names + (unnamed(cluster, zero, free[-rest:]) if rest > 0 else []), ()


def unnamed(cluster: Cluster, zero: Node, free: list[int]) -> list[str]:
    """Return the names of the nodes with these ranks: from the roster, else from those that called in vain."""
    here = {node.identity.hostname for node in cluster.nodes}
    if zero.plan.roster and zero.plan.node_rank is not None:
        return [roster_name(zero, rank) for rank in free]
    names = [name for name in zero.plan.roster if name not in here]
    if len(names) == len(free):
        return names
    callers = [host for host in dict.fromkeys(caller.host for caller in zero.meeting.callers) if host not in here]
    return [*callers[: len(free)], *(f"node{rank}" for rank in free[len(callers) :])]


def turned_away(cluster: Cluster, zero: Node, outside: list[Node], absent: list[str]) -> list[str]:
    """Return the absent nodes that node 0 rejected for their tokens.

    By name, and without one as many as called from a host of which another node is here. The facts of those ``outside``
    give the reason themselves.
    """
    absent = [name for name in absent if name not in {node.name for node in outside}]
    known = {node.identity.hostname for node in cluster.nodes if node.meeting.token not in ("", "agreed")}
    hosts = [caller.host for caller in zero.meeting.callers if caller.host not in known]
    here = {node.identity.hostname for node in cluster.nodes}
    named = [name for name in absent if name in hosts]
    return named + [name for name in absent if name not in named][: sum(host in here for host in hosts)]


def roster_name(zero: Node, rank: int) -> str:
    """Return the name that the launcher's list has for a node rank."""
    return zero.plan.roster[rank] if rank < len(zero.plan.roster) else f"node{rank}"


def incomplete_nodes(cluster: Cluster, zero: Node, arrived: set[str]) -> list[str]:
    """Return the nodes of the launcher's list from which fewer processes joined than it started there."""
    here = Counter(member.plan.node_rank for member in cluster.slices if member.key in arrived)
    known = {node.plan.node_rank: node.name for node in cluster.nodes}
    short = [number for number, tasks in enumerate(zero.plan.tasks) if here[number] < tasks]
    return [known.get(number) or roster_name(zero, number) for number in short]


def missing_ranks(
    cluster: Cluster, zero: Node, meeting: RendezvousFacts, strangers: list[Node]
) -> tuple[list[str], tuple[int, ...]]:
    """Return (names of their nodes, global ranks) of the ranks that did not join."""
    arrived = set(meeting.arrived)
    claimed = {s.plan.rank for s in cluster.slices if s.key in arrived and s.plan.rank is not None}
    ranks = tuple(rank for rank in range(min(meeting.expected, MOST_ABSENT)) if rank not in claimed)
    if zero.plan.tasks:
        return incomplete_nodes(cluster, zero, arrived), ranks
    per_node = zero.plan.nproc_per_node
    places = {rank // per_node for rank in claimed} if per_node else set()
    # A process without a rank has one of the unclaimed ones.
    without = [node.name for node in strangers if not node.ranks and node.plan.rank is None]
    names = []
    for rank in ranks:
        owner = next((n for n in strangers if rank in n.ranks or n.plan.rank == rank), None)
        number = rank // per_node if per_node else rank
        others = (n for n in cluster.nodes if per_node and any(r // per_node == number for r in n.ranks))
        local = next(others, None) if number in places else None
        known = owner or local
        names.append(known.name if known else without.pop(0) if without else f"node{number}")
    return list(dict.fromkeys(names)), ranks


def starts_without_the_rest(zero: Node) -> bool:
    """Return whether the joined nodes are enough for an elastic job (--nnodes MIN:MAX) to start.

    c10d starts it once its ``last_call_timeout`` (30 s) is over
    (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py).
    """
    plan = zero.plan
    return plan.rdzv_backend == "c10d" and bool(plan.min_nodes) and len(zero.meeting.arrived) >= (plan.min_nodes or 0)


def too_few_nodes_fix(zero: Node | None) -> tuple[Fix, ...]:
    """Return fixes for a SLURM job with fewer nodes than planned, all of which are here."""
    if zero is None or zero.plan.min_nodes or zero.meeting.counts != "nodes":
        return ()
    listed, wanted = zero.variables.get(JOB_LIST, ""), zero.plan.nnodes or 0
    given = expand(listed)
    if not 0 < len(given) < wanted or len(zero.meeting.arrived) != len(given):
        return ()
    nodes = f"{len(given)} node{'s' if len(given) > 1 else ''}"
    text = (
        f"Request {wanted} nodes (#SBATCH --nodes={wanted}), or start with --nnodes {len(given)}: SLURM gave this job "
        f"{nodes} ({JOB_LIST}={listed})."
    )
    return (Fix.on((zero,), text),)


def store_of(zero: Node) -> str:
    """Return the address and port of node 0's store, as its own plan has them."""
    return endpoint(str(zero.plan.master_addr), zero.plan.master_port)


def command_for_missing_nodes(zero: Node) -> tuple[str, str]:
    """Return the command for nodes that did not join node 0, started once per node, and its comment."""
    plan = zero.plan
    line = f"distdoctor check --nnodes {f'{plan.min_nodes}:{plan.nnodes}' if plan.min_nodes else plan.nnodes}"
    if plan.sources.get("nproc_per_node", "").startswith("--"):
        line += f" --nproc-per-node {plan.nproc_per_node}"
    how = [f"with the DISTDOCTOR_TOKEN of {zero.name} before it"] if zero.meeting.token == "agreed" else []
    if plan.rdzv_backend == "c10d":
        line += f" --rdzv-backend c10d --rdzv-endpoint {endpoint(str(plan.master_addr), plan.master_port)}"
    else:
        line += f" --master-addr {plan.master_addr} --master-port {plan.master_port}"
        how.append("add --node-rank if you use it")
    if plan.run_id != "none":
        line += f" --rdzv-id {quote(plan.run_id)}"
    return line, f" ({', '.join(how)})" if how else ""


def other_hosts_evidence(cluster: Cluster, node: Node) -> tuple[Fix, ...]:
    """Return fixes for other hosts that cannot find this node, from ``node`` alone.

    Ranks started by hand do not declare the number of hosts, and MASTER_ADDR may mean each of these itself.
    """
    if node.plan.nnodes is not None or cluster.multi_host or not master_means_itself(node):
        return ()
    text = f"for ranks on other hosts: MASTER_ADDR {node.plan.master_addr} means each host itself."
    known = reachable_address(node, cluster) if node is cluster.node0 else None
    if known is None:
        return (Fix.on((node,), f"Set MASTER_ADDR to an address of node 0 that all hosts reach, {text}", 2),)
    return set_master_fixes((node,), f"Set MASTER_ADDR to {known} on all hosts, {text}", known, option=2)


def plans_other_hosts(node: Node) -> bool:
    """Return whether this node's own plan has others on other hosts.

    Ranks started by hand need not declare their number of hosts: on one, localhost is right. A local rank above 0 and
    below the rank is of a later node.
    """
    plan = node.plan
    if plan.nnodes is not None or (plan.node_rank or 0) > 0 or first_of_job(node) is not None:
        return True
    return bool(plan.local_rank) and plan.rank is not None and (plan.local_rank or 0) < plan.rank


def first_of_job(node: Node) -> str | None:
    """Return the first node of this node's SLURM job, if it has several: ``gpu01`` of ``gpu[01-16],extra7``."""
    listed = node.variables.get(JOB_LIST, "")
    match = re.match(r"([\w.-]+)(?:\[(\d+)([^\]]*)\])?", listed)
    return match[1] + (match[2] or "") if match and (match[3] or match.end() < len(listed)) else None


def last_contact_text(node: Node) -> str:
    """Return the last contact with node 0 of a node that never joined, in words."""
    meeting, network, plan = node.meeting, node.network, node.plan
    if plan.master_addr is None:
        return "no setting here names node 0"
    waited = f"waited {meeting.waited:.0f} s for {plan.master_addr}:{plan.master_port}" if node.saw("meeting") else ""
    if meeting.late is not None:
        return f"joined after the check had ended with {meeting.late} of {plan.nnodes} nodes"
    if network.contact is None:
        return waited
    if meeting.host_lost:
        return f"{waited}; the check there ended before this node was counted"
    answer = network.answer.kind if network.answer is not None else ""
    if network.contact.outcome == "open" and answer == "distdoctor":
        return f"{waited}; the store there belongs to a check without this node"
    if network.contact.outcome == "open" and network.answer is not None and network.answer.empty:
        return f"{waited}; the store there is empty, no node 0 has written into it"
    if network.contact.outcome == "open":
        return f"{waited}; the port is open, but no store answers there"
    taken = "the port was open, but its listener sent nothing and accepts no more connections"
    return f"{waited}; {taken if answer == 'silent' else f'finally {contact_text(network.contact)}'}"
