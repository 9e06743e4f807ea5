"""Ranks call different collectives, or with different sizes.

What you see
------------
`Detected mismatch between collectives on ranks`, gloo's `Received data size doesn't match expected size`, watchdogs
with different sizes at one sequence number, tracebacks of all ranks that end in different collectives.

Why it happens
--------------
Ranks took different paths: a branch on the rank, on data, or another order of calls; or they all send first, or all
receive first, and each waits for the other.

Fix
---
Make all ranks call the same collectives in the same order with the same shapes; TORCH_DISTRIBUTED_DEBUG=DETAIL names
the first that differs.

When it is harmless
-------------------
Never.

See also
--------
collective/rank-missing, collective/rank-conditional, collective/uneven-inputs
"""

from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, live, ranks_text

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the call that differs", "TORCH_DISTRIBUTED_DEBUG=DETAIL")
LOG = (
    Line(
        "flight recorder: ",
        r"number \d+: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? (?:called .{1,800}, the others |differ: )",
    ),
    Line(
        ("watchdogs: number ", "calls: rank"),
        r"(?:number \d+|^calls): ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)?(?: on (?P<host>\S+))? "
        r"(?:called .{1,300}, the others |differ: )",
    ),
    Line(
        "watchdogs: rank",
        r"waits? in number [\d or]{1,60}(?: of group \S+)?, which .{1,200} (?:has|have) behind$",
        shows="symptom",
        why="a connection that broke in the midst of a collective shows the same",
    ),
    Line(
        "Detected mismatch between collectives",
        r"Detected mismatch between collectives on ranks(?:\. Rank (?P<ranks>\d{1,6}) is running collective.{0,1500}?"
        r" but Rank (?P<and_rank>\d{1,6}) is running)?",
    ),
    Line("op.preamble.length <= op.nbytes"),
    Line("Received data size doesn", "Received data size doesn.?t match expected size"),
    Line(
        "collective operation timeout", "different sizes at one sequence number", shows="hint", why="compare the ranks"
    ),
    Line("Mismatched collective detected", r"Mismatched collective detected(?:.{0,100}around rank (?P<rank>\d+))?"),
    Line(
        "this may be caused by a collective mismatch around rank",  # NCCL before 2.8
        r"collective mismatch around rank (?P<rank>\d{1,6})",
        shows="symptom",
        why="a rank that does not come shows the same",
    ),
    Line(
        "message truncated : receiving",  # NCCL src/transport/net_socket.cc, in the midst of a collective
        r"message truncated : receiving \d+ bytes instead of \d+",
        shows="symptom",
        why="calls of other sizes, and NCCL_PROTO, NCCL_ALGO or NCCL_BUFFSIZE set otherwise on one rank, show the same",
    ),
    Line(
        "connecting to address  with family",  # NCCL src/misc/socket.cc; seen with two that sent first, 2.28.9
        shows="symptom",
        why="other versions of NCCL, and settings or interfaces that differ, show the same",
    ),
    Line("Mismatch between collective", "Mismatch between collective operation"),
    Line(
        "is all-gathering",  # FSDP's, with TORCH_DISTRIBUTED_DEBUG set: torch/distributed/fsdp/_exec_order_utils.py
        r"rank (?P<ranks>\d{1,6}) is all-gathering .{1,1500} while rank (?P<and_rank>\d{1,6}) is all-gathering",
        unless=r"is all-gathering (?:0|-\d{1,12}|\d{7,12}) parameters",  # none, or too many: nobody sent that number
    ),
)


ONE_WAY = ({"send"}, {"recv"}, {live.places.ONLY_MESSAGE})
SAME_HALF = ((("recv", "irecv"), "receive, and none sends"), (("send", "isend"), "send, and none receives"))
SAME_ORDER = "Make all ranks call the same collectives of the same groups in the same order."
OWN_GROUP = (
    "Give the other thread, as of an asynchronous checkpoint, a group of its own: dist.new_group(), on all ranks."
)
IN_ONE_ORDER = "Make all ranks call the collectives of several groups in the same order."
IN_TURN = "Let one side of each pair send first and the other receive first, or give both to batch_isend_irecv()."
BOTH_HALVES = (
    "Let each send() have its recv() on the rank that it names, with the same tag and group, where both ranks come to "
    "it in their turn."
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    yield from recorded(job)
    if job.servers or len(job.waiting) < len(job.ranks):
        return  # somebody is not in it: that is the reason
    if (blame := live.waits.group_blame(job)) is not None:
        yield other_groups(job, blame)
    elif (met := live.waits.comparison_of(job)) is not None:
        yield from [finding for look in LOOKS if (finding := look(met)) is not None][:1]


def crossed_groups(met: live.waits.Comparison) -> Finding | None:
    """Each waits in a collective of NCCL that others have not called, and not all in the same communicator."""
    groups = {rank.place.communicators for rank in met.inside}
    if not met.whole or len(groups) < 2 or () in groups:
        return None
    summary = "All ranks wait in collectives of NCCL, not all in the same group: each where others have not called it."
    why = tuple(f"{rank.called} waits in communicator {' and '.join(rank.place.communicators)}" for rank in met.inside)
    return found(met.inside, summary, met.inside, unsure=True, text=IN_ONE_ORDER, why=why[:4])


def same_halves(met: live.waits.Comparison) -> Finding | None:
    """All send, or all receive."""
    for halves, what in SAME_HALF:
        if met.whole and all(rank.place.call in halves for rank in met.inside):
            round_ = live.waits.for_the_next(met.inside)
            more = "" if len(round_) == len(met.inside) else f" {live.called(round_)} wait for each other."
            return found(round_, f"All ranks wait to {what}.{more}", met.inside, text=IN_TURN)
    return None


def messages_alone(met: live.waits.Comparison) -> Finding | None:
    """All wait for messages, of which nothing more is seen."""
    hosts = {rank.node.name for rank in met.inside}
    if not met.whole or len(hosts) > 1 or {rank.place.call for rank in met.inside} != {live.places.ONLY_MESSAGE}:
        return None
    summary = "All ranks wait for messages, and none comes: what they send and receive does not fit together."
    return found(met.inside, summary, met.inside, unsure=True, text=BOTH_HALVES)


def lone_halves(met: live.waits.Comparison) -> Finding | None:
    """Some send, or some receive, and all others wait in collectives."""
    lonely = [rank for rank in met.inside if rank.place.call in live.waits.PAIRS]
    if not met.whole or not 0 < len(lonely) < len(met.inside) or {rank.place.call for rank in lonely} not in ONE_WAY:
        return None
    theirs = live.waits.partners_of(lonely)
    if theirs is not None and not theirs & {rank.number for rank in lonely}:
        named = live.waits.message_blame(met.job)
        if named is not None:
            return other_messages(met.job, named)
    call = f"{live.called(lonely)} {_are(lonely)} in {lonely[0].place.call}"
    summary = f"{call}, and no rank does the other half of it: all others wait in collectives."
    more = " Whether it is left out there, or one too many here, cannot be known." if theirs is None else ""
    either = met.inside if theirs is None and len(met.inside) == 2 else lonely
    return found(either, summary + more, met.inside, unsure=theirs is None, text=BOTH_HALVES)


def other_calls(met: live.waits.Comparison) -> Finding | None:
    """Some are in another collective, or in that of another group, than the others."""
    knot = live.waits.knot_of(met.job, met.inside) if met.whole else None
    among = list(knot.groups) if knot is not None else met.inside
    odd = live.waits.minority(met, knot)
    if not odd:
        return None
    others = [rank for rank in among if rank not in odd]
    call, usual = (
        " or ".join(dict.fromkeys(f"{rank.place.said()}{knot.of(rank) if knot else ''}" for rank in those))
        for those in (odd, others)
    )
    summary = f"{live.called(odd)} {_are(odd)} {call}, while {live.called(others).lower()} {_are(others)} {usual}."
    why = knot.why if knot is not None else ()
    if live.waits.either_may_be_wrong(met, knot, odd, others):
        summary += " Which of them is wrong cannot be known from here."
        return found(among, summary, met.inside, unsure=True, why=why)
    unsure = len(odd) * 2 == len(met.inside)
    more = " Which of them is wrong, the other nodes tell: distdoctor hang there, too." if unsure else ""
    return found(odd, f"{summary}{more}", met.inside, why=why)


def crossed_messages(met: live.waits.Comparison) -> Finding | None:
    """Return what one sends, another does not receive."""
    blame = live.waits.message_blame(met.job) if met.whole else None
    return None if blame is None else other_messages(met.job, blame)


def further_calls(met: live.waits.Comparison) -> Finding | None:
    """All are in the same call, and some have made a further one; or each has, in another thread, and none ends."""
    if odd := live.waits.with_fewest_collectives(met.inside) if met.whole else None:
        return other_number(odd, met.inside)
    if not met.whole or not live.waits.threads_cross(met.inside):
        return None
    summary = (
        "On each rank the main thread waits in one collective and another thread in a further one of the same group: "
        "not all ranks begin them in the same order. Which of them is wrong cannot be known from here."
    )
    return found(met.inside, summary, met.inside, unsure=True)


# In this order: what stands further right is also seen where what stands left of it is the reason.
LOOKS = (crossed_groups, same_halves, messages_alone, lone_halves, other_calls, crossed_messages, further_calls)


def recorded(job: live.LiveJob) -> Iterator[Finding]:
    """Return what the flight recorders show, which the worker servers of torch.distributed.debug tell also of other
    hosts."""
    for one in live.flight_recorder.differing(job.servers):
        ranks = tuple(sorted(one.others))
        unsure = len(ranks) * 2 >= len(job.servers)
        blamed = ranks if not unsure else tuple(server.rank for server in job.servers)
        nodes = tuple(dict.fromkeys(host for rank in blamed if (host := job.host_of(rank))))
        other = one.others[ranks[0]]
        yield Finding.about(
            nodes,
            f"{ranks_text(ranks)} called {other.operation} {other.sizes} as number {one.number} of group {one.group}, "
            f"the others {one.usual.operation} {one.usual.sizes}.",
            ranks=blamed,
            unsure=unsure,
            evidence=(
                f"flight recorder of rank {server.rank}: {live.flight_recorder.call_text(server, one.group)}"
                for server in sorted(job.servers, key=lambda server: server.rank not in ranks)[:8]
            ),
            fixes=(Fix("Call the same collectives in the same order, with the same sizes, on all ranks."),),
        )


def other_groups(job: live.LiveJob, blame: live.waits.Blame) -> Finding:
    """Ranks that make other process groups than the others, or in another order; or that name another root."""
    ranks = [job.numbers[number] for number in blame.ranks]
    do = "name the same root" if blame.of_roots else "make the same process groups"
    summary = f"{live.called(ranks)} {_do(ranks)} not {do} as the others: {blame.why[0]}."
    if blame.one_of:
        summary = f"{live.called(ranks)} do not {do}: {blame.why[0]}. Which of them is wrong cannot be known from here."
    text = (
        "Name the same root (src, dst) on all ranks of the group."
        if blame.of_roots
        else "Make the same groups (new_group, init_device_mesh) with the same ranks in the same order on all ranks, "
        "also on those that do not belong to them."
    )
    return Finding.about(
        list(dict.fromkeys(rank.node for rank in ranks)),
        summary,
        ranks=blame.ranks,
        unsure=blame.one_of,
        evidence=(*blame.why[1:8], *live.where_ranks_are(job.ranks)),
        fixes=(Fix(text),),
    )


def other_messages(job: live.LiveJob, blame: live.waits.Blame) -> Finding:
    """Ranks of which one sends what another does not receive, or waits for what it does not send."""
    ranks = [job.numbers[number] for number in blame.ranks]
    summary = f"{live.called(ranks)} {_do(ranks)} not send and receive the same messages: {'; '.join(blame.why[:4])}."
    return Finding.about(
        list(dict.fromkeys(rank.node for rank in ranks)),
        f"{summary} Which of them is wrong cannot be known from here." if blame.one_of else summary,
        ranks=blame.ranks,
        unsure=blame.one_of,
        evidence=live.where_ranks_are(job.ranks),
        fixes=(Fix(BOTH_HALVES if blame.one_of or len(ranks) == 1 else IN_TURN),),
    )


def other_number(odd: list[live.LiveRank], inside: list[live.LiveRank]) -> Finding:
    """Ranks in the same call, of which some have made a further one: in another thread, or without waiting for it."""
    most = max(inside, key=live.waits.collectives_running)
    unsure = len(odd) == len(inside)
    summary = (
        f"{live.called(odd)} {_do(odd)} not make the same collectives{'' if unsure else ' as the others'}: all wait in "
        f"the same call, and {most.called} has {live.waits.collectives_running(most)} collectives under way."
    )
    return found(odd, summary, inside, unsure=unsure)


def _do(ranks: list[live.LiveRank]) -> str:
    return "does" if len(ranks) == 1 else "do"


def _are(ranks: list[live.LiveRank]) -> str:
    return "is" if len(ranks) == 1 else "are"


def found(
    odd: list[live.LiveRank],
    summary: str,
    inside: list[live.LiveRank],
    *,
    unsure: bool = False,
    text: str = "",
    why: tuple[str, ...] = (),
) -> Finding:
    threads = [*live.threads_in_collectives(inside)]
    fix = Fix(text or (OWN_GROUP if threads else SAME_ORDER))
    evidence = (*why[:8], *threads[:8], *live.where_ranks_are(inside))
    return live.rank_finding(odd, summary, evidence=evidence, fixes=(fix,), unsure=unsure)
