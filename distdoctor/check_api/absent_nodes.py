"""Who did not come to the meeting, by name: where nothing was heard of a node, the name that others know for it."""

from __future__ import annotations

import re
from collections import Counter
from shlex import quote

from distdoctor.check_api.fixes import set_master_fixes
from distdoctor.check_api.node_addresses import master_means_itself, reachable_address
from distdoctor.knowledge.connect_text import contact_text
from distdoctor.launch.nodes import expand
from distdoctor.model.addresses import endpoint
from distdoctor.model.bounds import MOST_ABSENT
from distdoctor.model.cluster import Cluster, Node
from distdoctor.model.facts import MeetingFacts
from distdoctor.model.findings import Fix
from distdoctor.model.launch_variables import SLURM_LISTS

JOB_LIST = SLURM_LISTS[0]


def incomplete(meeting: MeetingFacts) -> bool:
    """Whether node 0's meeting is over and not all came."""
    return meeting.ended and 0 < len(meeting.arrived) < meeting.expected


def fullest(cluster: Cluster) -> Node | None:
    """Where several nodes hosted a store each, who had the most in it of those to whom not all came, else None."""
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
    """Whether those who came to node 0 are as many as an elastic job (--nnodes MIN:MAX) starts with, which c10d lets it
    do once its ``last_call_timeout`` (30 s) is over (torch/distributed/elastic/rendezvous/dynamic_rendezvous.py)."""
    plan = zero.plan
    return plan.rdzv_backend == "c10d" and bool(plan.min_nodes) and len(zero.meeting.arrived) >= (plan.min_nodes or 0)


def given_too_few(zero: Node | None) -> tuple[Fix, ...]:
    """What to do where SLURM gave its job fewer nodes than the planned one has, and all of them are here."""
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


def on_other_hosts(cluster: Cluster, node: Node) -> tuple[Fix, ...]:
    """What else may keep the others away, by ``node`` alone: ranks started by hand do not say on how many hosts they
    are, and MASTER_ADDR may mean each of these itself."""
    if node.plan.nnodes is not None or cluster.multi_host or not master_means_itself(node):
        return ()
    text = f"Where ranks belong on other hosts, MASTER_ADDR {node.plan.master_addr} means each host itself: "
    known = reachable_address(node, cluster) if node is cluster.node0 else None
    if known is None:
        return (Fix.on((node,), f"{text}name node 0 by an address that all of them reach.", 2),)
    return set_master_fixes((node,), f"{text}name {known}, on all of them.", known, option=2)


def knows_of_other_hosts(node: Node) -> bool:
    """Whether this node's own plan has others on other hosts. Ranks started by hand need not say on how many they are:
    on one, localhost is right. A local rank above 0 and below the rank is of a later node."""
    plan = node.plan
    if plan.nnodes is not None or (plan.node_rank or 0) > 0 or first_of_job(node) is not None:
        return True
    return bool(plan.local_rank) and plan.rank is not None and (plan.local_rank or 0) < plan.rank


def first_of_job(node: Node) -> str | None:
    """The first node of the SLURM job that this is in, where that has several: ``gpu01`` of ``gpu[01-16],extra7``."""
    listed = node.variables.get(JOB_LIST, "")
    match = re.match(r"([\w.-]+)(?:\[(\d+)([^\]]*)\])?", listed)
    return match[1] + (match[2] or "") if match and (match[3] or match.end() < len(listed)) else None


def seen_last(node: Node) -> str:
    """What a node that never got in saw last of node 0, in words."""
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
