"""A rank came to the job and is gone.

What you see
------------
The others wait: in a collective, in a barrier, or in making a further group. The process of one rank is no longer
there, or is a zombie, while its launcher did not end the rest.

Why it happens
--------------
It ended by an exception, a signal or for want of memory, and nobody ends the others: ranks that were started one by one
have no agent that would, and a script that forks them need not look. The others notice by their connections to it,
which stay open while a process lives that it had forked (a helper, a worker of a data loader).

Fix
---
Read the log of that rank, and `dmesg` for a kill by the kernel; end the others, and start again. torchrun ends all
ranks where one fails.

When it is harmless
-------------------
Where the job is just ending.

See also
--------
process/exception, process/killed-by-oom, process/rank0-died, collective/rank-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, live, together

SEVERITY = "fail"
PREVENTS = "store hosted"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None or not job.waiting:
        return
    gone = job.gone
    if not gone:
        return
    nodes = tuple(dict.fromkeys(gone.values()))
    said = f"Rank{'s' if len(gone) > 1 else ''} {together(map(str, gone))}"
    left = [rank for rank in job.remains if rank.node.name in nodes]
    pids = " ".join(str(rank.process.pid) for rank in left)
    end = f"; end what it has forked (pid {pids}), else that keeps its connections open" if left else ""
    yield Finding.about(
        nodes,
        f"{said} came to the job on {together(nodes)} and {'are' if len(gone) > 1 else 'is'} gone; the others wait.",
        ranks=gone,
        evidence=(
            *(f"{node}: no process of rank {rank} is left, though it joined the group" for rank, node in gone.items()),
            *(
                f"{rank.node.name}: pid {rank.process.pid} is a fork of a rank that has ended, {rank.place.said()}, "
                "and keeps its connections open: the others do not notice"
                for rank in left
            ),
            *live.waiting_evidence(job, []),
        ),
        fixes=(
            Fix.on(
                nodes,
                f"Look why it ended: its log, and the kernel's (dmesg) on {together(nodes)}{end}; then start again.",
            ),
        ),
    )
