"""A rank does not take part in a collective.

## What you see
Watchdog timeouts with the same sequence number on all ranks but one;
`finished collective #42, but didn't join collective #43`; in flight-recorder dumps a rank without the collective.

## Why it happens
The missing rank hangs, died, or took another path.

## Fix
Fix what keeps the missing rank: `distdoctor hang` on its node shows its current line. If it died, fix the last error
in its log.

## Confirm with
`py-spy dump --pid 4711` on its node, and `tail -50` of its log.

## When it is harmless
While init_process_group() waits for a rank that is only late, such as one that prepares data. `distdoctor hang` warns
until the timeout (default 30 min, with NCCL 10 min).

## See also
collective/mismatch, collective/slow-rank, barrier/rank-missing
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, live, ranks_text, together

SEVERITY = "fail"
PREVENTS = "results right"
SYMPTOM_OF = "results right"
MATTERS = live.STARTED_NOW
LATE = 10.0
"""Seconds in a collective up to which a missing rank may only be slower."""
SHOWN = 8
NEXT = (
    "the flight recorder's dumps of all ranks, or the log of the rank without a timeout",
    "export TORCH_FR_BUFFER_SIZE=2000 TORCH_NCCL_DUMP_ON_TIMEOUT=1",
)
LOG = (
    Line("flight recorder: ", r"ranks? (?P<ranks>(?P<missing>[\d, ]{1,200}))(?: and \d+ more)? never called "),
    Line(
        "flight recorder: ",
        r"number \d+; (?:no dump of ranks? |who else is in the group )",
        shows="symptom",
        why="ranks without a dump may be in it, too",
    ),
    Line(
        "flight recorder: ",
        r"number \d+; all have called it",
        shows="symptom",
        why="every rank is in the same collective: the network keeps it, or the job was healthy at that moment",
    ),
    Line("watchdogs: ", r"ranks? (?P<ranks>(?P<missing>[\d, ]{1,200}))(?: and \d+ more)? never called "),
    Line(
        "calls: rank",
        r"^calls: .+; of ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)?(?: on (?P<host>\S+))? nothing is here$",
        shows="symptom",
        why="a rank that joined later times out later, and may have been ended before that",
    ),
    Line(  # torchfrtrace and torch.distributed.debug's server (torch/distributed/flight_recorder/components)
        ("missing ranks: {", "Missing ranks are {"),
        r"\b[Mm]issing ranks(?::| are) \{(?P<ranks>(?P<missing>[\d, ]{1,400}))\}",
        shows="symptom",
        why="a rank that called it later, or whose dump is missing, shows the same",
    ),
    Line(
        "inspector: ",
        r"^inspector: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? completed ",
        shows="hint",
        why="the file of a rank that ended earlier, or that writes later, ends earlier, too",
    ),
    Line("watchdogs: ", "nothing is here$", shows="symptom", why="ranks without a log may wait as well"),
    Line(
        "join collective #",
        r"\[(?P<ranks>(?P<missing>[\d, ]+))\] finished collective #\d+, but didn.?t join collective",
    ),
    Line("join or finish collective", r"\[(?P<ranks>(?P<missing>[\d, ]+))\].{0,80}didn.?t join or finish collective"),
    Line(
        "collective operation timeout",
        "Watchdog caught collective operation timeout",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        "wait execution of the Notify register times out",  # CANN, EI0002: within a collective of HCCL
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        ("Timeout at NCCL work", "detected by watchdog at work"),
        shows="symptom",
        why="a slow rank shows the same; so does an earlier error of NCCL",
    ),
    Line(
        "Received a dump signal",  # ProcessGroupNCCL.cpp, heartbeatMonitor(), before the dump
        r"Received a dump signal (?:due to a collective timeout )?from",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line("Communicator ranks have different", shows="symptom", why="ranks that are behind may only be slow"),
    Line(
        "Timed out waiting",
        r"Timed out waiting \d+ ?ms for (?:recv|send) operation",
        shows="symptom",
        why="a slow rank and lost packets show the same",
    ),
    Line(
        "Application timeout caused pair closure",  # of gloo, on the ranks that waited with it
        shows="symptom",
        why="a slow rank and lost packets show the same",
    ),
    Line(
        ("timed out", "imeout"),
        r"^(?:[\w.]{1,80}\.)?\w{0,40}Error: .{0,400}(?:timed out|[Tt]imeout)",
        stack=r"/torch/distributed/distributed_c10d\.py\", line \d{1,6}, in (?:all_|barrier|broadcast|reduce|scatter"
        r"|gather|recv|send|batch_isend|monitored)\w{0,40}(?![\s\S]*File \")",
        shows="symptom",
        why="a slow rank and a dead rank show the same",
    ),
    Line(
        ("issing ranks:", "talled ranks:"),  # of Horovod; at the end of a line the numbers follow below
        r"(?:[Mm]issing|[Ss]talled) ranks:(?: ?(?P<ranks>\d[\d, ]{0,200})|$)",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        "DeepEP ",  # of its kernels and csrc/deep_ep.cpp
        r"\bDeepEP (?:timeout (?:check failed|for )|error: timeout|(?:dispatch|combine) .{0,80}timeout\b)",
        shows="symptom",
        why="a slow rank (such as one that compiles kernels) and a lossy fabric show the same",
    ),
    Line(
        ("Some NCCL operations have failed or timed out", "taking the entire process down"),
        shows="symptom",
        why="the watchdog prints it after a timeout and after an error of NCCL",
    ),
    Line(
        "submitted to be reduced, gathered or broadcasted",  # of Horovod
        "by subset of ranks and are waiting for remainder of ranks",
        shows="symptom",
        why="a slow rank shows the same",
    ),
    Line(
        ("RPC ran for more than set timeout", "timed out in _all_gather", "waiting for pending OwnerRRefs"),
        shows="symptom",
        why="a slow peer and a dead peer show the same in torch.distributed.rpc",
    ),
    Line(
        (
            "NCCL operation timed out",
            "Timeout watchdog caught",
            "Work timed out during finalize",
            "timed out in blocking wait",
            "remote error detected from rank",
        ),
        shows="symptom",
        why="a slow rank and a dead rank show the same",
    ),
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    yield from not_called(job)
    if not live.ranks_meet(job):
        return
    absent, _ = live.absent_ranks(job)
    if absent:
        yield missing(job, absent)


def not_called(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the findings of the flight recorders, which torch.distributed.debug also serves for other hosts."""
    for absence in live.flight_recorder.absent(job.servers):
        if any(rank in job.numbers and job.numbers[rank].moves_on for rank in absence.absent):
            continue
        nodes = tuple(dict.fromkeys(host for rank in absence.absent if (host := job.host_of(rank))))
        late = absence.call.age is not None and absence.call.age < LATE
        yield Finding.about(
            nodes,
            f"{ranks_text(absence.absent)} {'has' if len(absence.absent) == 1 else 'have'} not called "
            f"{absence.call.operation} number {absence.call.number} of group {absence.group}, in which "
            f"{ranks_text(absence.waiting).lower()} wait{'s' if len(absence.waiting) == 1 else ''}.",
            ranks=absence.absent,
            evidence=(
                *(
                    f"flight recorder of rank {server.rank}: {live.flight_recorder.call_text(server, absence.group)}"
                    for server in sorted(job.servers, key=lambda server: server.rank not in absence.absent)[:SHOWN]
                ),
                *live.where_ranks_are(job.numbers[rank] for rank in absence.absent if rank in job.numbers),
            ),
            fixes=(
                Fix(
                    f"Run `distdoctor hang` on {together(nodes) or 'the nodes of these ranks'}; it shows the line "
                    "where "
                    "they are instead. Then fix that line.",
                    nodes,
                ),
            ),
            severity="warn" if late else None,
            matters="the other ranks have waited only for a moment" if late else "",
        )


def missing(job: live.LiveJob, absent: list[int]) -> Finding:
    nodes = tuple(dict.fromkeys(host for rank in absent if (host := job.host_of(rank))))
    numbers = together([str(rank) for rank in absent[:8]] + ([f"{len(absent) - 8} more"] if len(absent) > 8 else []))
    store = job.store
    joined = len(store.joined) if store else 0
    where = f" of {together(nodes)}" if nodes else ""
    ended = [*ended_well(job, absent), *not_reaped(job)]
    late, wait = "" if ended else live.perhaps_late(job), live.ranks_wait(job)
    ends = "" if ended else f"; {wait.ends}"
    since = f"have waited {wait.so_far}{ends}" if job.ranks else "wait"
    return Finding.about(
        nodes,
        f"Rank{'s' if len(absent) > 1 else ''} {numbers}{where} {'have' if len(absent) > 1 else 'has'} not joined "
        f"init_process_group(); {joined} of {job.world} ranks joined and {since}.",
        title=live.RANKS_NOT_JOINED,
        ranks=absent,
        evidence=(
            f"the store at {store.host} port {store.port}: joined {together(map(str, store.joined[:16]))}; "
            f"missing {numbers}"
            if store
            else "",
            *ended,
            *live.waiting_evidence(job, []),
        ),
        fixes=(
            Fix(
                "Fix the last error in the output of these ranks: they ended before init_process_group(). "
                "Confirm with: `tail -50` of their logs.",
                nodes,
            )
            if ended
            else Fix(
                f"Run `distdoctor hang` on {together(nodes) if nodes else 'the nodes of these ranks'}; it shows the "
                "line "
                f"where they are. If no process runs there, start {'it' if len(absent) == 1 else 'them'}.",
                nodes,
            ),
        ),
        severity="warn" if late else None,
        matters=late,
    )


def ended_well(job: live.LiveJob, absent: list[int]) -> Iterator[str]:
    """Yield evidence that missing ranks ended with status 0: their torchrun still runs, and it ends all ranks on a
    failure."""
    agents = {node.name for node, agent in job.agents if not live.is_stopped(agent)}
    if not job.ranks or job.young:
        return
    for host in dict.fromkeys(map(job.host_of, absent)):
        numbers = [str(rank) for rank in absent if job.host_of(rank) == host]
        if host in agents:
            yield (
                f"{host}: torchrun runs without a process of rank{'s' if len(numbers) > 1 else ''} "
                f"{together(numbers[:8])}; "
                "it ends all ranks on a failure, so they ended with status 0"
            )


def not_reaped(job: live.LiveJob) -> Iterator[str]:
    """Yield evidence of ranks that ended before they joined and that their parent has not reaped."""
    for node, facts in job.facts:
        if len(facts.ended) > sum(name == node.name for name in job.gone.values()):
            pids = " ".join(map(str, facts.ended[:SHOWN]))
            yield f"{node.name}: pid {pids} has ended; its parent also started the waiting ranks"
