"""Some ranks do not reach a barrier.

What you see
------------
The others wait in the first collective, or fail with `Connection closed by peer`, `Connection reset by peer`.
monitored_barrier() names the missing ones:

    [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 8000 ms

Why it happens
--------------
The process ended (killed by the kernel when memory ran out, by a scheduler's limit, by a crash), is starved of
processors, or its connections were cut after init.

Fix
---
Look at these ranks on their node: are they there, are they running, what do they wait for? For one that was ended by
signal 9: `dmesg`, the scheduler's log; by another signal: its own output.

When it is harmless
-------------------
When the host was overloaded for a moment: run it again.

See also
--------
barrier/rank-stopped, store/node-lost, gloo/init-failed
"""

import re
from collections.abc import Iterator
from dataclasses import replace

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    Finding,
    Fix,
    Line,
    accused_by_errors,
    died_ranks,
    failed_by_themselves,
    failed_ranks,
    names_of,
    nodes_of_failed,
    rank_errors_text,
    ranks_of_failed,
    ranks_text,
    ranks_to_blame,
    together,
)

SEVERITY = "fail"
LOG = (
    Line("monitoredBarrier", r"Ranks? (?P<ranks>(?P<missing>[\d, ]+)) failed to pass monitoredBarrier"),
    Line("failed to pass monitoredBarrier", r"Rank (?P<rank>(?P<missing>\d+)) failed to pass monitoredBarrier"),
)
PREVENTS = "ranks together"
SYMPTOM_OF = "ranks together"
FOLLOWS = ("process/killed-by-oom",)
FROM_OUTSIDE = tuple(f"by signal {number}" for number in (1, 2, 9, 15))
"""A process does not end itself so; it may with an abort or a bad access, for what other nodes sent."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    gone = died_ranks(cluster)
    if gone:
        yield ended_early(cluster, gone)
        return
    ended = failed_ranks(cluster, "barrier")
    if not ended:
        return
    # Only rank 0 is told who is missing; what the others say follows from that.
    ranks = sorted({rank for one in ended for rank in named(one.stage.error, one.stage.detail.get("missing"))})
    nodes = tuple(node for node in cluster.nodes if set(node.ranks) & set(ranks))
    whom = None
    if not nodes:
        whom = accused_by_errors(cluster, failed_by_themselves(ended))
        nodes = whom.nodes
        ranks = list(ranks_to_blame(failed_by_themselves(ended), whom))
    yield Finding.about(
        nodes,
        f"{ranks_text(ranks, 'Some ranks')} on {names_of(nodes)} did not pass the barrier.",
        ranks=ranks,
        unsure=whom is not None and whom.blame == "one-of",
        evidence=rank_errors_text(failed_by_themselves(ended)),
        fixes=[Fix.on(nodes, f"Look at these processes on {names_of(nodes)}: are they there, and running?")],
    )


def ended_early(cluster: Cluster, gone: list[FailedRank]) -> Finding:
    """The finding about ranks whose process was gone before the barrier, or in it."""
    names, ranks = nodes_of_failed(cluster, gone), ranks_of_failed(gone)
    how = together(dict.fromkeys(one.stage.error or "the process ended" for one in gone))
    found = Finding.about(
        names,
        f"{ranks_text(ranks)} on {together(names)} ended in stage {gone[0].stage.stage}: {how}.",
        ranks=ranks,
        evidence=(
            f"{one.node.name}: rank {one.rank.rank}, pid {one.rank.pid}, in stage {one.stage.stage}: {one.stage.error}"
            for one in gone
        ),
        fixes=[Fix.on(names, f"Look at what ended it on {together(names)}: dmesg, the scheduler's log, its output.")],
    )
    return replace(found, of_its_own=all((one.stage.error or "").endswith(FROM_OUTSIDE) for one in gone))


def named(error: str | None, missing: object) -> list[int]:
    """The ranks that rank 0 was told are missing."""
    if isinstance(missing, list) and missing:
        return [rank for rank in missing if isinstance(rank, int)]
    match = re.search(r"Ranks ([\d, ]+) failed to pass", error or "")
    return [int(rank) for rank in re.findall(r"\d{1,7}", match[1])] if match else []
