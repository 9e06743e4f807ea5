"""Ranks in collectives of different groups: told by gloo's threads and by where the groups' members listen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from distdoctor.model.facts import CallArguments, Frame, GroupView, JobProcess, JobThread, Member, NodeFacts, Socket
from tests.hang.job_cases import ALL, judged, local, roots
from tests.hang.live_facts import C10D, call, process

MISMATCH = "collective/mismatch"
IDLE, RUNS = ("gloo_tcp_loop", "pt_gloo_runloop"), ("gloo_tcp_loop", "pt_gloo_runloop in a collective")


def rank(number: int, groups: int, running: int | None, stack: tuple[Frame, ...]) -> JobProcess:
    """A rank of so many groups that waits in a collective of one of them: of the default one (0), or of a later."""
    threads = [name for group in range(groups) for name in (RUNS if group == running else IDLE)]
    ports = [4000 + number, *(4000 + 100 * name + number for name in range(1, 9))]
    return process(number, stack, threads=threads, sockets=tuple(Socket("LISTEN", "10.0.0.1", port) for port in ports))


def job(groups: Sequence[Sequence[int]], *ranks: JobProcess, restarted: bool = False) -> NodeFacts:
    """A job of four on one host, with further groups of these ranks, made in this order."""
    made = [
        GroupView(
            f"default_pg/0//{name}",
            joined=tuple(range(len(those))),
            members=tuple(
                Member(of, "host0", "10.0.0.1", 4000 + 100 * name + number, len(those))
                for of, number in enumerate(those)
            ),
        )
        for name, those in enumerate(groups, 1)
    ]
    default = replace(
        ALL.groups[0], members=tuple(Member(n, "host0", "10.0.0.1", 4000 + n, 4) for n in range(len(ranks)))
    )
    facts = local(*ranks)
    view = replace(ALL, groups=(*made[::-1], default), clients=9 if restarted else 4)
    return replace(facts, jobs=(replace(facts.jobs[0], stores=(view,)),))


LATER, EARLIER = call("all_reduce", 9), call("all_reduce", 8)
PAIRS = ((0, 1), (2, 3))
LEFT_OUT = (rank(0, 2, 0, LATER), rank(1, 2, 0, LATER), rank(2, 2, 1, EARLIER), rank(3, 2, 0, LATER))
"""Rank 3 left the call of its pair out, so that rank 2 waits for it, and the others for rank 2."""
EXPERTS = ((0, 1, 2, 3),)
SKIPPED = (*(rank(number, 2, 1, EARLIER) for number in (0, 1, 2)), rank(3, 2, 0, LATER))
SAME_LINE = (*(rank(number, 2, 1, EARLIER) for number in (0, 1, 2)), rank(3, 2, 0, EARLIER))
CROSSED = ((0, 1, 2), (1, 2, 3))
OTHER_ORDER = (rank(0, 2, 1, EARLIER), rank(1, 3, 2, LATER), rank(2, 3, 1, EARLIER), rank(3, 2, 1, LATER))
LEADERS = ((0, 1), (2, 3), (0, 2))
NO_LEADER = (rank(0, 3, 2, EARLIER), rank(1, 2, 0, LATER), rank(2, 3, 0, LATER), rank(3, 2, 0, LATER))
SHARDS = ((0, 2), (1, 3), (0, 1), (2, 3))
NO_BACKWARD = (rank(0, 3, 1, EARLIER), rank(1, 3, 1, EARLIER), rank(2, 3, 2, EARLIER), rank(3, 3, 0, LATER))
"""Of two replicas of two shards each; rank 2 waits for rank 3, and rank 0 for rank 2."""
INNER = (rank(0, 2, 1, EARLIER), rank(1, 2, 1, call("barrier", 8)), rank(2, 2, 0, LATER), rank(3, 2, 0, LATER))


@pytest.mark.parametrize(
    ("facts", "blamed", "blame"),
    [
        (job(PAIRS, *LEFT_OUT), (2, 3), "one-of"),
        (job(EXPERTS, *SKIPPED), (3,), "all"),
        (job(EXPERTS, *SAME_LINE), (3,), "all"),
        (job(CROSSED, *OTHER_ORDER), (1, 2), "one-of"),
        (job(LEADERS, *NO_LEADER), (0, 2), "one-of"),
        (job(PAIRS, *INNER), (0, 1), "one-of"),
        (job(SHARDS, *NO_BACKWARD), (3,), "all"),
    ],
    ids=["a pair", "one of all", "at one line", "two orders", "a leader", "within a pair", "in every circle"],
)
def test_who_waits_for_each_other_is_told_by_their_groups(
    facts: NodeFacts, blamed: tuple[int, ...], blame: str
) -> None:
    report = judged(facts)
    assert roots(report) == [(MISMATCH, blamed, ("host0",))]
    assert report.findings[0].blame == blame


def scatters(number: int, root: int, running: int = 0) -> JobProcess:
    """A rank that scatters from this root, in the default group or in a further one."""
    frame = Frame("scatter_object_list", C10D, 1, given=CallArguments(peer=root))
    return rank(number, 2, running, (frame, *EARLIER[1:]))


@pytest.mark.parametrize(
    ("facts", "blamed"),
    [
        (job(PAIRS, scatters(0, 0), *(scatters(number, 1) for number in (1, 2, 3))), ((0,), "all")),
        (job(PAIRS, scatters(0, 0), scatters(1, 1), scatters(2, 0), scatters(3, 1)), ((0, 1, 2, 3), "one-of")),
        (job(PAIRS, *(scatters(number, number // 2 * 2, 1) for number in range(4))), None),
    ],
    ids=["one names itself", "halves", "groups of their own"],
)
def test_ranks_of_one_group_name_one_root(facts: NodeFacts, blamed: tuple[tuple[int, ...], str] | None) -> None:
    found = judged(facts).findings
    assert [(finding.ranks, finding.blame) for finding in found] == ([blamed] if blamed is not None else [])


def test_who_only_waits_for_those_is_not_named_and_the_groups_are() -> None:
    finding = judged(job(PAIRS, *LEFT_OUT)).findings[0]
    assert finding.summary == (
        "Rank 3 is in all_reduce at train.py:9 of the default group, while rank 2 is in all_reduce at train.py:8 of "
        "group 2. The facts do not show which of them is wrong."
    )
    assert finding.evidence[:2] == (
        "ranks 0, 1, 3 are in a collective of the default group (ranks 0, 1, 2, 3), and rank 2 is not",
        "rank 2 is in a collective of group 2 (ranks 2, 3), and rank 3 is not",
    )


@pytest.mark.parametrize(
    "facts",
    [
        job(PAIRS, *LEFT_OUT, restarted=True),
        job((*PAIRS, (0, 1)), *LEFT_OUT),
        job(PAIRS, *LEFT_OUT[:2], rank(2, 2, None, EARLIER), LEFT_OUT[3]),
    ],
    ids=["addresses of an attempt before", "another number of groups than of threads", "no thread that runs"],
)
def test_without_knowing_the_groups_any_of_them_may_be_wrong(facts: NodeFacts) -> None:
    """All are in the same call: who is alone at its line may only wait for one of the others."""
    finding = judged(facts).findings[0]
    assert (finding.check, finding.ranks, finding.blame) == (MISMATCH, (0, 1, 2, 3), "one-of")
    assert not any("default group" in line for line in finding.evidence)


@pytest.mark.parametrize("line", [EARLIER, call("barrier", 8)], ids=["the same call", "another call"])
def test_who_is_in_another_group_may_wait_for_one_of_the_others(line: tuple[Frame, ...]) -> None:
    """The store was not read, and the threads tell that rank 2 is in a collective of a further group."""
    ranks = [rank(number, 2, 1, line) if number == 2 else rank(number, 2, 0, LATER) for number in range(4)]
    facts = job(PAIRS, *ranks)
    unread = replace(ALL, state="unreached", groups=())
    finding = judged(replace(facts, jobs=(replace(facts.jobs[0], stores=(unread,)),))).findings[0]
    assert (finding.check, finding.ranks, finding.blame) == (MISMATCH, (0, 1, 2, 3), "one-of")


def test_in_one_group_who_is_alone_is_at_the_wrong_line() -> None:
    ranks = [rank(number, 2, 0, LATER if number == 3 else EARLIER) for number in range(4)]
    assert [(finding.ranks, finding.blame) for finding in judged(job(PAIRS, *ranks)).findings] == [((3,), "all")]


TWICE = ("gloo_tcp_loop", "pt_gloo_runloop in a collective", "pt_gloo_runloop in a collective")


@pytest.mark.parametrize(
    ("more", "blamed"),
    [((1,), ((1,), "all")), ((0, 1, 2), ((3,), "all")), ((0, 1), ((0, 1, 2, 3), "one-of")), ((0, 1, 2, 3), None)],
    ids=["one has more", "one has fewer", "halves", "all have as many"],
)
def test_who_has_another_number_of_collectives_under_way(
    more: tuple[int, ...], blamed: tuple[tuple[int, ...], str] | None
) -> None:
    """All are at the same line: a thread of some of them has made a further call."""
    ranks = [process(number, EARLIER, threads=TWICE if number in more else RUNS) for number in range(4)]
    found = judged(local(*ranks)).findings
    assert [(finding.ranks, finding.blame) for finding in found] == ([blamed] if blamed is not None else [])
    assert not found or "rank 0 has 2 collectives running" in found[0].summary or more == (1,)


def test_what_its_other_thread_is_in_is_told() -> None:
    thread = JobThread(9, "python", "S", call="futex", frames=call("barrier", 30))
    ranks = [process(number, EARLIER, threads=RUNS) for number in range(3)]
    last = process(3, EARLIER, threads=TWICE)
    finding = judged(local(*ranks, replace(last, threads=(*last.threads, thread)))).findings[0]
    assert finding.evidence[0] == "host0: another thread of rank 3 is in barrier at train.py:30"
