"""Nodes have different numbers of ranks, and must have the same.

What you see
------------
Often nothing. Some NCCL versions deadlock in the first collective of such a job, at full GPU load and without a
message; others run, but wait in every step for the node with the most ranks per network card. With
TORCH_ELASTIC_WORKER_IDENTICAL=1 the ranks of one node have another WORLD_SIZE than those of the other: all hang.

Why it happens
--------------
--nproc-per-node was changed on one node, the scheduler gave out fewer devices there, or the driver of one node lost a
GPU and `--nproc-per-node gpu` counted the rest. TORCH_ELASTIC_WORKER_IDENTICAL=1 makes each torchrun multiply its own
number by that of the nodes (torch 2.6 and later).

Fix
---
Start the same number of ranks on each node; or unset TORCH_ELASTIC_WORKER_IDENTICAL, if it is that.

When it is harmless
-------------------
With gloo and without that variable; with NCCL versions that are known to work so: the job then is only as fast as its
fullest node.

See also
--------
gpu/fewer-than-ranks, environment/world-size-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    disagreement,
    plans_nccl_group,
    rank_count,
    set_launch_fix,
    settings,
)

SEVERITY = "warn"
PREVENTS = "gloo group formed"
MATTERS = "some versions of NCCL hang in the first collective of such a job"
LOOKS_AT = ("everyone",)
FOLLOWS = ("gpu/fewer-than-ranks", "environment/invalid-variable", "environment/missing-variable")
FOLLOWS_ANYWHERE = ("environment/world-size-mismatch", "environment/duplicate-rank")


def judge(cluster: Cluster) -> Iterator[Finding]:
    multiplied = all(map(settings.counts_ranks_alone, cluster.nodes))
    if not multiplied and not all(plans_nccl_group(node) for node in cluster.nodes):
        return
    # Of a node started once per rank all ranks may not be here yet.
    nodes = [n for n in cluster.nodes if n.plan.started == "node" or n.plan.nproc_per_node is not None]
    found = disagreement({node.name: rank_count(node) for node in nodes})
    if found is None:
        return
    least, variable = min(found.values.values()), settings.IDENTICAL
    also = f", and {variable}=1 says that they have not" if multiplied else ""
    yield Finding.about(
        [node for node in nodes if node.name in found.blamed],
        f"The nodes have different numbers of ranks: {found.said()}{also}.",
        unsure=not found.majority,
        severity="fail" if multiplied else "warn",
        evidence=(
            f"{n.name}: {rank_count(n)} ranks (from {n.plan.sources.get('nproc_per_node', 'the default')})"
            for n in nodes
        ),
        fixes=(
            *(
                [Fix.on(nodes, "Let torchrun count the ranks of each node.", env={variable: None})]
                if multiplied
                else ()
            ),
            *(
                set_launch_fix(
                    node, f"Start {least} ranks on each node.", "nproc_per_node", least, 2 if multiplied else 1
                )
                for node in nodes
                if rank_count(node) != least
            ),
        ),
    )
