"""A rank joined the job and has ended.

## What you see
The other ranks wait in a collective, in a barrier, or while they create another group. The process of one rank no
longer exists, or is a zombie, and its launcher did not end the rest.

## Why it happens
It ended by an exception, a signal or out of memory, and no agent ends the others. The ranks were started one by one,
or a script forked them. The others notice it by their connections. These stay open while a process lives that the rank
forked (a helper, a worker of a data loader).

## Fix
Fix the last error in the log of that rank, then end the other ranks: `kill 4711 4712`. Start again with torchrun,
which ends all ranks if one fails.

## Confirm with
`journalctl -k --since -1h | grep -iE "oom|segfault"` on its node.

## When it is harmless
While the job is ending.

## See also
process/exception, process/killed-by-oom, process/rank0-died, collective/rank-missing
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, live, together

SEVERITY = "fail"
PREVENTS = "store hosted"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or not (job.waiting or live.all_await_orders(job)):
        return
    gone = job.gone
    if not gone:
        return
    nodes = tuple(dict.fromkeys(gone.values()))
    subject = f"Rank{'s' if len(gone) > 1 else ''} {together(map(str, gone))}"
    forks = [rank for rank in job.remains if rank.node.name in nodes]
    pids = " ".join(str(rank.process.pid) for rank in forks)
    end = f" End its forked processes, which keep its connections open: kill {pids}." if forks else ""
    yield Finding.about(
        nodes,
        f"{subject} on {together(nodes)} joined the job and {'have' if len(gone) > 1 else 'has'} ended; the others "
        "wait.",
        ranks=gone,
        evidence=(
            *(f"{node}: no process of rank {rank} exists, although it joined the group" for rank, node in gone.items()),
            *(
                f"{rank.node.name}: pid {rank.process.pid} is a fork of a rank that has ended, {rank.place.said()}, "
                "and keeps its connections open"
                for rank in forks
            ),
            *live.waiting_evidence(job, []),
        ),
        fixes=(
            Fix.on(
                nodes,
                f"Fix the last error in the log of {subject.lower()}, then restart the job.{end} "
                f"Confirm with: `journalctl -k --since -1h` on {together(nodes)}.",
            ),
        ),
    )
