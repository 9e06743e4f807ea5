"""A rank is stopped.

What you see
------------
A job that hangs without a word, while a rank has the state T (`ps`, `top`): it takes no step, and the others wait for
it inside their collectives until the timeout.

Why it happens
--------------
A signal stopped the process: SIGSTOP or SIGTSTP from somebody's `kill`, Ctrl-Z in a terminal, SIGTTIN or SIGTTOU for a
process in the background that reads from the terminal, a batch system that suspends jobs. In the state t a debugger
holds it: gdb, strace, or one that was itself killed. A container that was paused is frozen with all that is in it, and
shows no such state. Ctrl-Z in the terminal of torchrun stops its agent alone, whose ranks have sessions of their own:
they go on, without anybody who notices that one fails.

Fix
---
`kill -CONT PID`, let the debugger go on, or unpause the container; the job then goes on where it was.

When it is harmless
-------------------
Where somebody looks at the rank with a debugger, or a batch system will let the job go on. A rank that is only watched
(strace, py-spy record) is stopped for moments, and moves between them: that is not reported.

See also
--------
barrier/rank-stopped, process/waiting-in-user-code, collective/rank-missing
"""

from collections.abc import Iterator
from shlex import quote

from distdoctor.check_api import Cluster, Finding, Fix, live, names_of

SEVERITY = "fail"
MATTERS = "its ranks go on meanwhile, until one fails or makes another group"
PREVENTS = "store hosted"
RESTART = "yes"


def thawed(group: str) -> str:
    """The line that lets a control group go on."""
    if "/freezer/" in group:
        return f"echo THAWED > {quote(group)}/freezer.state"
    return f"echo 0 > {quote(group)}/cgroup.freeze"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    yield from agents_stopped(job)
    stopped = [rank for rank in job.ranks if rank.place.kind == live.places.STOPPED]
    if not stopped:
        return
    nodes = list(dict.fromkeys(rank.node for rank in stopped))
    frozen = sorted({rank.process.frozen for rank in stopped if rank.process.frozen})
    if frozen:
        yield live.rank_finding(
            stopped,
            f"{live.called(stopped)} on {names_of(nodes)} {'is' if len(stopped) == 1 else 'are'} frozen with "
            f"{'its' if len(stopped) == 1 else 'their'} container; the others can only wait.",
            evidence=live.where_ranks_are(stopped),
            fixes=[Fix.on(nodes, "Let the container go on, as with docker unpause.", commands=[*map(thawed, frozen)])],
        )
        return
    debugged = any(rank.process.state == "t" for rank in stopped)
    pids = {n: " ".join(str(rank.process.pid) for rank in stopped if rank.node is n) for n in nodes}
    text = "Let the debugger go on, or end it." if debugged else "Let it go on."
    yield live.rank_finding(
        stopped,
        f"{live.called(stopped)} on {names_of(nodes)} {'is' if len(stopped) == 1 else 'are'} stopped "
        f"{'by a debugger' if debugged else 'by a signal'}; the others can only wait.",
        evidence=live.where_ranks_are(stopped),
        fixes=[Fix.on(n, text, commands=() if debugged else (f"kill -CONT {pids[n]}",)) for n in nodes],
    )


def agents_stopped(job: live.LiveJob) -> Iterator[Finding]:
    """torchrun's agents: one that is stopped serves no store and notices no rank that fails; its ranks go on."""
    at_store = (live.places.MASTER, live.places.STORE, live.places.GROUP)
    held = not job.ranks or any(rank.waits and rank.place.kind in at_store for rank in job.ranks)
    for node, agent in job.agents:
        if not live.is_stopped(agent):
            continue
        how = "by a debugger" if agent.state == "t" else "by a signal"
        yield Finding.about(
            [node],
            f"torchrun's agent (pid {agent.pid}) on {node.name} is stopped {how}: it answers nobody, and notices no "
            "rank that fails.",
            ranks=(),
            evidence=live.where_ranks_are(rank for rank in job.ranks if rank.node is node),
            fixes=[
                Fix.on(
                    node,
                    "Let it go on (in the shell that started it: fg).",
                    commands=(f"kill -CONT {agent.pid}",) if agent.state == "T" else (),
                )
            ],
            severity=None if held else "warn",
        )
