"""torch treats NCCL's "in progress" as an error in nonblocking mode.

## What you see
`RuntimeError: NCCL Error 7: NCCL operation in progress`, in all_to_all_single(), or in the first collective of a group
that was created with a device.

## Why it happens
With TORCH_NCCL_USE_COMM_NONBLOCKING=1, or `blocking = 0` in the configuration of a group, NCCL's calls return at once
with "in progress". Some calls of torch do not wait for the end. Measured with torch 2.11 and NCCL 2.28 on an H100:
all_to_all_single() and the first collective of an eagerly created group fail. all_reduce, all_gather, reduce_scatter,
broadcast, send, recv and all_to_all() of lists pass.

## Fix
Run `unset TORCH_NCCL_USE_COMM_NONBLOCKING` on every node, or remove `blocking = 0` from the group's configuration.

## Confirm with
`printenv TORCH_NCCL_USE_COMM_NONBLOCKING` on every node (must print nothing).

## When it is harmless
When the job calls none of these: DistributedDataParallel alone is not affected.

## See also
nccl/init-failed, environment/setting-mismatch
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, RankFacts, names_of, together

SEVERITY = "warn"
MATTERS = "a job that calls it, as mixtures of experts do, fails there"
VARIABLE = "TORCH_NCCL_USE_COMM_NONBLOCKING"
LOG = (Line("NCCL Error 7: NCCL operation in progress"),)


def judge(cluster: Cluster) -> Iterator[Finding]:
    affected = {
        node: ranks for node in cluster.nodes if (ranks := [rank for rank in node.facts.ranks if refused(rank)])
    }
    if affected:
        nodes = list(affected)
        named = [node for node in nodes if VARIABLE in node.variables]
        everyone = [rank for ranks in affected.values() for rank in ranks]
        names = together(dict.fromkeys(name for rank in everyone for name in refused(rank)))
        others = together(dict.fromkeys(name for rank in everyone for name in passed(rank)))
        yield Finding.about(
            nodes,
            f'{names} fails on {names_of(nodes)}: torch treats NCCL\'s "in progress" as an error in nonblocking mode'
            f"{f'; {others} pass' if others else ''}.",
            evidence=[
                *(
                    f"{node.name}: rank {ranks[0].rank}: {name}: {text}"
                    for node, ranks in affected.items()
                    for name, text in refused(ranks[0]).items()
                ),
                *(f"{node.name}: {VARIABLE}={node.variables[VARIABLE]}" for node in named),
            ],
            fixes=[Fix.on(named, f"Unset {VARIABLE}.", env={VARIABLE: None})] if named else [],
        )


def refused(rank: RankFacts) -> dict[str, str]:
    """Return the collectives that torch refused and NCCL then completed, with torch's errors."""
    details = (stage.detail.get("begun") for stage in rank.stages if stage.stage == "nccl")
    return next((dict(begun) for begun in details if begun), {})


def passed(rank: RankFacts) -> list[str]:
    return [str(name) for stage in rank.stages if stage.stage == "nccl" for name in stage.detail.get("passed", ())]
