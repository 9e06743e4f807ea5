"""The nodes have different numbers of ranks.

## What you see
Often nothing. Some NCCL versions deadlock in the first collective of such a job, at full GPU load and without a
message. Others run, but each step waits for the node with the most ranks per network card. With
TORCH_ELASTIC_WORKER_IDENTICAL=1 the nodes' ranks get different WORLD_SIZE values: all hang.

## Why it happens
--nproc-per-node changed on one node, or the scheduler gave it fewer devices. Or the driver lost a GPU, and
`--nproc-per-node gpu` counted the rest. With TORCH_ELASTIC_WORKER_IDENTICAL=1 each torchrun multiplies its own number
of ranks by the number of nodes (torch 2.6 and later).

## Fix
Start the same number of ranks on each node, `--nproc-per-node 8`; or `unset TORCH_ELASTIC_WORKER_IDENTICAL`, if it is
set.

## Confirm with
`nvidia-smi -L | wc -l` prints the same number of GPUs on every node.

## When it is harmless
With gloo and without that variable. With NCCL versions that support it, the job is only as fast as its fullest node.

## See also
gpu/fewer-than-ranks, environment/world-size-mismatch
"""

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    Iterator,
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
    difference = disagreement({node.name: rank_count(node) for node in nodes})
    if difference is None:
        return
    least, variable = min(difference.values.values()), settings.IDENTICAL
    also = f", but {variable}=1 declares them equal" if multiplied else ""
    yield Finding.about(
        [node for node in nodes if node.name in difference.blamed],
        f"The nodes have different numbers of ranks: {difference.said()}{also}.",
        unsure=not difference.majority,
        severity="fail" if multiplied else "warn",
        evidence=(
            f"{n.name}: {rank_count(n)} ranks (from {n.plan.sources.get('nproc_per_node', 'the default')})"
            for n in nodes
        ),
        fixes=(
            *(
                [Fix.on(nodes, f"Unset {variable}: torchrun then counts the ranks of each node.", env={variable: None})]
                if multiplied
                else ()
            ),
            *(
                set_launch_fix(
                    node,
                    f"Start {least} rank{'s' if least != 1 else ''} on each node.",
                    "nproc_per_node",
                    least,
                    2 if multiplied else 1,
                )
                for node in nodes
                if rank_count(node) != least
            ),
        ),
    )
