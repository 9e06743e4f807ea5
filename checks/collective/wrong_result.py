"""A collective returns a wrong result.

## What you see
Training that diverges, or differs from run to run, without any error. `# Out of bounds values : 344 FAILED` of
nccl-tests.

## Why it happens
Faulty memory, a faulty network card or link that damages data, or different library versions on the nodes.

## Fix
Remove the affected nodes from the job, one at a time (`srun --exclude=host1`), until the result is right. Then replace
the memory or network card of the faulty node.

## Confirm with
`ethtool -S eth0 | grep -i err`, `edac-util -v`, and `memtester 4G 1` on the affected nodes.

## When it is harmless
Never.

## See also
environment/version-mismatch, collective/failed
"""

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    Finding,
    Fix,
    Iterator,
    Line,
    failed_ranks,
    nodes_of_failed,
    rank_errors_text,
    ranks_of_failed,
    ranks_text,
    together,
)

SEVERITY = "fail"
PREVENTS = "results right"
LOG = (
    Line(  # nccl-tests, src/common.cu: the last line but one, over all sizes and ranks
        "# Out of bounds values : ",
        r"# Out of bounds values : [1-9]\d{0,18} FAILED",
        told="nccl-tests found wrong values after a collective",
        fix="Run it again with `-c 1` on half of the nodes at a time, until the nodes that damage data are known. If "
        "all halves fail, change the versions of NCCL and of its network plugin.",
    ),
)


def judge(cluster: Cluster) -> Iterator[Finding]:
    ended = [
        failure
        for stage in ("collective", "nccl")
        for failure in failed_ranks(cluster, stage)
        if failure.stage.detail.get("wrong")
    ]
    if not ended:
        return
    wrong = dict.fromkeys(str(name) for failure in ended for name in failure.stage.detail["wrong"])
    ranks = ranks_of_failed(ended)
    links = damaged(cluster, ended)
    between = {name for link in links for name in link}
    names = tuple(node.name for node in cluster.nodes if node.name in between) or nodes_of_failed(cluster, ended)
    where = f"; data is damaged on the path from {together(f'{a} to {b}' for a, b in links)}" if links else ""
    yield Finding.about(
        names,
        f"{together(wrong)} returned wrong results on {ranks_text(ranks).lower()}{where}.",
        ranks=ranks,
        links=links,
        unsure=len(names) > 1,
        evidence=rank_errors_text(ended),
        fixes=(
            Fix(
                f"Run the job without {' or without '.join(names)}. If it then succeeds, replace that node's memory or "
                "network card. Confirm with: `edac-util -v`, `ethtool -S`.",
                names,
            ),
        ),
    )


def damaged(cluster: Cluster, ended: list[FailedRank]) -> tuple[tuple[str, str], ...]:
    """Return the links, as (sender, receiver), on which data was damaged.

    In all_to_all a rank gets a part of every other rank, with a known sender. In send/recv it gets its neighbour's data
    only. Damage anywhere spoils all_reduce for all ranks.
    """
    home = {rank.rank: node.name for node in cluster.nodes for rank in node.facts.ranks if rank.rank is not None}
    order = sorted(home)
    links = {}
    for failure in ended:
        for rank in failure.stage.detail.get("senders", ()):
            if home.get(rank, failure.node.name) != failure.node.name:
                links[home[rank], failure.node.name] = True
        if "send_recv" in failure.stage.detail["wrong"] and failure.rank.rank in home:
            sender = home[order[order.index(failure.rank.rank) - 1]]
            if sender != failure.node.name:
                links[sender, failure.node.name] = True
    return tuple(links)
