"""A rank did not take part in a collective.

What you see
------------
Watchdog timeouts with the same sequence number on all ranks but one; `finished collective #42, but didn't join
collective #43`; in flight-recorder dumps a rank without the collective.

Why it happens
--------------
The absent rank hangs, died, or took another path.

Fix
---
Look at the absent rank: its stack (py-spy dump), its log, what it did last.

When it is harmless
-------------------
Never.

See also
--------
collective/mismatch, collective/slow-rank, barrier/rank-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, live, together

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
MATTERS = "the job was started only now: they may still come"
NEXT = (
    "the flight recorder's dumps of all ranks, or the log of the rank without a timeout",
    "TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)
LOG = (
    Line(
        "flight recorder: ",
        r"ranks? (?P<ranks>(?P<missing>[\d, ]{1,200}))(?: and \d+ more)? never called ",
    ),
    Line(
        "flight recorder: ",
        r"number \d+; (?:no dump of ranks? |who else is in the group )",
        shows="symptom",
        why="the ranks of which nothing is recorded may be in it, too",
    ),
    Line(
        "flight recorder: ",
        r"number \d+; all have called it",
        shows="symptom",
        why="every rank is in the same collective: what keeps it is between them, or the dumps are of a job that works",
    ),
    Line(
        "join collective #",
        r"\[(?P<ranks>(?P<missing>[\d, ]+))\] finished collective #\d+, but didn.?t join collective",
    ),
    Line(
        "join or finish collective",
        r"\[(?P<ranks>(?P<missing>[\d, ]+))\].{0,80}didn.?t join or finish collective",
    ),
    Line(
        "collective operation timeout",
        "Watchdog caught collective operation timeout",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        "Communicator ranks have different",
        shows="symptom",
        why="ranks that are behind may only be slow",
    ),
    Line(
        "Timed out waiting",
        r"Timed out waiting \d+ ?ms for (?:recv|send) operation",
        shows="symptom",
        why="a slow rank, and packets that are lost, show the same",
    ),
    Line(
        ("Some NCCL operations have failed or timed out", "taking the entire process down"),
        shows="symptom",
        why="the watchdog says so after a time-out and after an error of NCCL",
    ),
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    store, alone = job.store, not job.first.processes
    if not job.ranks and not (alone and store is not None and store.joined):
        yield from agents_missing(job)
        return
    if store is None or not (alone or (job.waiting and job.in_rendezvous)):
        return
    absent = [rank for rank in store.missing if rank not in job.numbers]
    if absent:
        yield missing(job, absent)
    elif not store.tells_missing and job.world and store.arrived is not None and store.arrived < job.world:
        count = job.world - store.arrived
        yield Finding(
            f"{count} of {job.world} ranks {'has' if count == 1 else 'have'} not come to the store, which does not "
            "tell which.",
            evidence=(
                f"{store.arrived} clients came to the store at {store.host} port {store.port}",
                *live.others_wait(job, []),
            ),
            fixes=(Fix("Look on the other nodes whether their ranks run (distdoctor hang there)."),),
            severity="warn" if job.young else None,
            matters=MATTERS if job.young else "",
        )


def missing(job: live.LiveJob, absent: list[int]) -> Finding:
    nodes = tuple(dict.fromkeys(host for rank in absent if (host := job.host_of(rank))))
    said = together([str(rank) for rank in absent[:8]] + ([f"{len(absent) - 8} more"] if len(absent) > 8 else []))
    store = job.store
    joined = len(store.joined) if store else 0
    where = f" of {together(nodes)}" if nodes else ""
    return Finding(
        f"Rank{'s' if len(absent) > 1 else ''} {said}{where} {'have' if len(absent) > 1 else 'has'} not joined "
        f"init_process_group(); {joined} of {job.world} ranks are there and wait.",
        nodes=nodes,
        ranks=tuple(absent),
        evidence=(
            f"the store at {store.host} port {store.port}: joined {together(map(str, store.joined[:16]))}; "
            f"missing {said}"
            if store
            else "",
            *live.others_wait(job, []),
        ),
        fixes=(
            Fix(
                f"Look on {together(nodes) if nodes else 'the nodes of these ranks'} whether they run, and where they "
                "are (distdoctor hang there); start them where they were not started.",
                nodes,
            ),
        ),
        severity="warn" if job.young else None,
        matters=MATTERS if job.young else "",
    )


def agents_missing(job: live.LiveJob) -> Iterator[Finding]:
    """torchrun's agents wait for each other: no rank was started yet."""
    planned, view = job.first.nnodes, next((view for view in job.stores if view.known), None)
    if view is None or not planned or planned < 2:
        return
    rendezvous = next((one for one in view.rendezvous if not one.complete), None)
    came = len(rendezvous.agents) if rendezvous else view.clients if not view.rendezvous else None
    if came is None or came >= planned or (rendezvous is None and view.groups):
        return
    limit = job.first.join_timeout
    late = rendezvous is not None and limit is not None and job.age < limit
    hosts = ", ".join(agent.host for agent in rendezvous.agents if agent.host) if rendezvous else ""
    yield Finding(
        f"{came} of {planned} nodes came to torchrun's rendezvous{f' ({hosts})' if hosts else ''}; it waits for "
        f"{planned - came} more{f', for {limit - job.age:.0f} s yet' if late and limit else ''}.",
        evidence=(
            f"the store at {view.host} port {view.port} counts {came}; the agent was started {job.age:.0f} s ago",
        ),
        fixes=(Fix("Start the same torchrun line on the nodes that are missing, and look what it says there."),),
        severity="warn" if late or job.young else None,
        matters="they may still come in time" if late or job.young else "",
    )
