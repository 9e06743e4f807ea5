"""The launch line by which a node comes to the same rendezvous as another node, which is started rightly."""

from __future__ import annotations

from collections.abc import Collection

from distdoctor.model.addresses import endpoint
from distdoctor.model.cluster import Node

Flags = dict[str, str | None]


def flags_like(right: Node, node: Node, free: list[int]) -> Flags:
    """torchrun's flags for ``node``, to start it with the rendezvous that ``right`` has; None: without that flag.

    A static one takes one of the ``free`` node ranks out of that list.
    """
    plan = right.plan
    run_id = None if plan.run_id == "none" else plan.run_id
    if plan.rdzv_backend != "static":
        place = endpoint(plan.master_addr or "", plan.master_port)
        named: Flags = {"--rdzv-backend": plan.rdzv_backend, "--rdzv-endpoint": place, "--rdzv-id": run_id}
        return {**named, "--node-rank": None, "--master-addr": None, "--master-port": None}
    rank = node.node_rank if node.node_rank in free else free[0]
    free.remove(rank)
    named = {"--rdzv-backend": None, "--rdzv-endpoint": None, "--rdzv-id": run_id, "--node-rank": str(rank)}
    return {**named, "--master-addr": plan.master_addr, "--master-port": str(plan.master_port)}


def free_node_ranks(right: Collection[Node], total: int) -> list[int]:
    """The node ranks, from 0 to those of ``total`` nodes, that none of those which are started rightly has."""
    taken = {node.plan.node_rank for node in right}
    return [rank for rank in range(total + len(taken)) if rank not in taken]
