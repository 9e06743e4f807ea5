"""Some ranks do not reach a barrier.

## What you see
The other ranks hang in the first collective, or fail with `Connection closed by peer` or `Connection reset by peer`.
monitored_barrier() names the missing ranks:

    [Rank 0]: Ranks 1, 2 failed to pass monitoredBarrier in 8000 ms

## Why it happens
The process ended (out of memory, a scheduler's limit, a crash), gets no processor, or lost its connections after init.

## Fix
Fix the last error in the output of the missing rank. If signal 9 ended it, request more memory:
`sbatch --mem 64G job.sh`. If it runs and gets no processor, end the other load on its node.

## Confirm with
`ps -o pid,stat,pcpu,args -p 4711` on its node, `journalctl -k --since -1h | grep -i oom`, and
`sacct -j JOBID`.

## When it is harmless
When the host was overloaded for a moment: run the check again.

## See also
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
    Line(  # of XLA's coordination service, for JAX
        "imed out task names:",
        unless="PjRT_Client_Connect",
        shows="symptom",
        why="a task that is slow, dead or was never started shows the same",
    ),
    Line("failed to pass monitoredBarrier", r"Rank (?P<rank>(?P<missing>\d+)) failed to pass monitoredBarrier"),
)
PREVENTS = "ranks together"
SYMPTOM_OF = "ranks together"
FOLLOWS = ("process/killed-by-oom",)
FROM_OUTSIDE = tuple(f"by signal {number}" for number in (1, 2, 9, 15))
"""Signals that a process does not send itself; an abort or a bad access may be caused by other nodes."""


def judge(cluster: Cluster) -> Iterator[Finding]:
    gone = died_ranks(cluster)
    if gone:
        yield ended_early(cluster, gone)
        return
    ended = failed_ranks(cluster, "barrier")
    if not ended:
        return
    # Only rank 0 learns which ranks are missing; the errors of the others are consequences.
    ranks = sorted(
        {rank for failure in ended for rank in missing_ranks(failure.stage.error, failure.stage.detail.get("missing"))}
    )
    nodes = tuple(node for node in cluster.nodes if set(node.ranks) & set(ranks))
    accused = None
    if not nodes:
        accused = accused_by_errors(cluster, failed_by_themselves(ended))
        nodes = accused.nodes
        ranks = list(ranks_to_blame(failed_by_themselves(ended), accused))
    yield Finding.about(
        nodes,
        f"{ranks_text(ranks, 'Some ranks')} on {names_of(nodes)} did not pass the barrier.",
        ranks=ranks,
        unsure=accused is not None and accused.blame == "one-of",
        evidence=rank_errors_text(failed_by_themselves(ended)),
        fixes=[
            Fix.on(
                nodes,
                f"Fix the last error in the output of {ranks_text(ranks, 'these ranks').lower()}, or restart them. "
                f"Confirm with: `ps -eo pid,stat,pcpu,args` on {names_of(nodes)}.",
            )
        ],
    )


def ended_early(cluster: Cluster, gone: list[FailedRank]) -> Finding:
    """Return the finding about ranks that ended before or in the barrier."""
    names, ranks = nodes_of_failed(cluster, gone), ranks_of_failed(gone)
    how = together(dict.fromkeys(rank.stage.error or "the process ended" for rank in gone))
    finding = Finding.about(
        names,
        f"{ranks_text(ranks)} on {together(names)} ended in stage {gone[0].stage.stage}: {how}.",
        ranks=ranks,
        evidence=(
            f"{dead.node.name}: rank {dead.rank.rank}, pid {dead.rank.pid}, in stage {dead.stage.stage}: "
            f"{dead.stage.error}"
            for dead in gone
        ),
        fixes=[
            Fix.on(
                names,
                f"Fix the last error in the output of {ranks_text(ranks).lower()} on {together(names)}, then start "
                "again. "
                "Confirm with: `journalctl -k --since -1h`, and the scheduler's log.",
            )
        ],
    )
    return replace(finding, of_its_own=all((dead.stage.error or "").endswith(FROM_OUTSIDE) for dead in gone))


def missing_ranks(error: str | None, missing: object) -> list[int]:
    """Return the ranks that rank 0 reports as missing."""
    if isinstance(missing, list) and missing:
        return [rank for rank in missing if isinstance(rank, int)]
    match = re.search(r"Ranks ([\d, ]+) failed to pass", error or "")
    return [int(rank) for rank in re.findall(r"\d{1,7}", match[1])] if match else []
