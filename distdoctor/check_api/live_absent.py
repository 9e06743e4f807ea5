"""Ranks that have not joined while others wait: those of nodes that joined, and those of nodes that did not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from distdoctor.check_api.live_agents import check_line, perhaps_late
from distdoctor.check_api.live_ranks import others_wait
from distdoctor.check_api.text import ranks_said, some_of
from distdoctor.knowledge.live_job import LiveJob
from distdoctor.knowledge.live_limits import ranks_wait
from distdoctor.model.addresses import endpoint
from distdoctor.model.findings import Finding, Fix

NOT_JOINED = "Some ranks have not joined the job"


def ranks_meet(job: LiveJob) -> bool:
    """Return whether ranks wait for others in init_process_group(), and not torchrun's agents for each other."""
    store, alone = job.store, not job.ranks
    if alone:
        return not job.agents_meet and store is not None and bool(store.joined)
    return store is not None and bool(job.waiting) and job.in_rendezvous


def absent_ranks(job: LiveJob) -> tuple[list[int], list[int]]:
    """Return the ranks that have not joined: those of nodes that joined, and those of nodes of which nothing joined.

    torchrun starts ranks only once all its agents have met. Else the ranks of a node follow each other.
    """
    store = job.store
    if store is None:
        return [], []
    absent = [rank for rank in store.missing if rank not in job.numbers] or counted_absent(job)
    if job.first.launcher == "torchrun" or job.on_one_host:
        return absent, []
    per_node = ranks_per_node(job)
    nodes = {rank // per_node for rank in (*store.joined, *job.numbers)}
    of_joined = [rank for rank in absent if job.host_of(rank) or rank // per_node in nodes]
    return of_joined, [rank for rank in absent if rank not in of_joined]


def counted_absent(job: LiveJob) -> list[int]:
    """All ranks that are not here, where the store counts as many as are here and wait; else empty."""
    store = job.store
    if store is None or not job.world or store.arrived != len(job.numbers) or len(job.waiting) != len(job.numbers):
        return []
    return [rank for rank in range(job.world) if rank not in job.numbers] if len(job.ranks) == store.arrived else []


def ranks_per_node(job: LiveJob) -> int:
    """The ranks of one node, as its launcher says; else the most that are seen of one."""
    told = [one.local_world_size for _, facts in job.facts for one in facts.ranks if one.local_world_size]
    group = job.store.default_group if job.store else None
    hosts = {member.rank: member.host for member in (group.members if group else ()) if member.host}
    hosts.update({number: rank.node.identity.hostname for number, rank in job.numbers.items()})
    return max(told or Counter(hosts.values()).values(), default=1)


def nodes_not_joined(job: LiveJob, absent: Sequence[int]) -> Finding:
    """Ranks of other nodes have not joined; ``absent`` is empty where the store does not tell which they are."""
    store, world = job.store, job.world or 0
    assert store is not None
    joined = world - len(absent) if absent else store.arrived or 0
    hosts = dict.fromkeys(rank.node.name for rank in job.ranks)
    who = ranks_said(absent[:8]).lower() + (f" and {len(absent) - 8} more" if absent[8:] else "") if absent else ""
    wait, late = ranks_wait(job), perhaps_late(job)
    so_far = f" {wait.so_far}; {wait.ends}" if job.ranks else ""
    return Finding.about(
        (),
        f"{joined} of {world} ranks joined {endpoint(job.first.master_addr or store.host, store.port)}"
        f"{f' ({some_of(hosts)} has ' + ranks_here(job) + ')' if hosts and len(hosts) == 1 else ''}; "
        f"{who or str(world - joined) + ' more, which the store does not name,'} "
        f"{'has' if world - joined == 1 else 'have'} not joined{so_far}.",
        title=NOT_JOINED,
        ranks=absent,
        evidence=(
            f"the store at {store.host} port {store.port} counts {store.arrived}" if store.arrived is not None else "",
            *others_wait(job, []),
        ),
        fixes=(start_absent(job, absent),),
        severity="warn" if late else None,
        matters=late,
    )


def ranks_here(job: LiveJob) -> str:
    return ranks_said(sorted(job.numbers)[:8], "some").lower()


def start_absent(job: LiveJob, absent: Sequence[int]) -> Fix:
    """Start these ranks; where they run, ``distdoctor check`` on their node says what keeps them."""
    store, world, per_node = job.store, job.world or 0, ranks_per_node(job)
    those = ranks_said(absent[:8]).lower() if absent else "the ranks that have not joined"
    more = " and the others" if absent[8:] else ""
    text = f"Start {those}{more}, with the same MASTER_ADDR, MASTER_PORT and WORLD_SIZE."
    numbers = sorted({rank // per_node for rank in absent})
    whole = world % per_node == 0 and len(absent) == len(numbers) * per_node
    if store is None or (absent and not whole) or world % per_node:
        return Fix(text)
    number = str(numbers[0]) if len(numbers) == 1 else "N"
    line = check_line(job, world // per_node, str(per_node), number, store)
    they, their = ("it runs", "its") if len(absent) == 1 else ("they run", "their")
    nodes = "nodes" if numbers[1:] else "node"
    return Fix(f"{text} If {they} already, run this on {their} {nodes}: `{line}`.")
