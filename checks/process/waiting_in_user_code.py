"""A rank waits in the job's own code while the others wait for it.

## What you see
A job that hangs: most ranks are in a collective, or in init_process_group(), and one is in other code.
FAIL: it does not move. It reads a silent file or pipe, or waits for a lock, a child process or a data loader. In an
inference engine, its worker waits at a queue (shared memory, ZMQ) for a process that has ended or does not answer.
WARN: it moves while the others wait. It polls (for a file, a FileLock, an extension build), computes, or waits for a
server that may still answer.

## Why it happens
A file server does not answer, an input never arrives, or threads deadlock. DataLoader workers wait, often for a lock
that was held at the fork. Or `if rank == 0:` contains something that does not end. Or a barrier is inside
`with FileLock(...)`, which the others never reach.

## Fix
Fix the line that the report names: provide what it waits for, add a timeout, or remove the wait. The job continues as
soon as the rank does (`py-spy dump --pid 4711` shows the line).

## Confirm with
`distdoctor hang --watch 60` (must show the same line again), or `py-spy dump --pid 4711`.

## When it is harmless
As a warning, if the rank is known to take long (an evaluation, a download, a compilation). Look again after a minute:
a rank at the same line is the problem. Ranks that all wait for orders while none waits for another may be idle. There
is no finding about them. Nor is there one about an engine whose core waits for requests.

## See also
process/stopped, host/filesystem-stalled, host/extension-lock-stale, collective/rank-missing
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, duration_text, live, names_of

SEVERITY = "fail"
LOG = (
    Line(
        "stacks: rank",
        r"^stacks: ranks? (?P<ranks>[\d, ]{1,200}) in ",
        shows="symptom",
        why="a slower rank shows the same in one look; take the stacks again",
    ),
    Line(
        "stacks: process",
        r"^stacks: process(?:es)? [\d, ]{1,200} in ",
        shows="symptom",
        why="a slower process shows the same in one look; take the stacks again",
    ),
    Line(  # faulthandler.dump_traceback_later()
        "Timeout (",
        r"^Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d{1,9})?\)!$",
        shows="hint",
        why="the lines below it show where the program was, even if it waited for another rank",
    ),
)
PREVENTS = "store hosted"
PLACES = tuple({*live.places.OWN} - {live.places.FILE_LOCK, live.places.DEVICE, live.places.MEMORY})
SHOWN = 3
_LATER = "otherwise the others fail at their timeout (default: 30 min with gloo, 10 min with NCCL)"
MATTERS = f"the rank may still continue; {_LATER}"
OUTSIDE = f"its peer may still answer; {_LATER}"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    if locked := [*behind_locks(job)]:
        yield from locked
        return
    if job.world == 1 or any(core.place.kind == live.places.STOPPED for core in job.cores):
        return  # process/stopped reports such a core
    if job.gone and live.all_await_orders(job):
        return  # process/gone reports the rank that an engine lacks
    held = held_ranks(job)
    if held and not nobody_waits(job, held) and not may_be_served(job, held):
        yield held_finding(job, held)
    elif (awaited := live.awaited(job)) is not None:
        yield others_wait_for(job, awaited)


def held_ranks(job: live.LiveJob) -> list[live.LiveRank]:
    """Return the ranks that certainly do not move, or the cores for which an engine's ranks wait."""
    held = [rank for rank in job.ranks if is_held(rank, job)] or key_of_nobody(job)
    in_code = [rank for rank in held if rank.place.kind != live.places.QUEUE]
    if in_code or any(rank.works for rank in job.ranks):
        return in_code or held  # the orders of the ranks at queues come after these
    return [core for core in job.cores if core_is_held(core, job)] or held


def held_finding(job: live.LiveJob, held: list[live.LiveRank]) -> Finding:
    """Return the finding about ranks that do not move, of these about those that wait for no process, if any do."""
    first = [rank for rank in held if not (live.awaits_rank(rank) or live.pipe_peers(rank) or job.answered(rank))]
    behind = [rank for rank in held if rank not in first] if first else []
    held = first or held
    nodes = list(dict.fromkeys(rank.node for rank in held))
    single, place = len(held) == 1, held[0].place
    at_queues = all(rank.place.kind == live.places.QUEUE for rank in held)
    where = place.kind if single or at_queues else "in the job's own code"
    if single:
        where += live.stacks.at_line(place.frame) + (f", {place.why}," if place.why else "")
    return live.rank_finding(
        held,
        f"{live.ranks_called(held)} on {names_of(nodes)} {'is' if single else 'are'} {where} "
        f"and {'does' if single else 'do'} not move; {others_text(job, held)}.",
        evidence=(
            *live.where_ranks_are([*held, *behind]),
            *asleep(held),
            *asked(job, held),
            *below(held),
            *live.waiting_evidence(job, held),
            *live.where_ranks_are(one for one in job.beside if at_queue(one) and one not in held),
        ),
        fixes=(Fix.on(nodes, remedy(job, held[0])),),
    )


def others_text(job: live.LiveJob, held: list[live.LiveRank]) -> str:
    """Return what the job's other processes do while these ranks do not move."""
    them = "it" if len(held) == 1 else "them"
    if all(map(job.abandoned, held)):
        return f"the process that gives {them} orders has ended"
    if len(held) == job.world:
        return "the job has no other rank"
    absent = (number for number in range(job.world or 0) if number not in job.numbers)
    if job.gone and not job.waiting and all(number in job.gone for number in absent):
        return "the others have ended"
    return f"the others wait for {them}"


def others_wait_for(job: live.LiveJob, awaited: live.Awaited) -> Finding:
    """Return the finding about ranks for which the others wait, and that move or wait for an outside peer."""
    ranks, waiting = [*awaited.ranks], [*awaited.waiting]
    nodes = list(dict.fromkeys(rank.node for rank in ranks))
    verb = ("wait" if len(waiting) > 1 else "waits") if awaited.sure else "may wait"
    whom = "; ".join(f"{rank.called}, which {live.activity_text(job, rank)}" for rank in ranks[:SHOWN])
    more = f"; and for {len(ranks) - SHOWN} more" if ranks[SHOWN:] else ""
    waited = job.waited or 0.0
    since = f" The wait has lasted at least {duration_text(waited)}." if waited >= 1.0 else ""
    peer = next(filter(None, (live.outside_peer(job, rank) for rank in ranks)), "")
    who = (
        f"{live.ranks_called(waiting)} {verb} {live.places_text(waiting)}"
        if waiting
        else "The ranks of other nodes may wait"
    )
    return live.rank_finding(
        ranks,
        f"{who} for {whom}{more}.{since}",
        evidence=(*live.where_ranks_are([*ranks, *waiting]), *asleep(ranks), *asked(job, ranks), *below(ranks)),
        fixes=(Fix.on(nodes, remedy_of_moving(job, ranks[0], peer)),),
        severity="warn",
        matters=OUTSIDE if peer else MATTERS,
    )


def remedy_of_moving(job: live.LiveJob, rank: live.LiveRank, peer: str) -> str:
    line = live.stacks.at_line(rank.place.frame)
    if peer:
        return f"Restore {peer}, or add a timeout to the request{line}. Confirm with: `distdoctor hang --watch 60`."
    if rank.lock is not None and rank.lock.age is not None:
        return f"Delete {rank.lock.path} if the process that created it has ended; the rank then continues."
    if rank.lock is not None:
        return remedy(job, rank)
    if live.stacks.awaits_ray(rank.process.main):
        return (
            f"Find the task or actor that {rank.called} waits for{line} (`ray list tasks`, `ray list actors`). Two "
            "actors that wait for each other's results need a max_concurrency above 1, or one of them must not wait."
        )
    return (
        f"Run `distdoctor hang --watch 60`. If {rank.called} is still{line or ' there'}, provide what it waits for, or "
        "end its loop."
    )


def behind_locks(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the finding about a rank that holds a file lock and waits for ranks that wait for that lock."""
    by_pid = {(rank.node, rank.process.pid): rank for rank in job.ranks}
    waiters: dict[live.LiveRank, list[live.LiveRank]] = {}
    for rank in job.ranks:
        lock = rank.lock
        for pid in lock.holders if lock and not rank.works else ():
            holder = by_pid.get((rank.node, pid))
            if holder is not None and holder.waits and holder is not rank:
                waiters.setdefault(holder, []).append(rank)
    for holder, blocked in waiters.items():
        lock = blocked[0].lock
        path = lock.path if lock else ""
        yield live.rank_finding(
            [holder, *blocked],
            f"{live.ranks_called([holder])} on {holder.node.name} holds the lock on {path} and is "
            f"{holder.place.said()}; "
            f"{live.ranks_called(blocked).lower()} {'waits' if len(blocked) == 1 else 'wait'} for that lock.",
            evidence=(*live.where_ranks_are([holder, *blocked]), *live.waiting_evidence(job, [holder, *blocked])),
            fixes=(Fix.on(holder.node, "Release the lock before a collective: call barrier() outside the `with`."),),
        )


def is_held(rank: live.LiveRank, job: live.LiveJob) -> bool:
    """Return whether the rank is in its own code and certainly does not move.

    A rank that waits for a peer outside the job does not count: it may still answer."""
    place = rank.place
    if place.kind not in PLACES or rank.works or rank.pauses or not (place.sure or rank.process.main is None):
        return False
    moved = rank.process.moved
    outside = live.outside_peer(job, rank) or place.why in (
        live.stacks.ZMQ,
        live.stacks.AT_ZMQ,
    )  # a client may have no request
    outside = outside or (place.why == live.stacks.ZMQ_FULL and live.may_be_taken(job, rank))
    return moved is not None and moved.seconds > 0 and not outside


def core_is_held(core: live.LiveRank, job: live.LiveJob) -> bool:
    """Return whether a process for which an engine's ranks wait does not move, and another core waits for it.

    If none does, it may wait for a request.
    """
    if not any(one.waits for one in job.beside):
        return False
    return not at_queue(core) and not live.stacks.awaits_request(core.process.main) and is_held(core, job)


def at_queue(core: live.LiveRank) -> bool:
    """Return whether the core of an engine waits for its workers in shared memory."""
    return core.process.role == "launcher" and live.stacks.awaits_worker(core.process)


def nobody_waits(job: live.LiveJob, held: list[live.LiveRank]) -> bool:
    """Return whether all ranks are known, none waits for ``held``, and these wait for orders, as idle workers do."""
    if any(map(job.abandoned, held)) or any(one in job.cores for one in held):
        return False
    if live.all_await_orders(job) and len(job.numbers) < (job.world or 0):
        return True  # a worker of another node may carry out the last order
    if job.waiting or job.core_waits or len(job.numbers) < (job.world or 0):
        return False
    at_rest = (live.places.CODE, live.places.QUEUE)
    return all(rank.place.kind in at_rest and live.awaits_orders(rank.process) for rank in held)


def may_be_served(job: live.LiveJob, held: list[live.LiveRank]) -> bool:
    """Return whether each of ``held`` may wait for a working rank of its host, which holds a lock or will send."""
    busy = [rank for rank in job.ranks if rank.works and not rank.waits]
    nodes, pids = {rank.node for rank in busy}, {(rank.node, rank.process.pid) for rank in busy}
    ports = {(rank.node, s.local_port) for rank in busy for s in rank.process.sockets or ()}
    return all(
        job.answered(rank)
        or (rank.node in nodes and live.awaits_rank(rank))
        or (rank.node, asks(rank)) in ports
        or any((rank.node, pid) in pids for pid in live.pipe_peers(rank))
        for rank in held
    )


def asks(rank: live.LiveRank) -> int | None:
    """Return the remote port of the connection that a rank reads from; None without one."""
    main = rank.process.main
    port = main.reads.rpartition(":")[2] if main is not None and " to " in main.reads else ""
    return int(port) if port.isdecimal() else None


def key_of_nobody(job: live.LiveJob) -> list[live.LiveRank]:
    """Return the ranks that wait for a store key, if all ranks wait, so that none will write it."""
    if len(job.numbers) < (job.world or 0) or len(job.waiting) < len(job.ranks):
        return []
    if any(rank.place.kind == live.places.HOSTING for rank in job.ranks):
        return []  # it may write the key once its clients have joined
    asking = [rank for rank in job.waiting if rank.place.kind == live.places.KEY]
    return [] if any(live.just_asked(rank) for rank in asking) else asking


def asleep(held: list[live.LiveRank]) -> Iterator[str]:
    """Yield the remaining sleep of each rank, if known."""
    for rank in held:
        if rank.asleep is not None and rank.asleep >= 1.0:
            main = rank.process.main
            who = rank.called if main and main.left is not None else f"the process that {rank.called} waits for"
            yield f"{rank.node.name}: {who} has {duration_text(rank.asleep)} of its sleep left"


def asked(job: live.LiveJob, held: list[live.LiveRank]) -> Iterator[str]:
    """Yield the processes of their host that ranks wait for an answer from."""
    for rank in held:
        if (core := job.writer_of(rank)) is not None:
            name = core.process.title or core.process.name
            yield (
                f"{rank.node.name}: {rank.called} waits for a message of pid {core.process.pid} ({name}), which is "
                f"{core.place.said()}"
            )
        elif rank.place.why == live.stacks.ZMQ_FULL and not any(peer.sockets for peer in rank.process.peers or ()):
            yield f"{rank.node.name}: no process has the other end of a Unix socket of {rank.called}"
        if (child := rank.answerer) is not None and rank.place.kind != live.places.KEY:
            yield f"{rank.node.name}: {rank.called} waits for an answer of pid {child.pid} ({child.name or 'no name'})"


def below(held: list[live.LiveRank]) -> Iterator[str]:
    """Yield the child processes of the ranks, which do not move either."""
    for rank in held:
        for child in rank.below[:4]:
            main = child.main
            if main is None:
                continue
            what = "a worker of its data loader" if child.role == "loader" else f"its child {child.name}"
            doing = f"in {main.call or main.waits_in or 'its own code'}" + (f" on {main.reads}" if main.reads else "")
            if live.is_stopped(child):
                doing = f"stopped (resume it: kill -CONT {child.pid})"
            elif child.state == "Z":
                doing = "a zombie that its parent has not reaped"
            elif call := live.stacks.call_of(main):
                doing = f"in {call}"
            at = live.stacks.at_line(live.stacks.own_frame(main))
            yield f"{rank.node.name}: {what} (pid {child.pid}) is{at} {doing}"


def remedy(job: live.LiveJob, rank: live.LiveRank) -> str:
    place = rank.place
    if place.kind == live.places.QUEUE and place.why == live.stacks.ZMQ_FULL:
        return (
            "Restart the engine: the process that took these messages has ended or takes none. Confirm with: "
            f"`ss -xp | grep pid={rank.process.pid}`."
        )
    if place.kind == live.places.QUEUE and job.abandoned(rank):
        return "End these ranks and restart the engine: no process is left that could give them orders."
    if place.kind == live.places.QUEUE:
        core = job.writer_of(rank)
        pid = core.process.pid if core is not None else rank.process.parent
        return (
            f"Restart the engine: the process that gives orders (pid {pid}) did not give this one. Confirm with: "
            f"`py-spy dump --pid {pid}`."
        )
    line = live.stacks.at_line(place.frame)
    calls = [call for child in rank.below if child.main and (call := live.stacks.call_of(child.main))]
    if calls:
        return f"Call {calls[0]} in the rank itself; its child processes belong to none of its groups."
    lock = rank.lock
    if lock is not None and lock.holders:
        who = ", ".join(f"pid {pid} ({name})" if name else f"pid {pid}" for pid, name in lock.holders.items())
        return f"Make {who} release {lock.path}, or end it. Confirm with: `lslocks`, `py-spy dump`."
    if rank.answerer is not None and place.kind != live.places.KEY:
        return (
            f"Make pid {rank.answerer.pid} answer{line}, or end it. Confirm with: `py-spy dump --pid "
            f"{rank.answerer.pid}`."
        )
    if live.stacks.awaits_process(rank.process.main) and place.kind == live.places.CODE:
        return (
            f"Make the process that it waits for continue{line}; call no collective while a lock is held (inside "
            "`with`). "
            f"Confirm with: `py-spy dump --pid {rank.process.pid}`."
        )
    if place.why.endswith("which is full"):
        return "Restart the reader of that pipe (tee, a log collector); the job then continues. Confirm with: `lsof`."
    return f"Provide what it waits for{line}, or remove the wait. Confirm with: `py-spy dump --pid {rank.process.pid}`."
