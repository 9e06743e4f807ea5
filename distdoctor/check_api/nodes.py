"""Who a node is in the job: node 0, one with other hosts beside it, one with so many ranks and these backends."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from distdoctor.knowledge.gloo import initiates
from distdoctor.model.addresses import is_loopback
from distdoctor.model.cluster import Cluster, Node


def node0_name(cluster: Cluster, seen_from: Node | None = None) -> str:
    """Node 0's name: its own where its facts are here, else what /etc/hosts calls MASTER_ADDR, else ``node0``.

    The name of a node that is here and was started as another one is not node 0's.
    """
    if cluster.node0 is not None:
        return cluster.node0.name
    sources = (seen_from,) if seen_from else cluster.nodes
    others = {node.name for node in cluster.nodes if node.plan.node_rank}
    for node in sources:
        if node.network.master_name and node.network.master_name not in others:
            return node.network.master_name
    return "node0"


def claims_node0(node: Node) -> bool:
    """Whether this node takes itself for node 0: by its rank, by hosting the store, or as the owner of MASTER_ADDR."""
    plan, network, meeting = node.plan, node.network, node.meeting
    if plan.started == "rank":
        return plan.rank == 0 or 0 in node.ranks
    if meeting.hosted:
        return True
    if plan.node_rank is not None:
        return plan.node_rank == 0
    return bool(network.master_is_own)


def met_other_run(node: Node) -> bool:
    """Whether another run of the check has the port of this node, which its own plan makes node 0.

    Node 0 hosts the store of its run. One that finds on its own address a store with the doctor's mark was started
    beside another: of another job, or of the same one twice.
    """
    plan, network, meeting = node.plan, node.network, node.meeting
    zero = plan.rank == 0 if plan.started == "rank" else plan.node_rank == 0
    if not zero or plan.agent_store or meeting.hosted:
        return False
    if network.bind is not None:
        return not network.bind.ok and network.bind.answer is not None and network.bind.answer.kind == "distdoctor"
    if not node.saw("meeting") or not network.master_is_own:
        return False
    # It joined that store, to be found as one too many, and was not counted.
    return meeting.ended and (meeting.host_lost or meeting.late is not None)


def store_host(cluster: Cluster) -> Node | None:
    """Node 0 where its facts are here and say that it hosts the store, else None."""
    node = cluster.node0
    if node is None or not node.meeting.hosted:
        return None
    bind = node.network.bind
    return node if bind is None or bind.ok else None


def has_other_hosts(cluster: Cluster, node: Node) -> bool:
    """Whether other hosts take part, as far as is known: they, too, may have to reach this node's addresses."""
    if len(cluster.nodes) > 1:
        return bool(cluster.peers(node))
    # Alone, and everything it talks to is on loopback: the others may well be on this host.
    master = node.network.master
    local = master is not None and bool(master.addresses) and all(map(is_loopback, master.addresses))
    return cluster.multi_host and not local and node.reached_at is not None and not is_loopback(node.reached_at)


def makes_gloo_group(node: Node) -> bool:
    """Whether a gloo group is planned, or was tried, on this node."""
    return node.plan.gloo_planned or any(s.stage == "gloo" and s.status != "skipped" for s in node.facts.stages)


# -- launch arithmetic ----------------------------------------------------------------------------------------------


def missing_ranks(cluster: Cluster) -> tuple[int, ...]:
    """The global ranks that nobody here claims, for processes started once per rank."""
    plans = [one.plan for one in cluster.slices or tuple(n.facts for n in cluster.nodes)]
    return _unclaimed((p.rank for p in plans), [p.world_size for p in plans])


def missing_node_ranks(cluster: Cluster) -> tuple[int, ...]:
    """The node ranks that no node here has, declared or assigned."""
    return _unclaimed((n.node_rank for n in cluster.nodes), [n.plan.nnodes for n in cluster.nodes])


def _unclaimed(claimed: Iterable[int | None], totals: Sequence[int | None]) -> tuple[int, ...]:
    known = [total for total in totals if total is not None]
    if not known:
        return ()
    total = max(known, key=lambda value: (known.count(value), value))
    # A total from a broken variable may be absurdly large; nobody needs the names of a million missing ranks.
    return tuple(sorted(set(range(min(total, 100_000))) - {rank for rank in claimed if rank is not None}))


def plans_nccl_group(node: Node) -> bool:
    """Whether the job makes an NCCL group on this node."""
    return "nccl" in node.plan.backends(gpus=node.gpus)


def rank_count(node: Node) -> int:
    """How many ranks the node has: planned where it was started once per node or that is known, else those seen."""
    return node.plan.nproc_per_node or len(node.facts.ranks)


def planned_rank_count(cluster: Cluster) -> int:
    """How many ranks the job has, as far as the plan or the nodes here tell; 1 at least."""
    return max(cluster.plan.world_size or 0, sum(rank_count(node) for node in cluster.nodes), 1)


def gloo_dials(node: Node, peer: Node, at: str | None) -> bool:
    """Whether the node's gloo connects to the device of ``peer`` that has the address ``at``, and not the peer's to it:
    the larger address does (see knowledge.gloo). Of equal ones that is not known before: it may."""
    theirs, mine = peer.gloo_addresses, node.gloo_addresses
    place = theirs.index(at) if at in theirs else 0
    own = mine[place] if place < len(mine) else node.gloo_address or ""
    return initiates(own, at or "") or own == at
