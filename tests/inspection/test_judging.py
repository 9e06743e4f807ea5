"""What is found in jobs that run, and what is left alone: on facts made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.inspection.changes import changes
from distdoctor.inspection.report import report_on_jobs
from distdoctor.model.facts import (
    AgentView,
    BuildLock,
    Contact,
    Frame,
    GroupView,
    JobProcess,
    JobThread,
    Member,
    Moved,
    NodeFacts,
    Socket,
    StoreView,
)
from distdoctor.model.report import Report
from tests.facts_builder import CHECKS
from tests.inspection.live_facts import (
    C10D,
    MAKING,
    RENDEZVOUS,
    WORKS,
    call,
    frames,
    node,
    process,
    store,
    syn_sent,
)

ALL = store((0, 1, 2, 3))
REDUCE = call("all_reduce")
CODE, FIFO = frames(), {"call": "read", "reads": "/data/x"}
NO_ANSWER = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "no-answer"))
REFUSED = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "refused", 111))
FAR = StoreView("host0", 29500, "unreached", Contact("10.0.0.1", 29500, "unreachable", 113))
WAITING_HOST = process(0, RENDEZVOUS, threads=("pt_tcpstore_uv",), call="clock_nanosleep")
SILENT = syn_sent("10.0.0.1", 29500)
BEGUN = ("gloo_tcp_loop",)
LISTENS = {"sockets": (Socket("LISTEN", "10.0.0.1", 4001),)}
OTHER_WROTE = store((1, 2), clients=4, members_at={1: ("host1", 4009)})
ARRIVED = StoreView("host0", 29500, "read", Contact("10.0.0.1", 29500, "open"), clients=2, hosted_by="agent")
AGENT = JobProcess(90, 1, "agent", "pt_elastic", "S", age=60.0, node_rank=0)
STATIC: dict[str, Any] = {"launcher": "torchrun", "rdzv_backend": "static", "node_rank": 0, "world_size": None}
AT_STORE = Socket("ESTABLISHED", "10.0.0.1", 5001, "10.0.0.1", 29500)
WHOLE = ("gloo_tcp_loop", "pt_gloo_runloop")
BACKWARD = frames("torch/autograd/graph.py:_engine_run_backward", "torch/_tensor.py:backward")
FORWARD = frames("torch/nn/parallel/distributed.py:_sync_buffers", "torch/nn/parallel/distributed.py:forward")
RUNS = ("gloo_tcp_loop", "pt_gloo_runloop in a collective")
STARVED = process(3, CODE, call="", state="R", moved=Moved(1.5, cpu=0.01))
IN_ONE = [process(number, (), threads=RUNS) for number in (1, 2, 3)]
SAVER = JobThread(1234, "python", "S", call="futex", timed=False, frames=call("all_reduce", 30))
JOINS = process(0, (Frame("join", "/usr/lib/python3.11/threading.py", 1), *CODE), threads=RUNS)
WAITS_FOR_THREAD = replace(JOINS, threads=(*JOINS.threads, SAVER))
LOCK = BuildLock("/cache/x/lock", 900.0)
POLLS: dict[str, Any] = {"call": "clock_nanosleep", "moved": Moved(1.5, switches=15), "sockets": (AT_STORE,)}
READS = replace(WORKS, read=1 << 20)
LOADING = frames("torch/utils/data/dataloader.py:_get_data")
FURTHER = frames(f"{C10D}:_new_process_group_helper", f"{C10D}:new_group")
FILE_LOCK = frames("filelock/_api.py:acquire")
BATON = frames("torch/utils/file_baton.py:wait", "torch/utils/cpp_extension.py:load")


def judged(*facts: NodeFacts) -> Report:
    return report_on_jobs(facts, CHECKS, (), started_at="", seconds=0.0)


def roots(report: Report) -> list[tuple[str, tuple[int, ...], tuple[str, ...]]]:
    return [(f.check, f.ranks, f.nodes) for f in report.findings if f.because_of is None and f.severity == "fail"]


def local(*ranks: Any, workers: Sequence[float] = (), children: Sequence[float] = (), **more: Any) -> NodeFacts:
    """A whole job of four on one host, rank by rank: its stack, or its process. ``workers`` of a data loader of rank 0,
    and other ``children`` of it: for how many seconds each was idle."""
    made = [one if not isinstance(one, tuple) else process(number, one) for number, one in enumerate(ranks)]
    idle = [(seconds, "loader") for seconds in workers] + [(seconds, "child") for seconds in children]
    for pid, (seconds, role) in enumerate(idle, 300):
        made.append(process(None, (), pid=pid, parent=100, role=role, idle=seconds, call="clock_nanosleep", threads=()))
    return node(*made, stores=(ALL,), **more)


FOUND = {
    "stopped": (
        node(process(0, REDUCE, state="T"), process(1, REDUCE), stores=(ALL,)),
        ("process/stopped", (0,), ("host0",)),
    ),
    "code": (
        node(process(0, REDUCE), process(1, CODE, **FIFO), stores=(ALL,)),
        ("process/waiting-in-user-code", (1,), ("host0",)),
    ),
    "a server that gives no answer, without a stack": (
        node(
            process(0, (), threads=WHOLE, call="recvfrom", reads="socket:[7] to 10.9.9.9:443", sockets=(AT_STORE,)),
            process(1, (), threads=RUNS, sockets=(AT_STORE,)),
            stores=(ALL,),
        ),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "never calls init": (
        node(WAITING_HOST, process(1, CODE, threads=(), **FIFO), stores=(store((2, 3), clients=3),)),
        ("process/waiting-in-user-code", (1,), ("host0",)),
    ),
    "between two tries, without a stack": (
        node(process(1, (), threads=(), call="clock_nanosleep"), stores=(REFUSED,)),
        ("network/port-refused", (), ("host0",)),
    ),
    "device": (
        node(process(0, REDUCE), process(1, CODE, state="D"), stores=(ALL,)),
        ("host/filesystem-stalled", (1,), ("host0",)),
    ),
    "other calls": (
        local(REDUCE, call("barrier"), REDUCE, REDUCE),
        ("collective/mismatch", (1,), ("host0",)),
    ),
    "other order": (
        local(call("all_reduce", 9), REDUCE, REDUCE, REDUCE),
        ("collective/mismatch", (0,), ("host0",)),
    ),
    "all receive": (
        local(*(call("recv", line) for line in (4, 4, 4, 4))),
        ("collective/mismatch", (0, 1, 2, 3), ("host0",)),
    ),
    "node missing": (
        node(WAITING_HOST, process(1, MAKING, threads=BEGUN, call="poll"), stores=(store((1,), clients=2),)),
        ("collective/rank-missing", (2, 3), ()),
    ),
    "filtered": (
        node(process(2, RENDEZVOUS, threads=(), sockets=(SILENT,)), stores=(NO_ANSWER,), name="host1"),
        ("network/port-filtered", (), ("host0",)),
    ),
    "refused": (
        node(process(2, RENDEZVOUS, threads=(), call="clock_nanosleep"), stores=(REFUSED,), name="host1"),
        ("network/port-refused", (), ("host0",)),
    ),
    "cut off": (
        node(process(2, REDUCE), stores=(FAR,), name="host1"),
        ("network/master-unreachable", (), ("host0",)),
    ),
    "peers": (
        node(
            process(2, MAKING, threads=BEGUN, sockets=(syn_sent("10.0.0.1", 4000),)),
            process(3, MAKING, threads=BEGUN),
            stores=(ALL,),
            name="host1",
        ),
        ("mesh/peer-ports-blocked", (), ("host0",)),
    ),
    "loopback": (
        node(
            process(2, MAKING, threads=BEGUN, call="poll", sockets=(Socket("LISTEN", "127.0.1.1", 4002),)),
            stores=(REFUSED,),
            name="host1",
        ),
        ("gloo/loopback-address", (2,), ("host1",)),
    ),
    "store's host dead": (
        node(
            process(2, MAKING, threads=BEGUN, call="poll",
                    sockets=(Socket("CLOSE_WAIT", "10.0.0.2", 5000, "10.0.0.1", 29500),)),
            stores=(REFUSED,),
            name="host1",
        ),
        ("process/rank0-died", (0,), ("host0",)),
    ),
    "gone": (
        node(process(0, REDUCE), stores=(ALL,)),
        ("process/gone", (1,), ("host0",)),
    ),
    "a rank twice on one host": (
        node(
            WAITING_HOST,
            process(1, MAKING, threads=BEGUN, call="poll"),
            process(1, MAKING, threads=BEGUN, call="poll", pid=160),
            stores=(store((1,), clients=3),),
        ),
        ("environment/duplicate-rank", (1,), ("host0",)),
    ),
    "a rank there and elsewhere": (
        node(WAITING_HOST, process(1, MAKING, threads=BEGUN, call="poll", **LISTENS), stores=(OTHER_WROTE,)),
        ("environment/duplicate-rank", (1,), ("host0", "host1")),
    ),
    "two nodes of one number": (
        node(AGENT, stores=(replace(ARRIVED, agents=(AgentView(0, 2),)),), **STATIC),
        ("environment/duplicate-node-rank", (), ("host0",)),
    ),
    "a batch more, with DistributedDataParallel": (
        local(process(0, BACKWARD, threads=RUNS), *3 * [call("barrier")]),
        ("collective/mismatch", (0,), ("host0",)),
    ),
    "a forward pass of one rank": (
        local(process(0, FORWARD, threads=RUNS), *3 * [call("barrier")]),
        ("collective/mismatch", (0,), ("host0",)),
    ),
    "nobody sends": (
        local(call("recv"), REDUCE, REDUCE, REDUCE),
        ("collective/mismatch", (0,), ("host0",)),
    ),
    "frozen with its container": (
        local(REDUCE, process(1, CODE, frozen="/sys/fs/cgroup/box", call="clock_nanosleep"), REDUCE, REDUCE),
        ("process/stopped", (1,), ("host0",)),
    ),
    "two groups, asynchronously": (
        local(process(0, CODE, threads=RUNS), REDUCE, *(process(r, CODE, threads=RUNS) for r in (2, 3))),
        ("collective/mismatch", (1,), ("host0",)),
    ),
    "a further group that one rank does not make": (
        local(*3 * [FURTHER], call("barrier")),
        ("collective/mismatch", (3,), ("host0",)),
    ),
    "sleeps for long": (
        local(process(0, CODE, call="clock_nanosleep", idle=10.0), REDUCE, REDUCE, REDUCE),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "a data worker that stands still": (
        local(process(0, LOADING, call="poll", idle=1.0), REDUCE, REDUCE, REDUCE, workers=[60.0, 90.0]),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "a thread of its own is in a collective": (
        local(WAITS_FOR_THREAD, *3 * [call("barrier")]),
        ("collective/mismatch", (0,), ("host0",)),
    ),
    "two agents of one number here": (
        node(replace(AGENT, node_rank=1), replace(AGENT, pid=91, node_rank=1), stores=(REFUSED,), **STATIC),
        ("environment/duplicate-node-rank", (), ("host0",)),
    ),
    "lock": (
        local(BATON, BATON, BATON, BATON, locks=(BuildLock("/cache/x/lock", 900.0),)),
        ("host/extension-lock-stale", (0, 1, 2, 3), ("host0",)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str) -> None:
    facts, expected = FOUND[name]
    report = judged(facts)
    assert not [note for note in report.notes if "crashed" in note]
    assert roots(report) == [expected]
    assert report.verdict == "fail"
    assert report.details["job"]["state"] == "hangs"


LEFT = {
    "it trains": (local(*(process(r, REDUCE, moved=WORKS) for r in range(4))), "pass", ""),
    "one loads data": (
        local(REDUCE, REDUCE, REDUCE, process(3, frames("torch/utils/data/dataloader.py:__next__"), moved=WORKS)),
        "pass",
        "slow, not stuck: rank 3 is waiting for data",
    ),
    "one computes for a while": (
        local(process(0, REDUCE, idle=20.0), REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "pass",
        "slow so far: rank 3 is in its own code at train.py:8, and computes there; the others wait, for 20 s at least",
    ),
    "one computes, and the others wait long": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "incomplete",
        "rank 3 is in its own code at train.py:8: all that moves there is the processor; the others wait, for 300 s",
    ),
    "one computes for long, and gets about in its code": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=replace(WORKS, paths=5))),
        "pass",
        "it is slow, not stuck: rank 3 is in its own code at train.py:8, and that moves (its stack was seen on 5",
    ),
    "one computes for long, in a loop and what that calls": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=replace(WORKS, paths=2))),
        "incomplete",
        "a long step or a loop without an end",
    ),
    "one computes, since when is not known": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "incomplete",
        "a long step or a loop without an end",
    ),
    "one would compute, and gets no processor": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, STARVED),
        "incomplete",
        "a long step or a loop without an end",
    ),
    "one reads much, and the others wait long": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=READS)),
        "pass",
        "it is slow, not stuck",
    ),
    "one sleeps for a moment": (
        local(process(0, CODE, call="clock_nanosleep", idle=2.0), REDUCE, REDUCE, REDUCE),
        "warn",
        "it is slow so far: rank 0 is in its own code at train.py:8 (sleeps), and nothing moves there for 4 s at most",
    ),
    "a data worker that takes its time": (
        local(process(0, LOADING, call="poll", idle=9.0), REDUCE, REDUCE, REDUCE, workers=[90.0, 1.0]),
        "warn",
        "it is slow so far",
    ),
    "a program of its own that sleeps for a moment": (
        local(process(0, CODE, call="wait4", idle=90.0), REDUCE, REDUCE, REDUCE, children=[1.0]),
        "warn",
        "it is slow so far",
    ),
    "a checkpoint that is flushed": (
        local(process(0, CODE, state="D", call="fsync", idle=12.0), REDUCE, REDUCE, REDUCE),
        "warn",
        "it is slow so far",
    ),
    "a file lock that is looked at again and again": (
        local(process(0, FILE_LOCK, idle=0.1, **POLLS), REDUCE, REDUCE, REDUCE),
        "incomplete",
        "rank 0 is waiting for a file lock at train.py:8 (sleeps): nothing moves there, and it cannot be told why",
    ),
    "some wait for a message, and one is in a collective": (
        local(process(0, CODE, threads=RUNS), REDUCE, call("send"), call("recv")),
        "incomplete",
        "all ranks wait",
    ),
    "a further group is made, without a stack": (
        node(
            process(0, (), threads=WHOLE, call="recvfrom", reads="socket:[7] to 10.0.0.1:29500", sockets=(AT_STORE,)),
            process(1, (), threads=WHOLE, call="recvfrom", reads="socket:[8]", sockets=(AT_STORE,)),
            stores=(ALL,),
        ),
        "incomplete",
        "distdoctor hang on host1",
    ),
    "NCCL makes a communicator, without a stack": (
        node(
            process(0, (), threads=(*WHOLE, "pt_nccl_watchdg"), call="recvfrom", reads="socket:[7] to 10.0.0.2:4711"),
            stores=(store((0, 2, 3)),),
        ),
        "incomplete",
        "",
    ),
    "polls, beside a lock that nobody holds, without a stack": (
        local(process(0, (), **POLLS), *IN_ONE, locks=(LOCK,)),
        "incomplete",
        "it cannot be told why",
    ),
    "receives, without a stack": (
        local(process(0, (), timed=True), *IN_ONE),
        "incomplete",
        "it cannot be told why",
    ),
    "the other node has it": (
        node(process(0, REDUCE), process(1, REDUCE), stores=(ALL,)),
        "incomplete",
        "distdoctor hang on host1",
    ),
    "groups of their own": (
        node(
            process(0, REDUCE),
            process(1, call("barrier")),
            stores=(replace(ALL, groups=(*ALL.groups, GroupView("default_pg/0//1"))),),
        ),
        "incomplete",
        "distdoctor hang on host1",
    ),
    "roots on lines of their own": (
        local(call("broadcast", 3), call("broadcast", 5), call("broadcast", 5), call("broadcast", 5)),
        "incomplete",
        "all ranks wait",
    ),
    "just started": (
        node(
            replace(WAITING_HOST, age=3.0),
            process(1, MAKING, threads=BEGUN, call="poll", age=3.0),
            stores=(store((1,), clients=2),),
        ),
        "warn",
        "",
    ),
    "a rank whose address is its own": (
        node(
            process(0, REDUCE),
            process(1, REDUCE, **LISTENS, threads=("gloo_tcp_loop", "pt_gloo_runloop")),
            stores=(ALL,),
        ),
        "incomplete",
        "",
    ),
    "started again, and an address from before": (
        node(
            process(0, REDUCE),
            process(1, REDUCE, restart=1, sockets=(Socket("LISTEN", "10.0.0.1", 5001),)),
            stores=(ALL,),
        ),
        "incomplete",
        "",
    ),
    "agents that have just met": (
        node(replace(AGENT, age=3.0), stores=(replace(ARRIVED, agents=(AgentView(0, 2),)),), **STATIC),
        "incomplete",
        "",
    ),
    "agents of c10d, which gives the numbers": (
        node(
            replace(AGENT, node_rank=None), replace(AGENT, pid=91, node_rank=None), stores=(ARRIVED,),
            **{**STATIC, "rdzv_backend": "c10d"},
        ),
        "incomplete",
        "",
    ),
    "somebody builds": (
        local(
            BATON, BATON, BATON, process(3, frames("torch/utils/cpp_extension.py:load"), moved=WORKS),
            locks=(BuildLock("/cache/x/lock", 900.0, holder=103),),
        ),
        "incomplete",
        "",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_failure(name: str) -> None:
    facts, verdict, said = LEFT[name]
    report = judged(facts)
    assert roots(report) == []
    assert report.verdict == verdict
    assert any(said in note for note in report.notes) or not said


def test_two_worlds() -> None:
    members = (Member(0, "host0", "10.0.0.1", 1, 2), Member(1, "host1", "10.0.0.2", 2, 3))
    view = replace(store((0, 1), 2), groups=(GroupView("default_pg/0", joined=(0, 1), members=members),))
    report = judged(node(process(0, MAKING, world_size=2), stores=(view,), world_size=2))
    assert [f.check for f in report.findings if f.because_of is None] == ["environment/world-size-mismatch"]


def test_two_nodes_of_which_each_has_one_of_a_number() -> None:
    view = store((0, 1, 2))
    first = node(process(0, MAKING), process(1, MAKING), stores=(view,))
    second = node(process(1, MAKING), process(2, MAKING), stores=(view,), name="host1")
    told = judged(first, second)
    assert roots(told) == [("environment/duplicate-rank", (1,), ("host0", "host1"))]
    lonely = [replace(one, jobs=(replace(one.jobs[0], master_addr="127.0.0.1"),)) for one in (first, second)]
    assert "environment/duplicate-rank" not in [check for check, _, _ in roots(judged(*lonely))]


def test_two_nodes_together_know_what_one_does_not() -> None:
    first = node(process(0, REDUCE), process(1, REDUCE), stores=(ALL,))
    second = node(process(2, REDUCE), process(3, CODE, **FIFO), stores=(ALL,), name="host1")
    assert judged(first).verdict == "incomplete"
    assert roots(judged(first, second)) == [("process/waiting-in-user-code", (3,), ("host1",))]


def test_what_changed_between_two_looks() -> None:
    before = judged(local(REDUCE, REDUCE, REDUCE, process(3, CODE, **FIFO)))
    after = judged(local(REDUCE, REDUCE, REDUCE, REDUCE))
    assert changes(before, before) == []
    told = changes(before, after)
    assert any(line.startswith("rank 3: in its own code") for line in told)
    assert "no longer found: process/waiting-in-user-code" in told
    assert "now found: process/waiting-in-user-code" in changes(after, before)
