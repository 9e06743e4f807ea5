"""Ranks call different collectives, or with different sizes.

## What you see
`Detected mismatch between collectives on ranks`, gloo's `Received data size doesn't match expected size`, watchdogs
with different sizes at one sequence number, tracebacks of all ranks that end in different collectives.

## Why it happens
Ranks took different paths: a branch on the rank, on data, or another order of calls. Or all ranks send first, or all
receive first, and each waits for the other.

## Fix
Call the same collectives in the same order with the same shapes on all ranks. Run
`export TORCH_DISTRIBUTED_DEBUG=DETAIL` to see the first difference.

## Confirm with
`distdoctor hang` while it hangs, or `distdoctor diagnose LOGS...` afterwards.

## When it is harmless
Never.

## See also
collective/rank-missing, collective/rank-conditional, collective/uneven-inputs
"""

from distdoctor.check_api import Cluster, Finding, Fix, Iterator, Line, live, ranks_text

SEVERITY = "fail"
PREVENTS = "results right"
NEXT = ("the first differing call", "TORCH_DISTRIBUTED_DEBUG=DETAIL")
LOG = (
    Line(
        "flight recorder: ",
        r"number \d+: ranks? (?P<ranks>[\d, ]{1,200})(?: and \d+ more)? (?:called .{1,800}, the others |differ: )",
    ),
    Line(  # torchfrtrace, which compares the dumps of all ranks; a mere difference of states is another failure
        "error msg: Culprit rank ",
        r"^error msg: Culprit rank (?P<ranks>\d{1,6}); Error type: (?:COLLECTIVE_D?TYPE|SIZE_OR_SYNTAX)_",
    ),
    Line(
        "Input/output mismatch in the collective",
        r"^Input/output mismatch in the collective sequence number: \d",
        told="The sizes that the ranks pass to an all-to-all do not add up",
        fix="Pass input_split_sizes and output_split_sizes that agree between all ranks.",
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
        why="a connection that broke during a collective shows the same",
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
        why="a missing rank shows the same",
    ),
    Line(
        "message truncated : receiving",  # NCCL src/transport/net_socket.cc, during a collective
        r"message truncated : receiving \d+ bytes instead of \d+",
        shows="symptom",
        why="different sizes, or a different NCCL_PROTO, NCCL_ALGO or NCCL_BUFFSIZE on one rank, show the same",
    ),
    Line(
        "connecting to address  with family",  # NCCL src/misc/socket.cc; seen with two that sent first, 2.28.9
        shows="symptom",
        why="different versions, settings or interfaces of NCCL show the same",
    ),
    Line("Mismatch between collective", "Mismatch between collective operation"),
    Line(
        "is all-gathering",  # of FSDP, with TORCH_DISTRIBUTED_DEBUG set: torch/distributed/fsdp/_exec_order_utils.py
        r"rank (?P<ranks>\d{1,6}) is all-gathering .{1,1500} while rank (?P<and_rank>\d{1,6}) is all-gathering",
        unless=r"is all-gathering (?:0|-\d{1,12}|\d{7,12}) parameters",  # none, or an impossible number
    ),
)


ONE_WAY = ({"send"}, {"recv"}, {live.places.ONLY_MESSAGE})
SAME_HALF = ((("recv", "irecv"), "recv(), and no rank sends"), (("send", "isend"), "send(), and no rank receives"))
SAME_ORDER = (
    "Call the same collectives of the same groups in the same order on all ranks. "
    "Confirm with: start the job again with `TORCH_DISTRIBUTED_DEBUG=DETAIL`."
)
OWN_GROUP = (
    "Give the other thread (such as an asynchronous checkpoint) its own group: call dist.new_group() on all ranks."
)
IN_ONE_ORDER = "Call the collectives of several groups in the same order on all ranks."
IN_TURN = "On one side of each pair send first, on the other receive first; or pass both to batch_isend_irecv()."
BOTH_HALVES = (
    "Add the matching recv() for each send() on the rank that it names, with the same tag and group, in the same order."
)


def judge_job(cluster: Cluster) -> Iterator[Finding]:
    job = live.job_of(cluster)
    if job is None:
        return
    yield from recorded(job)
    if job.servers or len(job.waiting) < len(job.ranks):
        return  # a rank outside explains the wait
    if (blame := live.waits.group_blame(job)) is not None:
        yield other_groups(job, blame)
    elif (comparison := live.waits.comparison_of(job)) is not None:
        yield from [finding for look in COMPARISONS if (finding := look(comparison)) is not None][:1]


def crossed_groups(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks that wait in NCCL collectives of different communicators."""
    groups = {rank.place.communicators for rank in comparison.inside}
    if not comparison.whole or len(groups) < 2 or () in groups:
        return None
    summary = "All ranks wait in NCCL collectives of different groups, which other ranks have not called."
    why = tuple(
        f"{rank.called} waits in communicator {' and '.join(rank.place.communicators)}" for rank in comparison.inside
    )
    return comparison_finding(
        comparison.inside, summary, comparison.inside, unsure=True, text=IN_ONE_ORDER, why=why[:4]
    )


def same_halves(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks that all send, or all receive."""
    for halves, calls in SAME_HALF:
        if comparison.whole and all(rank.place.call in halves for rank in comparison.inside):
            round_ = live.waits.in_message_circle(comparison.inside)
            more = "" if len(round_) == len(comparison.inside) else f" {live.ranks_called(round_)} wait for each other."
            return comparison_finding(round_, f"All ranks wait in {calls}.{more}", comparison.inside, text=IN_TURN)
    return None


def messages_alone(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks that all wait for messages, without further evidence."""
    hosts = {rank.node.name for rank in comparison.inside}
    if (
        not comparison.whole
        or len(hosts) > 1
        or {rank.place.call for rank in comparison.inside} != {live.places.ONLY_MESSAGE}
    ):
        return None
    summary = "All ranks wait for messages, and none arrives: their sends and receives do not match."
    return comparison_finding(comparison.inside, summary, comparison.inside, unsure=True, text=BOTH_HALVES)


def lone_halves(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks that send or receive while all others wait in collectives."""
    lonely = [rank for rank in comparison.inside if rank.place.call in live.waits.PAIRS]
    if (
        not comparison.whole
        or not 0 < len(lonely) < len(comparison.inside)
        or {rank.place.call for rank in lonely} not in ONE_WAY
    ):
        return None
    partners = live.waits.partners_of(lonely)
    if partners is not None and not partners & {rank.number for rank in lonely}:
        named = live.waits.message_blame(comparison.job)
        if named is not None:
            return other_messages(comparison.job, named)
    call = f"{live.ranks_called(lonely)} {_are(lonely)} in {lonely[0].place.call}"
    summary = f"{call} without a matching call; all other ranks wait in collectives."
    more = " Either a call is missing there, or one is too many here." if partners is None else ""
    either = comparison.inside if partners is None and len(comparison.inside) == 2 else lonely
    return comparison_finding(either, summary + more, comparison.inside, unsure=partners is None, text=BOTH_HALVES)


def other_calls(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks in another collective, or of another group, than the others."""
    knot = live.waits.knot_of(comparison.job, comparison.inside) if comparison.whole else None
    among = list(knot.groups) if knot is not None else comparison.inside
    odd = live.waits.minority(comparison, knot)
    if not odd:
        return None
    others = [rank for rank in among if rank not in odd]
    call, usual = (
        " or ".join(dict.fromkeys(f"{rank.place.said()}{knot.of(rank) if knot else ''}" for rank in ranks))
        for ranks in (odd, others)
    )
    summary = (
        f"{live.ranks_called(odd)} {_are(odd)} {call}, while "
        f"{live.ranks_called(others).lower()} {_are(others)} {usual}."
    )
    why = knot.why if knot is not None else ()
    if live.waits.either_may_be_wrong(comparison, knot, odd, others):
        summary += " The facts do not show which of them is wrong."
        return comparison_finding(among, summary, comparison.inside, unsure=True, why=why)
    unsure = len(odd) * 2 == len(comparison.inside)
    more = " Run `distdoctor hang` on the other nodes to see which is wrong." if unsure else ""
    return comparison_finding(odd, f"{summary}{more}", comparison.inside, why=why)


def crossed_messages(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about messages that one rank sends and another does not receive."""
    blame = live.waits.message_blame(comparison.job) if comparison.whole else None
    return None if blame is None else other_messages(comparison.job, blame)


def further_calls(comparison: live.waits.Comparison) -> Finding | None:
    """Return the finding about ranks in the same call of which some, or other threads, have made a further one."""
    if odd := live.waits.with_fewest_collectives(comparison.inside) if comparison.whole else None:
        return other_number(odd, comparison.inside)
    if not comparison.whole or not live.waits.threads_cross(comparison.inside):
        return None
    summary = (
        "On each rank the main thread and another thread wait in different collectives of one group: "
        "the ranks start them in different orders. The facts do not show which is wrong."
    )
    return comparison_finding(comparison.inside, summary, comparison.inside, unsure=True)


# In this order: each look also matches where one to its left is the cause.
COMPARISONS = (crossed_groups, same_halves, messages_alone, lone_halves, other_calls, crossed_messages, further_calls)


def recorded(job: live.LiveJob) -> Iterator[Finding]:
    """Yield the findings of the flight recorders, which torch.distributed.debug also serves for other hosts."""
    for difference in live.flight_recorder.differing(job.servers):
        ranks = tuple(sorted(difference.others))
        unsure = len(ranks) * 2 >= len(job.servers)
        blamed = ranks if not unsure else tuple(server.rank for server in job.servers)
        nodes = tuple(dict.fromkeys(host for rank in blamed if (host := job.host_of(rank))))
        other = difference.others[ranks[0]]
        yield Finding.about(
            nodes,
            f"{ranks_text(ranks)} called {other.operation} {other.sizes} as number {difference.number} of group "
            f"{difference.group}, the others {difference.usual.operation} {difference.usual.sizes}.",
            ranks=blamed,
            unsure=unsure,
            evidence=(
                f"flight recorder of rank {server.rank}: {live.flight_recorder.call_text(server, difference.group)}"
                for server in sorted(job.servers, key=lambda server: server.rank not in ranks)[:8]
            ),
            fixes=(Fix("Call the same collectives in the same order with the same sizes on all ranks."),),
        )


def other_groups(job: live.LiveJob, blame: live.waits.Blame) -> Finding:
    """Return the finding about ranks that create other groups, or name another root, than the others."""
    ranks = [job.numbers[number] for number in blame.ranks]
    do = "name the same root" if blame.of_roots else "create the same process groups"
    summary = f"{live.ranks_called(ranks)} {_do(ranks)} not {do} as the others: {blame.why[0]}."
    if blame.one_of:
        summary = f"{live.ranks_called(ranks)} do not {do}: {blame.why[0]}. The facts do not show which is wrong."
    text = (
        "Name the same root (src, dst) on all ranks of the group."
        if blame.of_roots
        else "Create the same groups (new_group, init_device_mesh) with the same ranks in the same order on all ranks, "
        "members or not."
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
    """Return the finding about ranks with messages that do not match."""
    ranks = [job.numbers[number] for number in blame.ranks]
    summary = (
        f"{live.ranks_called(ranks)} {_do(ranks)} not send and receive the same messages: {'; '.join(blame.why[:4])}."
    )
    return Finding.about(
        list(dict.fromkeys(rank.node for rank in ranks)),
        f"{summary} The facts do not show which is wrong." if blame.one_of else summary,
        ranks=blame.ranks,
        unsure=blame.one_of,
        evidence=live.where_ranks_are(job.ranks),
        fixes=(Fix(BOTH_HALVES if blame.one_of or len(ranks) == 1 else IN_TURN),),
    )


def other_number(odd: list[live.LiveRank], inside: list[live.LiveRank]) -> Finding:
    """Return the finding about ranks in the same call of which some have made a further one, in a thread or async."""
    most = max(inside, key=live.waits.collectives_running)
    unsure = len(odd) == len(inside)
    summary = (
        f"{live.ranks_called(odd)} {_do(odd)} not call the same collectives{'' if unsure else ' as the others'}: all "
        "wait "
        "in "
        f"the same call, and {most.called} has {live.waits.collectives_running(most)} collectives running."
    )
    return comparison_finding(odd, summary, inside, unsure=unsure)


def _do(ranks: list[live.LiveRank]) -> str:
    return "does" if len(ranks) == 1 else "do"


def _are(ranks: list[live.LiveRank]) -> str:
    return "is" if len(ranks) == 1 else "are"


def comparison_finding(
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
