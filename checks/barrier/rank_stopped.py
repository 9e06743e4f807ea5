"""A rank's process is stopped.

What you see
------------
Silence on every rank, up to the timeout of 30 minutes. Nothing names the rank, but for monitored_barrier():

    [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 8000 ms

and if rank 0 is the one that is stopped, not even that.

Why it happens
--------------
The process got SIGSTOP or SIGTSTP (Ctrl-Z, a scheduler that suspends jobs, a checkpointing tool, a container that was
paused), or a debugger or tracer holds it.

Fix
---
Let it go on: `kill -CONT PID`; a scheduler resumes what it suspended itself. Look first at who stopped it.

When it is harmless
-------------------
Never while the others wait.

See also
--------
barrier/rank-missing, store/node-lost
"""

from collections.abc import Iterator

from distdoctor.check_api import (
    Cluster,
    Finding,
    Fix,
    nodes_of_failed,
    ranks_of_failed,
    ranks_text,
    stopped_ranks,
    together,
)

SEVERITY = "fail"
PREVENTS = "ranks together"
HOW = {"T": "stopped by a signal", "t": "held by a tracer or debugger"}


def judge(cluster: Cluster) -> Iterator[Finding]:
    ended = stopped_ranks(cluster)
    if not ended:
        return
    names, ranks = nodes_of_failed(cluster, ended), ranks_of_failed(ended)
    are = "are" if len(ranks) > 1 else "is"
    yield Finding.about(
        names,
        f"{ranks_text(ranks)} on {together(names)} {are} stopped, and all others wait.",
        ranks=ranks,
        evidence=(
            f"{one.node.name}: rank {one.rank.rank}, pid {one.rank.pid}, in stage {one.stage.stage}: state "
            f"{one.stage.detail['state']} ({HOW[one.stage.detail['state']]})"
            for one in ended
        ),
        fixes=(
            Fix.on(
                name,
                f"On {name}, look at who stops the job's processes (a scheduler, a debugger, Ctrl-Z), and let them go "
                "on: pkill -CONT -f <the job's command>.",
            )
            for name in names
        ),
    )
