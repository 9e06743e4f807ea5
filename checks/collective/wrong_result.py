"""A collective gives a wrong result.

What you see
------------
Training that diverges, or differs from run to run, without any error.

Why it happens
--------------
Broken memory, a faulty network card or link that passes damaged data, mixed library versions between nodes.

Fix
---
Take the nodes concerned out, one at a time, and test their memory and network cards.

When it is harmless
-------------------
Never.

See also
--------
environment/version-mismatch, collective/failed
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    Finding,
    Fix,
    failed_ranks,
    nodes_of_failed,
    rank_errors_text,
    ranks_of_failed,
    together,
)

SEVERITY = "fail"
PREVENTS = "results right"


def judge(cluster: Cluster) -> Iterator[Finding]:
    ended = [
        one for stage in ("collective", "nccl") for one in failed_ranks(cluster, stage) if one.stage.detail.get("wrong")
    ]
    if not ended:
        return
    wrong = dict.fromkeys(str(name) for one in ended for name in one.stage.detail["wrong"])
    ranks = ranks_of_failed(ended)
    links = damaged(cluster, ended)
    between = {name for link in links for name in link}
    names = tuple(node.name for node in cluster.nodes if node.name in between) or nodes_of_failed(cluster, ended)
    where = f"; data is damaged on the way from {together(f'{a} to {b}' for a, b in links)}" if links else ""
    yield Finding.about(
        names,
        f"Wrong results of {together(wrong)} on rank {together(map(str, ranks))}{where}.",
        ranks=ranks,
        links=links,
        unsure=len(names) > 1,
        evidence=rank_errors_text(ended),
        fixes=(Fix(f"Leave {together(names)} out, one at a time, and test memory and network cards.", names),),
    )


def damaged(cluster: Cluster, ended: list[FailedRank]) -> tuple[tuple[str, str], ...]:
    """From which node to which data came damaged.

    In all_to_all a rank gets a part of each other one's, of which it is known whose it is. In send/recv it gets its
    neighbour's data and nothing else, while damage anywhere spoils all_reduce for all.
    """
    home = {rank.rank: node.name for node in cluster.nodes for rank in node.facts.ranks if rank.rank is not None}
    order = sorted(home)
    links = {}
    for one in ended:
        for rank in one.stage.detail.get("senders", ()):
            if home.get(rank, one.node.name) != one.node.name:
                links[home[rank], one.node.name] = True
        if "send_recv" in one.stage.detail["wrong"] and one.rank.rank in home:
            sender = home[order[order.index(one.rank.rank) - 1]]
            if sender != one.node.name:
                links[sender, one.node.name] = True
    return tuple(links)
