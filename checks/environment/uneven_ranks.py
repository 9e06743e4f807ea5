"""Nodes have different numbers of ranks, and NCCL connects them.

What you see
------------
Often nothing. Some NCCL versions deadlock in the first collective of such a job, at full GPU load and without a
message; others run, but wait in every step for the node with the most ranks per network card.

Why it happens
--------------
--nproc-per-node was changed on one node, the scheduler gave out fewer devices there, or the driver of one node lost a
GPU and `--nproc-per-node gpu` counted the rest.

Fix
---
Start the same number of ranks on each node.

When it is harmless
-------------------
With gloo, and with NCCL versions that are known to work so: the job then is only as fast as its fullest node.

See also
--------
gpu/fewer-than-ranks, environment/world-size-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, disagreement, plans_nccl_group, rank_count, set_launch_fix

SEVERITY = "warn"
MATTERS = "some versions of NCCL hang in the first collective of such a job"
LOOKS_AT = ("everyone",)
FOLLOWS = ("gpu/fewer-than-ranks", "environment/invalid-variable", "environment/missing-variable")
FOLLOWS_ANYWHERE = ("environment/world-size-mismatch", "environment/duplicate-rank")


def judge(cluster: Cluster) -> Iterator[Finding]:
    if not all(plans_nccl_group(node) for node in cluster.nodes):
        return
    # Of a node started once per rank all ranks may not be here yet.
    nodes = [n for n in cluster.nodes if n.plan.started == "node" or n.plan.nproc_per_node is not None]
    found = disagreement({node.name: rank_count(node) for node in nodes})
    if found is None:
        return
    least = min(found.values.values())
    yield Finding.about(
        [node for node in nodes if node.name in found.blamed],
        f"The nodes have different numbers of ranks: {found.said()}.",
        unsure=not found.majority,
        evidence=(
            f"{n.name}: {rank_count(n)} ranks (from {n.plan.sources.get('nproc_per_node', 'the default')})"
            for n in nodes
        ),
        fixes=(
            set_launch_fix(node, f"Start {least} ranks on each node.", "nproc_per_node", least)
            for node in nodes
            if rank_count(node) != least
        ),
    )
