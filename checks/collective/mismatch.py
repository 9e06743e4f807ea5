"""Ranks call different collectives, or with different sizes.

What you see
------------
`Detected mismatch between collectives on ranks`, gloo's `Received data size doesn't match expected size`, watchdogs
with different sizes at one sequence number.

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

from collections import Counter
from collections.abc import Iterator

from distdoctor.check_api import Cluster, Finding, Fix, Line, live, ranks_said

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = (
    "the call that differs",
    "TORCH_DISTRIBUTED_DEBUG=DETAIL",
)
LOG = (
    Line(
        "flight recorder: ",
        r"number \d+: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? (?:called .{1,800}, the others |differ: )",
    ),
    Line(
        "watchdogs: number ",
        r"number \d+: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? called .{1,300}, the others ",
    ),
    Line(
        "Detected mismatch between collectives",
        r"Detected mismatch between collectives on ranks(?:\. Rank (?P<ranks>\d{1,6}) is running collective.{0,1500}?"
        r" but Rank (?P<and_rank>\d{1,6}) is running)?",
    ),
    Line(
        "op.preamble.length <= op.nbytes",
    ),
    Line(
        "Received data size doesn",
        "Received data size doesn.?t match expected size",
    ),
    Line(
        "collective operation timeout",
        "different sizes at one sequence number",
        shows="hint",
        why="compare the ranks",
    ),
    Line(
        "Mismatched collective detected",
        r"Mismatched collective detected(?:.{0,100}around rank (?P<rank>\d+))?",
    ),
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
        "Mismatch between collective",
        "Mismatch between collective operation",
    ),
    Line(
        "is all-gathering",  # FSDP's, with TORCH_DISTRIBUTED_DEBUG set: torch/distributed/fsdp/_exec_order_utils.py
        r"rank (?P<ranks>\d{1,6}) is all-gathering .{1,1500} while rank (?P<and_rank>\d{1,6}) is all-gathering",
        unless=r"is all-gathering (?:0|-\d{1,12}|\d{7,12}) parameters",  # none, or too many: nobody sent that number
    ),
)


SAME_CALL = frozenset(["all_reduce", "all_gather", "all_gather_into_tensor", "reduce_scatter", "reduce_scatter_tensor",
                       "all_to_all", "all_to_all_single", "barrier", "monitored_barrier"])  # fmt: skip
"""Those in which all ranks do the same: in the others the root often calls it on a line of its own."""
ONE_WAY = ({"send"}, {"recv"}, {live.places.ONLY_MESSAGE})
SAME_HALF = ((("recv", "irecv"), "receive, and none sends"), (("send", "isend"), "send, and none receives"))
IN_TURN = "Let one side of each pair send first and the other receive first, or give both to batch_isend_irecv()."
BOTH_HALVES = (
    "Let each send() have its recv() on the rank that it names, with the same tag and group, where both ranks come to "
    "it in their turn."
)
FURTHER_GROUPS = ("new_group", "split_group")
PASSES = frozenset([live.stacks.FORWARD, live.stacks.BACKWARD])
PAIRS = frozenset(["send", "recv", "isend", "irecv", "batch_isend_irecv", "wait",
                   live.places.MESSAGE, live.places.ONLY_MESSAGE])  # fmt: skip


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is not None:
        yield from recorded(job)
    if job is None or job.servers or len(job.waiting) < len(job.ranks):
        return  # somebody is not in it: that is the reason
    if (blame := live.groups.to_blame(job)) is not None:
        yield other_groups(job, blame)
        return
    inside = [rank for rank in job.waiting if in_call(rank)]
    whole = job.world is not None and len(inside) == job.world
    groups = {group.path for group in job.store.groups} if job.store else set()
    if len(inside) < 2 or len(inside) < len(job.ranks) or not (whole or len(groups) == 1):
        return
    if live.groups.whole_in_making(job):
        return  # they wait for none of the others
    for halves, what in SAME_HALF:
        if whole and all(rank.place.call in halves for rank in inside):
            round_ = live.messages.for_the_next(inside)
            more = "" if len(round_) == len(inside) else f" {live.called(round_)} wait for each other."
            yield found(round_, f"All ranks wait to {what}.{more}", inside, text=IN_TURN)
            return
    here = {rank.node.name for rank in inside}
    if whole and len(here) == 1 and {rank.place.call for rank in inside} == {live.places.ONLY_MESSAGE}:
        summary = "All ranks wait for messages, and none comes: what they send and receive does not fit together."
        yield found(inside, summary, inside, unsure=True, text=BOTH_HALVES)
        return
    lonely = [rank for rank in inside if rank.place.call in PAIRS]
    if whole and lonely and len(lonely) < len(inside) and {rank.place.call for rank in lonely} in ONE_WAY:
        theirs = live.messages.partners_of(lonely)
        named = None if theirs is None or theirs & {rank.number for rank in lonely} else live.messages.to_blame(job)
        if named is not None:
            yield other_messages(job, named)
            return
        call = f"{live.called(lonely)} {_are(lonely)} in {lonely[0].place.call}"
        summary = f"{call}, and no rank does the other half of it: all others wait in collectives."
        more = " Whether it is left out there, or one too many here, cannot be known." if theirs is None else ""
        either = inside if theirs is None and len(inside) == 2 else lonely
        yield found(either, summary + more, inside, unsure=theirs is None, text=BOTH_HALVES)
        return
    # A wait() is for what was called before: with no message under way, for a collective.
    paired = PAIRS - {"wait"} if whole and not any(rank.place.call in PAIRS - {"wait"} for rank in inside) else PAIRS
    knot = live.waits.knot_of(job, inside) if whole else None
    among = list(knot.groups) if knot is not None else inside
    odd = those_apart([rank for rank in among if knot is not None or rank.place.call not in paired], whole, knot)
    if knot is not None and knot.wrong is not None:
        odd = [knot.wrong]
    if odd:
        others = [rank for rank in among if rank not in odd]
        call, usual = (
            " or ".join(dict.fromkeys(f"{rank.place.said()}{knot.of(rank) if knot else ''}" for rank in those))
            for those in (odd, others)
        )
        are, why = "is" if len(odd) == 1 else "are", knot.why if knot is not None else ()
        summary = f"{live.called(odd)} {are} {call}, while {live.called(others).lower()} {_are(others)} {usual}."
        calls = Counter(rank.place.call for rank in odd)
        roots = {root for rank in others if (root := live.stacks.root_of(rank.process.main)) is not None}
        sure = knot is not None and knot.wrong is not None
        blind = knot is None and live.waits.may_differ(job, odd, others)
        if whole and not sure and (blind or len(roots) > 1 or max(calls.values()) >= len(others)):
            summary += " Which of them is wrong cannot be known from here."
            yield found(among, summary, inside, unsure=True, why=why)
            return
        unsure = len(odd) * 2 == len(inside)
        more = " Which of them is wrong, the other nodes tell: distdoctor hang there, too." if unsure else ""
        yield found(odd, f"{summary}{more}", inside, why=why)
    elif whole and (blame := live.messages.to_blame(job)) is not None:
        yield other_messages(job, blame)
    elif whole and (odd := live.waits.with_other_number(inside)):
        yield other_number(odd, inside)


def recorded(job: live.LiveJob) -> Iterator[Finding]:
    """What the flight recorders show, which the worker servers of torch.distributed.debug tell also of other hosts."""
    for one in live.recorded.differing(job.servers):
        ranks = tuple(sorted(one.others))
        nodes = tuple(dict.fromkeys(host for rank in ranks if (host := job.host_of(rank))))
        other = one.others[ranks[0]]
        yield Finding.about(
            nodes,
            f"{ranks_said(ranks)} called {other.operation} {other.sizes} as number {one.number} of group {one.group}, "
            f"the others {one.usual.operation} {one.usual.sizes}.",
            ranks=ranks,
            unsure=len(ranks) * 2 >= len(job.servers),
            evidence=(
                f"flight recorder of rank {server.rank}: {live.recorded.said(server, one.group)}"
                for server in sorted(job.servers, key=lambda server: server.rank not in ranks)[:8]
            ),
            fixes=(Fix("Call the same collectives in the same order, with the same sizes, on all ranks."),),
        )


def other_groups(job: live.LiveJob, blame: live.groups.Blame) -> Finding:
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


def other_messages(job: live.LiveJob, blame: live.groups.Blame) -> Finding:
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
    most = max(inside, key=live.waits.under_way)
    threads = (
        f"another thread of {rank.called} is in {call}"
        for rank in inside
        for thread in rank.process.threads[1:]
        if (call := live.stacks.call_of(thread))
    )
    unsure = len(odd) == len(inside)
    summary = (
        f"{live.called(odd)} {_do(odd)} not make the same collectives{'' if unsure else ' as the others'}: all wait in "
        f"the same call, and {most.called} has {live.waits.under_way(most)} collectives under way."
    )
    return found(odd, summary, inside, unsure=unsure, why=tuple(threads))


def in_call(rank: live.LiveRank) -> bool:
    """Whether it is in a call that all ranks have to make: a collective, or the making of a further group."""
    place = rank.place
    if place.kind in (live.places.GROUP, live.places.PEERS):
        return place.call in FURTHER_GROUPS
    return place.kind == live.places.COLLECTIVE and bool(place.call)


def _do(ranks: list[live.LiveRank]) -> str:
    return "does" if len(ranks) == 1 else "do"


def _are(ranks: list[live.LiveRank]) -> str:
    return "is" if len(ranks) == 1 else "are"


def those_apart(inside: list[live.LiveRank], whole: bool, knot: live.waits.Knot | None) -> list[live.LiveRank]:
    """The ranks that are in another collective, or in that of another group, than most; of two halves, those without
    the lowest rank."""
    by_call: dict[object, list[live.LiveRank]] = {}
    for rank in inside:
        by_call.setdefault(knot.of(rank) if knot is not None and knot.apart else rank.place.call, []).append(rank)
    if len(by_call) > 2 and {*by_call} >= PASSES:  # of one step of training: some are further in it than others
        first, second = sorted(PASSES)
        by_call[first] += by_call.pop(second)
    if len(by_call) < 2 and whole and {*by_call} <= SAME_CALL:
        by_call = {}
        for rank in inside:
            by_call.setdefault(rank.place.frame, []).append(rank)
    if len(by_call) < 2 or None in by_call:
        return []
    usual = max(by_call.values(), key=len)
    return [rank for rank in inside if rank not in usual]


def found(
    odd: list[live.LiveRank],
    summary: str,
    inside: list[live.LiveRank],
    *,
    unsure: bool = False,
    text: str = "Make all ranks call the same collectives of the same groups in the same order.",
    why: tuple[str, ...] = (),
) -> Finding:
    evidence = (*why[:8], *live.where_ranks_are(inside))
    return live.rank_finding(odd, summary, evidence=evidence, fixes=(Fix(text),), unsure=unsure)
