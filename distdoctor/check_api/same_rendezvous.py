"""Where torchrun's agents meet: who hosts it, and the launch line that brings a node to another's rendezvous."""

from __future__ import annotations

from collections.abc import Collection

from distdoctor.knowledge.shared_settings import IDENTICAL
from distdoctor.knowledge.torchrun import counts_ranks_alone, needs_own_name, takes_itself_for_host
from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Node
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, NODE_RANK, RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID

__all__ = [
    "IDENTICAL", "counts_ranks_alone", "flags_like", "free_node_ranks", "needs_own_name", "takes_itself_for_host",
]  # fmt: skip
Flags = dict[str, str | None]
_SETTINGS = (RDZV_BACKEND, RDZV_ENDPOINT, RDZV_ID, NODE_RANK, MASTER_ADDR, MASTER_PORT)


def flags_like(right: Node, node: Node, free: list[int]) -> Flags:
    """torchrun's flags for ``node``, to start it with the rendezvous that ``right`` has; None: without that flag.

    A static one takes one of the ``free`` node ranks out of that list.
    """
    plan = right.plan
    told: Flags = {setting.flag: None for setting in _SETTINGS}
    told[RDZV_ID.flag] = None if plan.run_id == "none" else plan.run_id
    if plan.rdzv_backend != "static":
        place = endpoint(plan.master_addr or "", plan.master_port)
        return {**told, RDZV_BACKEND.flag: plan.rdzv_backend, RDZV_ENDPOINT.flag: place}
    rank = node.node_rank if node.node_rank in free else free[0]
    free.remove(rank)
    master = {MASTER_ADDR.flag: plan.master_addr, MASTER_PORT.flag: str(plan.master_port)}
    return {**told, **master, NODE_RANK.flag: str(rank)}


def free_node_ranks(right: Collection[Node], total: int) -> list[int]:
    """The node ranks, from 0 to those of ``total`` nodes, that none of those which are started rightly has."""
    taken = {node.plan.node_rank for node in right}
    return [rank for rank in range(total + len(taken)) if rank not in taken]
