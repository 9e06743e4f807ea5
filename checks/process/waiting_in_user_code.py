"""A rank waits in the job's own code while the others wait for it.

What you see
------------
A job that hangs: most ranks are in a collective, or in init_process_group, and one is elsewhere. As a failure it does
not move: it reads a file or a pipe that gives nothing, waits for a lock, for a program of its own or for a data loader.
As a warning it moves, and the others wait for it all the same: it polls (for a file, a FileLock, the lock file of an
extension build), computes in one call, or waits for a server that may answer yet.

Why it happens
--------------
A file on a server that does not answer, an input that never comes, a deadlock between threads, a DataLoader whose
workers wait (often for a lock that was held when they were forked), `if rank == 0:` with something that does not end;
a barrier inside of `with FileLock(...)`, which the others never reach.

Fix
---
Look at the line that is named: what it waits for has to come, or the rank has to do without. The job goes on as soon as
the rank does.

When it is harmless
-------------------
As a warning: where the rank is known to take long, as in an evaluation, a download or a compilation, and ends in its
time. Look again after a minute: a rank that is still at the same line is what to look at. Ranks that all wait for
orders while none waits for another may have nothing to do: they are not reported.

See also
--------
process/stopped, host/filesystem-stalled, host/extension-lock-stale, collective/rank-missing
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, duration_text, live, names_of

SEVERITY = "fail"
LOG = (
    Line(
        "stacks: rank",
        r"^stacks: ranks? (?P<ranks>[\d, ]{1,200}) in ",
        shows="symptom",
        why="a rank that is only slower stands elsewhere at one look, too: take the stacks again",
    ),
    Line(
        "stacks: process",
        r"^stacks: process(?:es)? [\d, ]{1,200} in ",
        shows="symptom",
        why="a process that is only slower stands elsewhere at one look, too: take the stacks again",
    ),
    Line(  # faulthandler.dump_traceback_later()
        "Timeout (",
        r"^Timeout \(\d{1,4}:\d\d:\d\d(?:\.\d{1,9})?\)!$",
        shows="hint",
        why="it tells where the program was then, in the lines below it, also where that is the wait for another rank",
    ),
)
PREVENTS = "store hosted"
PLACES = (live.places.CODE, live.places.LOADER, live.places.SAVING, live.places.COMPILING, live.places.STARTING)
SHOWN = 3
_LATER = "else the others fail at their timeout (default: 30 min with gloo, 10 min with NCCL)"
MATTERS = f"it may come yet; {_LATER}"
OUTSIDE = f"its peer may answer yet; {_LATER}"


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    if locked := [*behind_locks(job)]:
        yield from locked
        return
    held = [rank for rank in job.ranks if is_held(rank, job)] or key_of_nobody(job)
    if not held or job.world == 1 or nobody_waits(job, held) or may_be_served(job, held):
        if (found := live.awaited(job)) is not None and job.world != 1:
            yield others_wait_for(job, found)
        return
    alone = [rank for rank in held if not (live.awaits_rank(rank) or live.pipe_peers(rank) or job.answered(rank))]
    behind, held = [rank for rank in held if alone and rank not in alone], alone or held
    nodes = list(dict.fromkeys(rank.node for rank in held))
    one = len(held) == 1
    first = held[0].place
    at = f", {first.why}," if one and first.why else ""
    where = f" at {first.frame.file}:{first.frame.line}" if one and first.frame else ""
    what = first.kind if one else "in code of their own"
    over = not job.waiting and all(n in job.gone for n in range(job.world or 0) if n not in job.numbers) and job.gone
    others = "the others have ended" if over else f"the others wait for {'it' if one else 'them'}"
    if len(held) == job.world:
        others = "no other rank is in this job"
    yield live.rank_finding(
        held,
        f"{live.called(held)} on {names_of(nodes)} {'is' if one else 'are'} {what}{where}{at} "
        f"and {'does' if one else 'do'} not move; {others}.",
        evidence=(
            *live.where_ranks_are([*held, *behind]),
            *asleep(held),
            *asked(held),
            *below(held),
            *live.waiting_evidence(job, held),
        ),
        fixes=(Fix.on(nodes, remedy(first, held[0])),),
    )


def others_wait_for(job: live.LiveJob, found: live.Awaited) -> Finding:
    """The ranks for which the others wait, and which move, or wait for something outside the job."""
    ranks, waiting = [*found.ranks], [*found.waiting]
    nodes = list(dict.fromkeys(rank.node for rank in ranks))
    verb = ("wait" if len(waiting) > 1 else "waits") if found.sure else "may wait"
    whom = "; ".join(f"{rank.called}, which {live.does(job, rank)}" for rank in ranks[:SHOWN])
    more = f"; and for {len(ranks) - SHOWN} more" if ranks[SHOWN:] else ""
    waited = job.waited or 0.0
    since = f" The wait has lasted {duration_text(waited)} at least." if waited >= 1.0 else ""
    peer = next(filter(None, (live.outside_peer(job, rank) for rank in ranks)), "")
    who = f"{live.called(waiting)} {verb} {live.where(waiting)}" if waiting else "The ranks of other nodes may wait"
    return live.rank_finding(
        ranks,
        f"{who} for {whom}{more}.{since}",
        evidence=(*live.where_ranks_are([*ranks, *waiting]), *asleep(ranks), *asked(ranks), *below(ranks)),
        fixes=(Fix.on(nodes, remedy_of_moving(ranks[0], peer)),),
        severity="warn",
        matters=OUTSIDE if peer else MATTERS,
    )


def remedy_of_moving(rank: live.LiveRank, peer: str) -> str:
    frame = rank.place.frame
    line = f" at {frame.file}:{frame.line}" if frame else ""
    if peer:
        return f"See whether {peer} answers, and give the request{line} a time limit."
    if rank.lock is not None and rank.lock.age is not None:
        return f"Delete {rank.lock.path} where the process that made it has ended; the rank then goes on."
    if rank.lock is not None:
        return remedy(rank.place, rank)
    return (
        f"Look again in a minute (distdoctor hang --watch 60): where {rank.called} is still{line or ' there'}, it "
        "needs what it waits for, or its loop an end."
    )


def behind_locks(job: live.LiveJob) -> Iterator[Finding]:
    """The ranks that have a lock on a file and wait for others, who wait for that lock."""
    by_pid = {(rank.node, rank.process.pid): rank for rank in job.ranks}
    waiters: dict[live.LiveRank, list[live.LiveRank]] = {}
    for rank in job.ranks:
        lock = rank.lock
        for pid in lock.holders if lock and not rank.works else ():
            holder = by_pid.get((rank.node, pid))
            if holder is not None and holder.waits and holder is not rank:
                waiters.setdefault(holder, []).append(rank)
    for holder, those in waiters.items():
        lock = those[0].lock
        path = lock.path if lock else ""
        yield live.rank_finding(
            [holder, *those],
            f"{live.called([holder])} on {holder.node.name} has the lock on {path} and is {holder.place.said()}; "
            f"{live.called(those).lower()} {'waits' if len(those) == 1 else 'wait'} for that lock: neither goes on.",
            evidence=(*live.where_ranks_are([holder, *those]), *live.waiting_evidence(job, [holder, *those])),
            fixes=(
                Fix.on(holder.node, "Let go of the lock before a collective: call barrier() outside of the `with`."),
            ),
        )


def is_held(rank: live.LiveRank, job: live.LiveJob) -> bool:
    """Return whether the rank is in its own code and nothing moves there, as far as that is sure.

    A peer outside of the job may answer yet, however long it takes."""
    place = rank.place
    if place.kind not in PLACES or rank.works or rank.pauses or not (place.sure or rank.process.main is None):
        return False
    moved = rank.process.moved
    return moved is not None and moved.seconds > 0 and not live.outside_peer(job, rank)


def nobody_waits(job: live.LiveJob, held: list[live.LiveRank]) -> bool:
    """Return whether all ranks are here, none of them waits for these, and these wait until somebody sends them
    something: so do workers between two orders of the program that drives them."""
    if job.waiting or len(job.numbers) < (job.world or 0):
        return False
    return all(rank.place.kind == live.places.CODE and live.awaits_orders(rank.process) for rank in held)


def may_be_served(job: live.LiveJob, held: list[live.LiveRank]) -> bool:
    """Return whether all of these may wait for a rank of their host that works: while it has a lock, or before it
    sends."""
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
    """The port of whom a rank waits for, where it reads from a connection."""
    main = rank.process.main
    port = main.reads.rpartition(":")[2] if main is not None and " to " in main.reads else ""
    return int(port) if port.isdecimal() else None


def key_of_nobody(job: live.LiveJob) -> list[live.LiveRank]:
    """The ranks that wait for a key of the store, where all are seen to wait, so that none will write it."""
    if len(job.numbers) < (job.world or 0) or len(job.waiting) < len(job.ranks):
        return []
    return [rank for rank in job.waiting if rank.place.kind == live.places.KEY]


def asleep(held: list[live.LiveRank]) -> Iterator[str]:
    """For how long those sleep yet of which that is known."""
    for rank in held:
        if rank.asleep is not None and rank.asleep >= 1.0:
            main = rank.process.main
            who = rank.called if main and main.left is not None else f"what {rank.called} waits for"
            yield f"{rank.node.name}: {who} sleeps for {duration_text(rank.asleep)} yet"


def asked(held: list[live.LiveRank]) -> Iterator[str]:
    """Return who is to answer those that wait for an answer, where that is a process of their host."""
    for rank in held:
        if (one := rank.answerer) is not None and rank.place.kind != live.places.KEY:
            yield f"{rank.node.name}: {rank.called} waits for an answer of pid {one.pid} ({one.name or 'no name'})"


def below(held: list[live.LiveRank]) -> Iterator[str]:
    """Return what runs below them, and does not move either."""
    for rank in held:
        for one in rank.below[:4]:
            main = one.main
            if main is None:
                continue
            what = "a worker of its data loader" if one.role == "loader" else f"its child {one.name}"
            frame = next((frame for frame in main.frames if frame.own), None)
            at = f" at {frame.file}:{frame.line}" if frame else ""
            doing = f"in {main.call or main.waits_in or 'its own code'}" + (f" on {main.reads}" if main.reads else "")
            if live.is_stopped(one):
                doing = f"stopped: kill -CONT {one.pid} lets it go on"
            elif one.state == "Z":
                doing = "at its end, and was not waited for"
            elif call := live.stacks.call_of(main):
                doing = f"in {call}"
            yield f"{rank.node.name}: {what} (pid {one.pid}) is{at} {doing}"


def remedy(place: live.places.Place, rank: live.LiveRank) -> str:
    line = f" at {place.frame.file}:{place.frame.line}" if place.frame else ""
    calls = [call for one in rank.below if one.main and (call := live.stacks.call_of(one.main))]
    if calls:
        return f"Call {calls[0]} in the rank itself: a process that it started is in none of its groups."
    lock = rank.lock
    if lock is not None and lock.holders:
        who = ", ".join(f"pid {pid} ({name})" if name else f"pid {pid}" for pid, name in lock.holders.items())
        return f"Look what {who} does: the job goes on as soon as it lets go of {lock.path}."
    if rank.answerer is not None and place.kind != live.places.KEY:
        return f"Look what pid {rank.answerer.pid} does: the job goes on as soon as it answers{line}, or ends."
    if live.stacks.awaits_process(rank.process.main) and place.kind == live.places.CODE:
        return (
            f"Look which process is to let it go on{line}, and what that does: who waits for the others while it has a "
            "lock, as in a collective inside of the `with`, never lets go of it."
        )
    if place.why.endswith("which is full"):
        return "Look who is to read that pipe (tee, a log collector): the job goes on as soon as it is read."
    return f"Look at what it waits for{line}: the job goes on as soon as the rank does."
