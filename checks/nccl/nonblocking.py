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

from distdoctor.check_api import Cluster, Finding, Fix, Line, RankFacts, names_of, together

SEVERITY = "warn"
MATTERS = "a job that calls it, as mixtures of experts do, ends there; others run"
VARIABLE = "TORCH_NCCL_USE_COMM_NONBLOCKING"
LOG = (Line("NCCL Error 7: NCCL operation in progress"),)


def judge(cluster: Cluster) -> Iterator[Finding]:
    told = {node: ranks for node in cluster.nodes if (ranks := [rank for rank in node.facts.ranks if refused(rank)])}
    if told:
        nodes = list(told)
        named = [node for node in nodes if VARIABLE in node.variables]
        everyone = [rank for ranks in told.values() for rank in ranks]
        names = together(dict.fromkeys(name for rank in everyone for name in refused(rank)))
        others = together(dict.fromkeys(name for rank in everyone for name in passed(rank)))
        yield Finding.about(
            nodes,
            f"torch refuses {names} on {names_of(nodes)}, where NCCL does not block: it takes NCCL's answer, that it "
            f"is at it, for an error{f'; with {others} it does not' if others else ''}.",
            evidence=[
                *(
                    f"{node.name}: rank {ranks[0].rank}: {name}: {text}"
                    for node, ranks in told.items()
                    for name, text in refused(ranks[0]).items()
                ),
                *(f"{node.name}: {VARIABLE}={node.variables[VARIABLE]}" for node in named),
            ],
            fixes=[Fix.on(named, f"Take {VARIABLE} out.", env={VARIABLE: None})] if named else [],
        )


def refused(rank: RankFacts) -> dict[str, str]:
    """The collectives that torch refused there and NCCL then carried out, with what torch said."""
    found = (stage.detail.get("begun") for stage in rank.stages if stage.stage == "nccl")
    return next((dict(begun) for begun in found if begun), {})


def passed(rank: RankFacts) -> list[str]:
    """Those that went well there."""
    return [str(name) for stage in rank.stages if stage.stage == "nccl" for name in stage.detail.get("passed", ())]
