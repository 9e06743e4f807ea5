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
from typing import Any

from distdoctor.check_api import Cluster, Finding, Fix, Line, Node, RankFacts, names_of, together

SEVERITY = "warn"
MATTERS = "a job that calls it, as mixtures of experts do, ends there; others run"
VARIABLE = "TORCH_NCCL_USE_COMM_NONBLOCKING"
LOG = (
    Line(
        "NCCL Error 7: NCCL operation in progress",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    told = {node: ranks for node in cluster.nodes if (ranks := refused(node))}
    if told:
        nodes = list(told)
        named = [node for node in nodes if VARIABLE in node.variables]
        details = [detail for ranks in told.values() for _, detail in ranks]
        names = together(dict.fromkeys(name for detail in details for name in detail["begun"]))
        passed = together(dict.fromkeys(name for detail in details for name in detail.get("passed", ())))
        yield Finding.about(
            nodes,
            f"torch refuses {names} on {names_of(nodes)}, where NCCL does not block: it takes NCCL's answer, that it "
            f"is at it, for an error{f'; with {passed} it does not' if passed else ''}.",
            evidence=[
                *(
                    f"{node.name}: rank {rank.rank}: {name}: {text}"
                    for node in nodes
                    for rank, detail in told[node][:1]
                    for name, text in detail["begun"].items()
                ),
                *(f"{node.name}: {VARIABLE}={node.variables[VARIABLE]}" for node in named),
            ],
            fixes=[Fix.on(named, f"Take {VARIABLE} out.", env={VARIABLE: None})] if named else [],
        )


def refused(node: Node) -> list[tuple[RankFacts, dict[str, Any]]]:
    """Its ranks for which torch refused a collective that NCCL then carried out, with what is told of that."""
    return [
        (rank, stage.detail)
        for rank in node.facts.ranks
        for stage in rank.stages
        if stage.stage == "nccl" and stage.detail.get("begun")
    ]
