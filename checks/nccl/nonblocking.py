"""torch takes NCCL's "in progress" for an error, where NCCL does not block.

What you see
------------
`RuntimeError: NCCL Error 7: NCCL operation in progress`, in all_to_all_single(), or in the first collective of a group
that was made with a device.

Why it happens
--------------
With TORCH_NCCL_USE_COMM_NONBLOCKING=1, or `blocking = 0` in the configuration of a group, NCCL's calls return at once
and say that they are under way. Not every call of torch waits for the end of that: all_to_all_single() does not in
torch 2.11 with NCCL 2.28 (tried on an H100: all_reduce, all_gather, reduce_scatter, broadcast, send and recv, and
all_to_all() of lists pass), nor what follows a group that is made at once for a device.

Fix
---
Take the variable out, or leave `blocking` as it is by default.

When it is harmless
-------------------
A job that does not call what torch does not wait for runs: with DistributedDataParallel alone nothing is seen of it.

See also
--------
nccl/init-failed, environment/setting-mismatch
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, names_of

SEVERITY = "warn"
MATTERS = "a job that calls it, as mixtures of experts do, ends there; others run"
VARIABLE = "TORCH_NCCL_USE_COMM_NONBLOCKING"
LOG = (
    Line(
        "NCCL Error 7: NCCL operation in progress",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    told = {node: lines for node in cluster.nodes if (lines := said(node))}
    if told:
        nodes = list(told)
        named = [node for node in nodes if VARIABLE in node.variables]
        yield Finding.about(
            nodes,
            f"all_to_all_single() fails on {names_of(nodes)}, where NCCL does not block: torch takes its answer, that "
            "it is at it, for an error. all_reduce, all_gather and reduce_scatter pass.",
            evidence=[
                *(f"{node.name}: {line}" for node in nodes for line in told[node]),
                *(f"{node.name}: {VARIABLE}={node.variables[VARIABLE]}" for node in named),
            ],
            fixes=[Fix.on(named, f"Take {VARIABLE} out.", env={VARIABLE: None})] if named else [],
        )


def said(node: Node) -> list[str]:
    """What torch said of a collective that NCCL then carried out, for the first of its ranks."""
    found = [
        f"rank {rank.rank}: {stage.detail['begun']}"
        for rank in node.facts.ranks
        for stage in rank.stages
        if stage.stage == "nccl" and stage.detail.get("begun")
    ]
    return found[:1]
