"""Ranks that do not send and receive the same messages: told by whom each names in the call in which it waits."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.hang import stacks
from distdoctor.model.facts import CallArguments, Frame, JobProcess, JobThread, ProcessChanges
from tests.hang.job_cases import ALL, CODE, FIFO, LOADING, READS, REDUCE, RUNS, judged, local, roots, warned
from tests.hang.live_facts import C10D, WORKS, call, frames, node, process, store

MISMATCH = "collective/mismatch"


def in_call(rank: int, name: str, partner: int | None) -> JobProcess:
    """A rank in ``send`` to this one, or in ``recv`` from it."""
    frame = Frame(name, C10D, 1, given=None if partner is None else CallArguments(peer=partner))
    return process(rank, (frame, *REDUCE[1:]))


def four(*calls: tuple[str, int | None] | None) -> list[JobProcess]:
    """A job of four, each in such a call, or in an all_reduce."""
    return [process(rank, REDUCE) if one is None else in_call(rank, *one) for rank, one in enumerate(calls)]


@pytest.mark.parametrize(
    ("ranks", "blamed", "blame", "said"),
    [
        (four(("send", 1), ("send", 2), ("send", 3), ("send", 0)), (0, 1, 2, 3), "all", "no rank receives"),
        (four(("send", 1), ("send", 0), ("send", 0), ("send", 2)), (0, 1), "all", "Ranks 0 and 1 wait for each other"),
        (four(("send", 1), ("send", 0), None, None), (0, 1), "all", "without a matching call"),
        (four(("send", 1), ("send", 0), ("recv", 3), None), (0, 1), "all", "rank 1 is in send at train.py:8 (to"),
        (four(("send", 1), ("recv", 2), ("send", 0), None), (0, 1, 2), "all", "rank 1 is in recv at train.py:8"),
        (four(("send", 2), ("recv", 0), None, None), (0, 2), "one-of", "rank 2 is in all_reduce"),
        (four(("send", 3), ("recv", 3), None, None), (3,), "all", "(from rank 3), rank 3 is in all_reduce"),
        (four(("recv", 1), None, None, None), (0, 1), "one-of", "The facts do not show which is wrong"),
        (four(("send", 2), None, None, None), (0, 2), "one-of", "rank 2 is in all_reduce"),
        (four(None, ("recv", 0), ("recv", 0), ("recv", 0)), (0,), "all", "(from rank 0), rank 0 is in all_reduce"),
        (four(("recv", None), None, None, None), (0,), "one-of", "or one is too many here"),
    ],
    ids=[
        "all send first", "two send, two wait for them", "two send, two reduce", "beside another", "a circle of three",
        "another receiver", "one for two", "one receives", "one sends", "three receive", "from whom is not seen",
    ],
)  # fmt: skip
def test_who_does_not_meet_is_named(ranks: list[JobProcess], blamed: tuple[int, ...], blame: str, said: str) -> None:
    report = judged(local(*ranks))
    assert roots(report) == [(MISMATCH, blamed, ("host0",))]
    assert report.findings[0].blame == blame
    assert said in str(report.findings)


@pytest.mark.parametrize(("idle", "found"), [((9.0, 9.0), True), ((9.0, 2.0), False), ((9.0, None), False)])
def test_a_message_that_has_been_under_way_for_so_long_is_none(idle: tuple[float | None, ...], found: bool) -> None:
    """Ranks of which one sends to the other, which waits for it: the tags differ, or the groups."""
    ranks = four(("send", 1), ("recv", 0), None, None)
    waited = [replace(rank, idle=seconds) for rank, seconds in zip(ranks, idle, strict=False)]
    report = judged(local(*waited, *ranks[2:]))
    assert roots(report) == ([(MISMATCH, (0, 1), ("host0",))] if found else [])
    apart = [node(*waited, stores=(ALL,)), node(*ranks[2:], stores=(ALL,), name="host1")]
    assert bool(roots(judged(*apart))) == found
    over = [node(waited[0], stores=(ALL,)), node(waited[1], *ranks[2:], stores=(ALL,), name="host1")]
    assert not roots(judged(*over))  # the network between them may be why


@pytest.mark.parametrize(
    "ranks",
    [
        four(("send", 1), ("recv", 0), None, None),
        four(("send", None), ("recv", 0), None, None),
        four(("send", 1), ("wait", None), None, None),
    ],
    ids=["a message under way", "to whom is not seen", "who waits may be the other half"],
)
def test_what_may_be_one_message_is_none(ranks: list[JobProcess]) -> None:
    assert not roots(judged(local(*ranks)))


def test_who_moves_is_not_named() -> None:
    ranks = four(("send", 2), ("recv", 0), None, None)
    moving = replace(ranks[2], moved=replace(ranks[2].moved, stack=True)) if ranks[2].moved else ranks[2]
    assert not roots(judged(local(ranks[0], ranks[1], moving, ranks[3])))


WORK, LOCK = "<torch._C._distributed_c10d.Work at 0x7f73c4b08f30>", "<_thread.lock at 0x7f73e5f7f3c0>"
STORE = "<torch._C._distributed_c10d.FileStore at 0x7f73c4b08f31>"


@pytest.mark.parametrize(
    ("variables", "has"),
    [
        ({"w": WORK, "n": "8"}, "work"),
        ({"lock": LOCK}, "lock"),
        ({"lock": "<_thread.RLock at 0x7f73e5f7f380>"}, "lock"),
        ({"w": WORK, "lock": LOCK}, "either"),
        ({"s": STORE, "rank": "1"}, "store"),
        ({"s": STORE, "lock": LOCK}, "lock"),
        ({"s": STORE, "w": WORK}, "work"),
        ({"s": "<StoreKeeper at 0x7f73e5f7f380>"}, None),
        ({"s": "<zarr.storage.LocalStore at 0x7f73e5f7f380>"}, None),
        ({"x": "<Worker at 0x7f73e5f7f380>"}, None),
        ({"x": '"<Work at 0x7f73e5f7f380>"'}, None),
    ],
    ids=[
        "work",
        "lock",
        "another lock",
        "both",
        "store",
        "store and lock",
        "store and work",
        "no store",
        "a store of data",
        "another class",
        "a text",
    ],
)
def test_what_a_function_of_the_job_has_to_wait_for(variables: dict[str, str], has: str | None) -> None:
    frame = stacks._frame({"name": "f", "filename": "/home/me/train.py", "short_filename": "train.py", "line": 8,
                           "locals": [{"name": name, "repr": text} for name, text in variables.items()]})  # fmt: skip
    assert (frame.given.has if frame.given else None) == has


def waits(rank: int, has: str, **more: object) -> JobProcess:
    """A rank that waits in C++ below its own code, which has this among its variables."""
    kinds = {
        "work": CallArguments(has="work"),
        "lock": CallArguments(has="lock"),
        "either": CallArguments(has="either"),
    }
    given = (kinds | {"store": CallArguments(has="store")}).get(has)
    return process(rank, (Frame("step", "train.py", 8, own=True, given=given),), **more)


def test_a_message_that_nobody_sends() -> None:
    """A wait() on what isend() or irecv() gave, below the job's own code."""
    report = judged(local(waits(0, "work", timed=True), REDUCE, REDUCE, REDUCE))
    assert roots(report) == [(MISMATCH, (0,), ("host0",))]
    assert "in wait() for a message without a matching call" in report.findings[0].summary
    assert not roots(judged(local(waits(0, "", timed=True), REDUCE, REDUCE, REDUCE)))


def test_of_two_ranks_either_may_have_left_out_its_half() -> None:
    pair = [replace(one, world_size=2) for one in (waits(0, "work", timed=True), process(1, REDUCE))]
    (found,) = judged(node(*pair, stores=(store((0, 1), 2),))).findings
    assert (found.check, found.ranks, found.blame) == (MISMATCH, (0, 1), "one-of")


PIPELINE = frames(
    "torch/distributed/pipelining/schedules.py:_wait_batch_p2p",
    "torch/distributed/pipelining/schedules.py:ScheduleGPipe._step_microbatches",
)


def test_stages_of_a_pipeline_wait_for_the_one_that_is_stuck() -> None:
    """Of torch.distributed.pipelining, which waits for messages in Python of its own."""
    stages = [process(rank, PIPELINE, timed=True) for rank in (0, 1, 2)]
    report = judged(local(*stages, process(3, CODE, **FIFO)))
    assert roots(report) == [("process/waiting-in-user-code", (3,), ("host0",))]


def test_all_wait_for_messages() -> None:
    """On one host, where no network can be why none comes; of several that is not known."""
    ranks = [waits(rank, "work", timed=True) for rank in range(4)]
    (found,) = judged(local(*ranks)).findings
    assert (found.check, found.ranks, found.blame) == (MISMATCH, (0, 1, 2, 3), "one-of")
    assert found.summary.startswith("All ranks wait for messages, and none arrives")
    apart = [node(*ranks[:2], stores=(ALL,)), node(*ranks[2:], stores=(ALL,), name="host1")]
    assert not roots(judged(*apart))
    assert not roots(judged(local(*ranks[:3], waits(3, "", timed=True))))
    assert not roots(judged(local(*ranks[:3], waits(3, "either", timed=True))))


@pytest.mark.parametrize("more", [{"timed": True}, {"threads": RUNS}], ids=["with a time limit", "beside a collective"])
def test_a_lock_is_no_message_and_no_collective(more: dict[str, object]) -> None:
    report = judged(local(waits(0, "lock", **more), REDUCE, REDUCE, REDUCE))
    assert roots(report) == [("process/waiting-in-user-code", (0,), ("host0",))]


def test_a_function_of_autograd_is_no_backward_pass() -> None:
    """DTensor's full_tensor() waits in one."""
    gathers = frames("torch/_ops.py:OpOverload.redispatch", "torch/autograd/function.py:Function.apply")
    (found,) = judged(local(process(0, gathers, threads=RUNS), *3 * [call("barrier")])).findings
    assert found.summary == "Rank 0 is in wait at train.py:8, while ranks 1, 2 and 3 are in barrier at train.py:8."


def test_who_has_a_lock_too_may_wait_for_that() -> None:
    (found,) = judged(local(waits(0, "either", threads=RUNS), REDUCE, REDUCE, REDUCE)).findings
    assert (found.check, found.ranks) == (MISMATCH, (0,))
    assert "Rank 0 is in wait at train.py:8 (for a collective, or for a lock), while" in found.summary


def test_of_two_ranks_either_may_be_wrong() -> None:
    ranks = (process(0, REDUCE, world_size=2), process(1, call("barrier"), world_size=2))
    report = judged(node(*ranks, stores=(store((0, 1), world=2),)))
    assert [(f.check, f.ranks, f.blame) for f in report.findings] == [(MISMATCH, (0, 1), "one-of")]


def test_a_collective_in_a_worker_of_a_data_loader() -> None:
    """A worker was forked from its rank, and has none of the threads that make its collectives."""
    ranks = [process(rank, LOADING, call="poll", idle=60.0, world_size=2) for rank in (0, 1)]
    workers = [
        process(None, call("barrier", 5), pid=300 + rank, parent=100 + rank, role="loader", idle=60.0, threads=())
        for rank in (0, 1)
    ]
    report = judged(node(*ranks, *workers, stores=(store((0, 1), world=2),), world_size=2))
    (found,) = report.findings
    assert (found.check, found.ranks) == ("process/waiting-in-user-code", (0, 1))
    assert "a worker of its data loader (pid 300) is at train.py:5 in barrier" in "".join(found.evidence)
    assert found.summary.endswith("do not move; the job has no other rank.")
    assert found.fixes[0].text.startswith("Call barrier in the rank itself")


def test_a_barrier_inside_of_a_lock_that_processes_share() -> None:
    """Who has a lock of multiprocessing the kernel does not tell: which of them it is has to be looked for."""
    waits_for_lock = frames("multiprocessing/synchronize.py:SemLock.__enter__")
    ranks = (process(rank, waits_for_lock) for rank in range(3))
    report = judged(local(*ranks, call("barrier")))
    assert roots(report) == [("process/waiting-in-user-code", (0, 1, 2), ("host0",))]
    assert "call no collective while a lock is held" in report.findings[0].fixes[0].text


def test_a_call_that_one_rank_alone_has_not_waited_for() -> None:
    """An all_reduce(async_op=True) before the barrier, which the others make after it: gloo's barrier waits for it."""
    had = process(1, (REDUCE[0], replace(REDUCE[1], given=CallArguments(has="work"))))
    notes = judged(local(REDUCE, had, REDUCE, REDUCE)).notes
    assert any(note.startswith("not all ranks hold a Work there (rank 1, but not rank 0,") for note in notes)
    without = judged(local(REDUCE, *(replace(had, rank=rank, pid=100 + rank) for rank in (1, 2, 3)))).notes
    assert any("there (rank 1, rank 2, rank 3, but not rank 0)" in note for note in without)
    assert not any("a Work" in note for note in judged(local(REDUCE, REDUCE, REDUCE, REDUCE)).notes)


LOOKS_AGAIN = {"call": "clock_nanosleep", "threads": RUNS, "moved": ProcessChanges(1.5, switches=15, stack=False)}


def test_who_asks_again_and_again_whether_its_collective_is_through() -> None:
    """``while not work.is_completed(): time.sleep(0.1)``"""
    looking = [waits(rank, "work", **LOOKS_AGAIN) for rank in (0, 1, 3)]
    (found,) = judged(local(*looking[:2], process(2, call("barrier")), looking[2])).findings
    assert (found.check, found.ranks) == (MISMATCH, (2,))
    reads = judged(local(*looking[:2], process(2, CODE, moved=READS), looking[2]))
    assert warned(reads) == [("process/waiting-in-user-code", (2,))] and reads.verdict == "warn"
    computes = judged(local(*looking[:2], process(2, CODE, moved=WORKS, call=""), looking[2]))
    assert warned(computes) == [("process/waiting-in-user-code", (2,))] and computes.verdict == "warn"
    held = judged(local(*looking[:2], process(2, CODE, **FIFO), looking[2]))
    assert roots(held) == [("process/waiting-in-user-code", (2,), ("host0",))]


@pytest.mark.parametrize(
    ("has", "more"),
    [("", {}), ("lock", {}), ("work", {"threads": ("gloo_tcp_loop", "pt_gloo_runloop")}),
     ("work", {"moved": ProcessChanges(1.5, switches=15, read=9, written=9, stack=False)})],
    ids=["nothing", "a lock", "no collective under way", "it writes meanwhile"],
)  # fmt: skip
def test_who_looks_again_and_again_for_something_else(has: str, more: dict[str, object]) -> None:
    report = judged(local(waits(0, has, **LOOKS_AGAIN | more), *3 * [call("barrier")]))
    assert not roots(report)


def test_a_key_of_a_store_that_is_a_file() -> None:
    """FileStore.get() looks every 10 ms whether it is there."""
    moved = ProcessChanges(1.5, switches=140, stack=False)
    asks = waits(1, "store", call="clock_nanosleep", moved=moved)
    (found,) = judged(local(REDUCE, asks, REDUCE, REDUCE)).findings
    assert (found.check, found.ranks) == ("process/waiting-in-user-code", (1,))
    assert "is waiting for a key of the store at train.py:8" in found.summary
    rests = waits(1, "store", call="clock_nanosleep", moved=ProcessChanges(1.5, switches=1, stack=False))
    assert "is in its own code" in judged(local(REDUCE, rests, REDUCE, REDUCE)).findings[0].summary
    works = judged(local(process(0, CODE, moved=READS), asks, REDUCE, REDUCE))
    assert warned(works) == [("process/waiting-in-user-code", (0,))] and works.verdict == "warn"


@pytest.mark.parametrize("function", ["join", "Thread.join"], ids=["Python 3.10", "Python 3.11"])
def test_who_waits_for_a_thread_that_waits_for_a_message(function: str) -> None:
    joining = (Frame(function, "threading.py", 1119), *CODE)
    receives = JobThread(1300, "python", "S", call="futex", timed=True, frames=call("recv", 40))
    one = process(1, joining)
    report = judged(local(REDUCE, replace(one, threads=(*one.threads, receives)), REDUCE, REDUCE))
    assert roots(report) == [(MISMATCH, (1,), ("host0",))]
    for other in (replace(receives, timed=False), replace(receives, frames=CODE)):
        report = judged(local(REDUCE, replace(one, threads=(*one.threads, other)), REDUCE, REDUCE))
        assert roots(report) == [("process/waiting-in-user-code", (1,), ("host0",))]
