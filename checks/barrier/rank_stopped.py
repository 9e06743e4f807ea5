"""A rank's process is stopped.

## What you see
Silence on every rank, up to the timeout of 30 minutes. Only monitored_barrier() names the rank:

    [Rank 0]: Ranks 1 failed to pass monitoredBarrier in 8000 ms

If rank 0 is the stopped one, even this line is missing.

## Why it happens
The process got SIGSTOP or SIGTSTP (Ctrl-Z, a scheduler that suspends jobs, a checkpointing tool, a paused container),
or a debugger or tracer holds it.

## Fix
Resume it: `kill -CONT 4711`. If a scheduler suspended the job, resume it there: `scontrol resume JOBID`.

## Confirm with
`ps -eo pid,stat,args | grep " T"` (state T is stopped, t is traced).

## When it is harmless
Never while the other ranks wait.

## See also
barrier/rank-missing, store/node-lost
"""

from distdoctor.check_api import (
    Cluster,
    FailedRank,
    Finding,
    Fix,
    Iterator,
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
        f"{ranks_text(ranks)} on {together(names)} {are} stopped; all other ranks wait.",
        ranks=ranks,
        evidence=(
            f"{rank.node.name}: rank {rank.rank.rank}, pid {rank.rank.pid}, in stage {rank.stage.stage}: state "
            f"{rank.stage.detail['state']} ({HOW[rank.stage.detail['state']]})"
            for rank in ended
        ),
        fixes=(
            Fix.on(
                name,
                f"On {name}, resume the process: kill -CONT {pids(ended, name)}. Then find what stops it (scheduler, "
                "debugger, Ctrl-Z).",
            )
            for name in names
        ),
    )


def pids(stopped: list[FailedRank], name: str) -> str:
    """Return the process ids of the stopped ranks of a node, for a command."""
    return " ".join(str(rank.rank.pid) for rank in stopped if rank.node.name == name and rank.rank.pid) or "PID"
