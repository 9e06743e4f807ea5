"""Who did not get to MASTER_ADDR:MASTER_PORT, and what the facts of node 0 say of the place that they tried."""

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
from distdoctor.model.facts import Contact, MeetingFacts, Neighbour
from distdoctor.model.findings import Fix
from distdoctor.model.launch_variables import SLURM_LISTS
from distdoctor.plan.syntax import expand

ENETUNREACH = 101


@dataclass(frozen=True)
class FailedContact:
    """A node whose connections to MASTER_ADDR:MASTER_PORT ended in the outcome looked for."""

    node: Node
    contact: Contact
    control: Contact | None

    @property
    def silent_neighbour(self) -> Neighbour | None:
        """The next host on the way, the master's or a gateway, where nobody answers for its address."""
        near = self.node.network.neighbour
        return near if near is not None and near.state == "silent" else None

    @property
    def asked_neighbour(self) -> str:
        """Return how that host was asked for its hardware address, on which interface."""
        near = self.node.network.neighbour
        how = "neighbour discovery" if ":" in self.contact.address else "ARP"
        return f"{how} on {near.interface}" if near is not None else how


def failed_contacts(cluster: Cluster, outcomes: Collection[str]) -> list[FailedContact]:
    """The nodes that did not get into the store, and whose last contact ended so."""
    found = []
    for node in cluster.nodes:
        network, meeting = node.network, node.meeting
        if network.contact is None or network.contact.outcome not in outcomes:
            continue
        if meeting.joined or meeting.hosted:
            continue
        # Node 0 that could not host, or that MASTER_ADDR does not lead to, has another failure than a shut port.
        own = claims_node0(node) and network.bind
        if not own or (network.bind and network.bind.ok and network.master_is_own):
            found.append(FailedContact(node, network.contact, network.control))
    return found


def store_host_tried(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Node 0, where its facts are here and say that it hosted the store where these nodes looked for it, meanwhile."""
    zero = store_host(cluster)
    if zero is None:
        return None
    own = leading_to(cluster, zero)
    for one in shut:
        if (
            parse_address(one.contact.address) not in own
            or not _meanwhile(zero, one.node)
            or one.node.host_key == zero.host_key
        ):
            return None
        if one.contact.port != zero.plan.master_port:
            return None
    return zero


def master_address_owner(cluster: Cluster, shut: list[FailedContact]) -> Node | None:
    """Node 0, where its facts are here and the address that these nodes tried is its own, or leads to it."""
    zero = cluster.node0
    own = leading_to(cluster, zero) if zero is not None else frozenset[object]()
    return zero if all(parse_address(one.contact.address) in own for one in shut) else None


def contacted_another_host(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Return whether these looked for the store on another host than node 0, by another name or address than node 0
    has for it itself. What keeps that host's port shut is then no matter of node 0, nor of the way to it."""
    zero = store_host(cluster)
    if zero is None:
        return False
    own = leading_to(cluster, zero)
    return all(
        one.node.plan.master_addr != zero.plan.master_addr
        and parse_address(one.contact.address) not in own
        and not is_loopback(one.contact.address)
        for one in shut
    )


def tried_host(cluster: Cluster, shut: list[FailedContact]) -> str:
    """Return the name of the node that has the address which these tried, else the address."""
    address = shut[0].contact.address
    return next((node.name for node in cluster.nodes if address in node.addresses), address)


def lacks_route(one: FailedContact) -> bool:
    """Return whether it is this node's own kernel that knows no way to the address; not where a policy of its own
    drops it."""
    network = one.node.network
    refused_here = one.contact.errno == ENETUNREACH and not one.contact.icmp
    if refused_here or network.route is None or not network.route.error:
        return refused_here
    its = proven_obstacle(one.node, one.contact.address, one.contact.port)
    return its is None or its.kind != "ipsec"


def _meanwhile(zero: Node, node: Node) -> bool:
    """Return whether the store was there while ``node`` still looked for it, by their clocks; True where that is not
    known.

    A node 0 that takes its time (a slow import of torch) refuses connections until then as one that is not started.
    """
    spans = []
    for one in (zero, node):
        waited = one.meeting.waited
        if not one.facts.started_at or not waited:
            return True
        bind = one.network.bind
        start = one.facts.started_at + (bind.after if bind is not None and one is zero else 0.0)
        spans.append((start, one.facts.started_at + waited))
    (start, end), (other_start, other_end) = spans
    return start <= other_end and other_start <= end


def contacted_itself(one: FailedContact) -> bool:
    """Return whether it looked for another's store at its own address: no filter, no route keeps it from anything.

    Who hosts the store and does not reach it itself is kept from it by a filter of its own."""
    if one.contact.address not in one.node.addresses or is_loopback(one.contact.address):
        return False
    bind = one.node.network.bind
    return not (claims_node0(one.node) and bind is not None and bind.ok)


def grouped_by_address(shut: list[FailedContact]) -> list[list[FailedContact]]:
    """Those that looked in one place together: who looks elsewhere has a reason of its own."""
    groups: dict[tuple[object, int, int | None], list[FailedContact]] = {}
    for one in shut:
        groups.setdefault((parse_address(one.contact.address), one.contact.port, one.contact.errno), []).append(one)
    return list(groups.values())


def route_obstacles(cluster: Cluster, shut: list[FailedContact]) -> dict[Node, RouteObstacle]:
    """Return what the routing tables of these nodes and of node 0 say about the way between them, where they say
    something."""
    found = {}
    for one in shut:
        zero = master_address_owner(cluster, [one])
        if zero is None:
            if (its := proven_obstacle(one.node, one.contact.address, one.contact.port)) is not None:
                found[one.node] = its
            continue
        ruled, answers = suspect(one.node, zero, one.contact.port) != "either", _answers(one)
        its = route_obstacle(one.node, zero, one.contact.address, one.contact.port)
        if its is None and not ruled and not answers:
            its = mask_obstacle(one.node, zero, one.contact.address)
        # A filter's own rule explains it, while the same host answers on another port: its way is no matter.
        if its is not None and not (ruled and answers):
            found[one.node] = its
    return found


def _answers(one: FailedContact) -> bool:
    """Return whether the same host answers on another port."""
    return one.control is not None and one.control.answered


def owner_name(cluster: Cluster, shut: list[FailedContact]) -> str:
    zero = master_address_owner(cluster, shut)
    return zero.name if zero is not None else node0_name(cluster, shut[0].node)


def master_is_up(cluster: Cluster, shut: list[FailedContact]) -> bool:
    """Return whether the host that these nodes tried is known to be up: its facts are here, or another node got
    there."""
    if master_address_owner(cluster, shut) is not None:
        return True
    tried = {parse_address(one.contact.address) for one in shut}
    return any(
        n.network.contact and n.network.contact.outcome == "open"
        and parse_address(n.network.contact.address) in tried
        for n in cluster.nodes
    )  # fmt: skip


# Where the nodes look for node 0, as a place and not as a spelling, and which of these places is the right one.


Host = tuple[str, str, str]
MasterTarget = tuple[object, int]
"""(host of the cluster, or addresses that are none of its; port)."""


def master_targets(cluster: Cluster) -> dict[str, MasterTarget]:
    """Return where MASTER_ADDR and MASTER_PORT lead from each node for which that is known."""
    owners: dict[object, Host] = {}
    for node in reversed(cluster.nodes):
        owners.update({parse_address(address): node.host_key for address in node.addresses})
    found: dict[str, MasterTarget] = {}
    zero, elsewhere = cluster.node0, _meant_elsewhere(cluster)
    owners.update(dict.fromkeys(leading_to(cluster, zero) - owners.keys(), zero.host_key) if zero is not None else {})
    for node in cluster.nodes:
        if zero is not None and joined_store(node) and arrived(zero, node):
            # It got there, whatever it calls the place: a service's address, or a published port that is forwarded.
            found[node.name] = (zero.host_key, zero.plan.master_port)
            continue
        place = _where(cluster, node, owners, elsewhere)
        if place is not None:
            found[node.name] = (place, node.plan.master_port)
    return found


def _where(
    cluster: Cluster, node: Node, owners: Mapping[object, Host], elsewhere: Mapping[str, set[Host]]
) -> object | None:
    """Return what MASTER_ADDR leads to from this node: a host of the cluster, else its addresses; None where not
    known."""
    addresses, contact = node.master_addresses, node.network.contact
    if len(addresses) > 1 and contact and joined_store(node):
        # A store client tries one address after the other: a name that means every node (a headless service) leads
        # each of them, its own address refused, to the one that hosts the store.
        addresses = (contact.address,)
    # A name that means just this node itself here, and another host on others: its own file is wrong.
    only_here = any(host != node.host_key for host in elsewhere.get(node.plan.master_addr or "", ()))
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


def _meant_elsewhere(cluster: Cluster) -> dict[str, set[Host]]:
    """The hosts on which a name of MASTER_ADDR does not mean just each node itself, by the name."""
    found: dict[str, set[Host]] = {}
    for node in cluster.nodes:
        if node.plan.master_addr and node.master_addresses and not master_means_itself(node):
            found.setdefault(node.plan.master_addr, set()).add(node.host_key)
    return found


def shared_master_address(cluster: Cluster, node: Node, right: MasterTarget) -> str | None:
    """The address that ``node`` takes for the master's and has itself, as the host at the right place has it, too."""
    own = {a for other in cluster.nodes if other.host_key == right[0] for a in other.addresses if not is_loopback(a)}
    resolved = node.master_addresses
    return next((a for a in resolved if a in own and a in node.addresses and node.host_key != right[0]), None)


def names_with_different_masters(cluster: Cluster, found: Mapping[str, MasterTarget]) -> dict[str, list[Node]]:
    """Host names that lead to different places, each with the nodes that use them on one and the same port.

    And addresses that do: those that several hosts have.
    """
    groups: dict[tuple[str, int], list[Node]] = {}
    for node in cluster.nodes:
        name = node.plan.master_addr
        if node.name in found and name is not None:
            groups.setdefault((name, node.plan.master_port), []).append(node)
    return {name: nodes for (name, _), nodes in groups.items() if len({found[node.name] for node in nodes}) > 1}


def correct_master_target(nodes: Sequence[Node], found: Mapping[str, MasterTarget]) -> tuple[MasterTarget, bool]:
    """(the place that is taken for the right one, whether that is sure)."""
    said = Counter(found[node.name] for node in nodes)
    arrived = Counter[MasterTarget]()
    elsewhere = any(isinstance(found[node.name][0], frozenset) for node in nodes)
    whole = not elsewhere or len(nodes) >= (nodes[0].plan.nnodes or 0)
    for node in nodes:
        # Who hosts a store to which nobody came need not be node 0 where others look for it on a host that is not here
        chosen = whole or len(node.meeting.arrived) > 1 or 0 in (node.plan.node_rank, node.plan.rank)
        if node.meeting.hosted and chosen:
            arrived[found[node.name]] = max(arrived[found[node.name]], len(node.meeting.arrived), 1)
    usual, votes = said.most_common(1)[0]
    lonely = [target for target, came in arrived.items() if came == 1 and target != usual and target[0] == usual[0]]
    if lonely and all(votes > said[target] for target in lonely) and len(lonely) == len(arrived):
        return usual, True  # nobody came to that store: more look on its host for another port
    for counts in (arrived, said):
        ranked = counts.most_common(2)
        if len(ranked) == 1 or (len(ranked) == 2 and ranked[0][1] > ranked[1][1]):
            return ranked[0][0], True
    declared = [n for n in nodes if n.plan.node_rank == 0 or n.plan.rank == 0]
    if len(declared) == 1 and (not declared[0].saw("meeting") or found[declared[0].name] in arrived):
        return found[declared[0].name], True
    return found[nodes[0].name], False


# The addresses that lead to node 0 though no host has them: a service's, or one that is translated on the way.


@lru_cache(maxsize=4)
def leading_to(cluster: Cluster, zero: Node) -> frozenset[object]:
    """As numbers, the own addresses of ``zero``, and those by which nodes got to its store and which no node has."""
    owned = {parse_address(address) for node in cluster.nodes for address in node.addresses}
    found: set[object] = {parse_address(address) for address in zero.addresses}
    for node in cluster.nodes:
        contact = node.network.contact
        if contact is None or node.network.master_is_own or not joined_store(node) or not arrived(zero, node):
            continue
        if (number := parse_address(contact.address)) not in owned:
            found.add(number)
    return frozenset(found)


def joined_store(node: Node) -> bool:
    """Return whether the node got into the store that it looked for."""
    contact = node.network.contact
    return bool(node.meeting.joined and contact and contact.outcome == "open")


def arrived(zero: Node, node: Node) -> bool:
    """Return whether ``zero`` knows of it."""
    return bool({*node.keys} & {*zero.meeting.arrived})


# Who did not come to the meeting, by name: where nothing was heard of a node, the name that others know for it.


JOB_LIST = SLURM_LISTS[0]


def incomplete(meeting: MeetingFacts) -> bool:
    """Return whether node 0's meeting is over and not all came."""
    return meeting.ended and 0 < len(meeting.arrived) < meeting.expected


def fullest(cluster: Cluster) -> Node | None:
    """Return where several nodes hosted a store each, who had the most in it of those to whom not all came, else
    None."""
    short = [node for node in cluster.nodes if node.meeting.hosted and incomplete(node.meeting)]
    return max(short, key=lambda node: len(node.meeting.arrived), default=None)


def missing(cluster: Cluster, zero: Node, meeting: MeetingFacts) -> tuple[list[str], tuple[int, ...]]:
    """(names, global ranks) of those that did not come: by their own facts, by rank, else numbered from the top."""
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
        return [called(zero, rank) for rank in free]
    names = [name for name in zero.plan.roster if name not in here]
    if len(names) == len(free):
        return names
    callers = [host for host in dict.fromkeys(caller.host for caller in zero.meeting.callers) if host not in here]
    return [*callers[: len(free)], *(f"node{rank}" for rank in free[len(callers) :])]


def turned_away(cluster: Cluster, zero: Node, outside: list[Node], absent: list[str]) -> list[str]:
    """Return those of the absent nodes that node 0 did not let in because of their tokens: by name, and as many without
    one as called from a host of which another node is here. The facts of those ``outside`` say themselves why."""
    absent = [name for name in absent if name not in {node.name for node in outside}]
    known = {node.identity.hostname for node in cluster.nodes if node.meeting.token not in ("", "agreed")}
    hosts = [caller.host for caller in zero.meeting.callers if caller.host not in known]
    here = {node.identity.hostname for node in cluster.nodes}
    named = [name for name in absent if name in hosts]
    return named + [name for name in absent if name not in named][: sum(host in here for host in hosts)]


def called(zero: Node, rank: int) -> str:
    """The name that the launcher's list has for a node rank."""
    return zero.plan.roster[rank] if rank < len(zero.plan.roster) else f"node{rank}"


def short_of(cluster: Cluster, zero: Node, arrived: set[str]) -> list[str]:
    """The nodes of the launcher's list from which fewer processes came than it started there."""
    here = Counter(one.plan.node_rank for one in cluster.slices if one.key in arrived)
    known = {node.plan.node_rank: node.name for node in cluster.nodes}
    short = [number for number, tasks in enumerate(zero.plan.tasks) if here[number] < tasks]
    return [known.get(number) or called(zero, number) for number in short]


def missing_ranks(
    cluster: Cluster, zero: Node, meeting: MeetingFacts, strangers: list[Node]
) -> tuple[list[str], tuple[int, ...]]:
    """(names of their nodes, global ranks) of the ranks that did not come."""
    arrived = set(meeting.arrived)
    claimed = {s.plan.rank for s in cluster.slices if s.key in arrived and s.plan.rank is not None}
    ranks = tuple(rank for rank in range(min(meeting.expected, MOST_ABSENT)) if rank not in claimed)
    if zero.plan.tasks:
        return short_of(cluster, zero, arrived), ranks
    per_node = zero.plan.nproc_per_node
    places = {rank // per_node for rank in claimed} if per_node else set()
    # Who does not know its own rank has one of those that nobody has.
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
    """Return whether those who came to node 0 are as many as an elastic job (--nnodes MIN:MAX) starts with, which
    c10d lets it do once its ``last_call_timeout`` (30 s) is over
    (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py)."""
    plan = zero.plan
    return plan.rdzv_backend == "c10d" and bool(plan.min_nodes) and len(zero.meeting.arrived) >= (plan.min_nodes or 0)


def too_few_nodes_fix(zero: Node | None) -> tuple[Fix, ...]:
    """Return what to do where SLURM gave its job fewer nodes than the planned one has, and all of them are here."""
    if zero is None or zero.plan.min_nodes or zero.meeting.counts != "nodes":
        return ()
    listed, wanted = zero.variables.get(JOB_LIST, ""), zero.plan.nnodes or 0
    given = expand(listed)
    if not 0 < len(given) < wanted or len(zero.meeting.arrived) != len(given):
        return ()
    nodes = f"{len(given)} node{'s' if len(given) > 1 else ''}"
    text = (
        f"SLURM gave this job {nodes} ({JOB_LIST}={listed}), and --nnodes is {wanted}: ask it for {wanted} (#SBATCH "
        f"--nodes={wanted}), or start it with --nnodes {len(given)}."
    )
    return (Fix.on((zero,), text),)


def store_of(zero: Node) -> str:
    """Return the address and port of node 0's store, as its own plan has them."""
    return endpoint(str(zero.plan.master_addr), zero.plan.master_port)


def line_for_them(zero: Node) -> tuple[str, str]:
    """The line to run on nodes that did not come to node 0, started once per node, and what goes with it."""
    plan = zero.plan
    line = f"distdoctor check --nnodes {f'{plan.min_nodes}:{plan.nnodes}' if plan.min_nodes else plan.nnodes}"
    if plan.sources.get("nproc_per_node", "").startswith("--"):
        line += f" --nproc-per-node {plan.nproc_per_node}"
    how = [f"with the DISTDOCTOR_TOKEN of {zero.name} before it"] if zero.meeting.token == "agreed" else []
    if plan.rdzv_backend == "c10d":
        line += f" --rdzv-backend c10d --rdzv-endpoint {endpoint(str(plan.master_addr), plan.master_port)}"
    else:
        line += f" --master-addr {plan.master_addr} --master-port {plan.master_port}"
        how.append("add --node-rank where you give it")
    if plan.run_id != "none":
        line += f" --rdzv-id {quote(plan.run_id)}"
    return line, f" ({', '.join(how)})" if how else ""


def other_hosts_evidence(cluster: Cluster, node: Node) -> tuple[Fix, ...]:
    """Return what else may keep the others away, by ``node`` alone: ranks started by hand do not say on how many
    hosts they are, and MASTER_ADDR may mean each of these itself."""
    if node.plan.nnodes is not None or cluster.multi_host or not master_means_itself(node):
        return ()
    text = f"Where ranks belong on other hosts, MASTER_ADDR {node.plan.master_addr} means each host itself: "
    known = reachable_address(node, cluster) if node is cluster.node0 else None
    if known is None:
        return (Fix.on((node,), f"{text}name node 0 by an address that all of them reach.", 2),)
    return set_master_fixes((node,), f"{text}name {known}, on all of them.", known, option=2)


def plans_other_hosts(node: Node) -> bool:
    """Return whether this node's own plan has others on other hosts.

    Ranks started by hand need not say on how many they are: on one, localhost is right. A local rank above 0 and below
    the rank is of a later node."""
    plan = node.plan
    if plan.nnodes is not None or (plan.node_rank or 0) > 0 or first_of_job(node) is not None:
        return True
    return bool(plan.local_rank) and plan.rank is not None and (plan.local_rank or 0) < plan.rank


def first_of_job(node: Node) -> str | None:
    """The first node of the SLURM job that this is in, where that has several: ``gpu01`` of ``gpu[01-16],extra7``."""
    listed = node.variables.get(JOB_LIST, "")
    match = re.match(r"([\w.-]+)(?:\[(\d+)([^\]]*)\])?", listed)
    return match[1] + (match[2] or "") if match and (match[3] or match.end() < len(listed)) else None


def last_contact_text(node: Node) -> str:
    """Return what a node that never got in saw last of node 0, in words."""
    meeting, network, plan = node.meeting, node.network, node.plan
    if plan.master_addr is None:
        return "nothing says here where node 0 is"
    waited = f"waited {meeting.waited:.0f} s for {plan.master_addr}:{plan.master_port}" if node.saw("meeting") else ""
    if meeting.late is not None:
        return f"came when the check was over, with {meeting.late} of {plan.nnodes} there"
    if network.contact is None:
        return waited
    if meeting.host_lost:
        return f"{waited}; the check there ended before this node was counted"
    answer = network.answer.kind if network.answer is not None else ""
    if network.contact.outcome == "open" and answer == "distdoctor":
        return f"{waited}; the store there is that of a check in which this node takes no part"
    if network.contact.outcome == "open":
        return f"{waited}; the port is open, but nothing there answers as a store does"
    taken = "the port was open, but what listens there said nothing, and takes no more connections now"
    return f"{waited}; {taken if answer == 'silent' else f'at last {contact_text(network.contact)}'}"
