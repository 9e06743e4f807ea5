"""A rank is stopped.

## What you see
A job that hangs without a message, while a rank has the state T (`ps`, `top`). It makes no step, and the others wait
for it inside their collectives until the timeout.

## Why it happens
A signal stopped the process: SIGSTOP or SIGTSTP from a `kill`, Ctrl-Z, or a batch system that suspends jobs. SIGTTIN
or SIGTTOU stops a background process that uses the terminal. In state t a debugger or tracer holds it (gdb, strace),
even one that was killed. A paused container freezes all its processes, without such a state. Ctrl-Z in torchrun's
terminal stops only the agent: its ranks have their own sessions and continue, and no agent notices a failure.

## Fix
Resume it: `kill -CONT 4711`. Detach the debugger, or unpause the container: `docker unpause NAME`. The job then
continues.

## Confirm with
`ps -o pid,stat,args -p 4711` (state T is stopped, t is traced).

## When it is harmless
When a person debugs the rank, or a batch system will resume the job. Tools such as strace and py-spy record stop a
rank for moments only; distdoctor does not report these.

## See also
barrier/rank-stopped, process/waiting-in-user-code, collective/rank-missing
"""

from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, live, names_of

SEVERITY = "fail"
MATTERS = "its ranks continue until one fails or creates another group"
PREVENTS = "store hosted"
RESTART = "yes"


def resume_command(group: str) -> str:
    """Return the command that resumes a frozen control group."""
    if "/freezer/" in group:
        return f"echo THAWED > {quote(group)}/freezer.state"
    return f"echo 0 > {quote(group)}/cgroup.freeze"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    yield from agents_stopped(job)
    stopped = [rank for rank in (*job.ranks, *job.cores) if rank.place.kind == live.places.STOPPED]
    if not stopped:
        return
    nodes = list(dict.fromkeys(rank.node for rank in stopped))
    frozen = sorted({rank.process.frozen for rank in stopped if rank.process.frozen})
    if frozen:
        yield live.rank_finding(
            stopped,
            f"{live.ranks_called(stopped)} on {names_of(nodes)} {'is' if len(stopped) == 1 else 'are'} frozen with "
            f"{'its' if len(stopped) == 1 else 'their'} container; the other ranks wait.",
            evidence=live.where_ranks_are(stopped),
            fixes=[
                Fix.on(nodes, "Unpause the container (`docker unpause NAME`).", commands=[*map(resume_command, frozen)])
            ],
        )
        return
    debugged = any(rank.process.state == "t" for rank in stopped)
    pids = {n: " ".join(str(rank.process.pid) for rank in stopped if rank.node is n) for n in nodes}
    text = "Detach or end the debugger." if debugged else "Resume the process."
    yield live.rank_finding(
        stopped,
        f"{live.ranks_called(stopped)} on {names_of(nodes)} {'is' if len(stopped) == 1 else 'are'} stopped "
        f"{'by a debugger' if debugged else 'by a signal'}; the other ranks wait.",
        evidence=live.where_ranks_are(stopped),
        fixes=[Fix.on(n, text, commands=() if debugged else (f"kill -CONT {pids[n]}",)) for n in nodes],
    )


def agents_stopped(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the finding about stopped torchrun agents: they serve no store and notice no failed rank."""
    at_store = (live.places.MASTER, live.places.STORE, live.places.GROUP)
    held = not job.ranks or any(rank.waits and rank.place.kind in at_store for rank in job.ranks)
    for node, agent in job.agents:
        if not live.is_stopped(agent):
            continue
        how = "by a debugger" if agent.state == "t" else "by a signal"
        yield Finding.about(
            [node],
            f"torchrun's agent (pid {agent.pid}) on {node.name} is stopped {how}: it serves no store and notices "
            "no failed rank.",
            ranks=(),
            evidence=live.where_ranks_are(rank for rank in job.ranks if rank.node is node),
            fixes=[
                Fix.on(
                    node,
                    "Resume torchrun (in its shell: fg).",
                    commands=(f"kill -CONT {agent.pid}",) if agent.state == "T" else (),
                )
            ],
            severity=None if held else "warn",
        )
