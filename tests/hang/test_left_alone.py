"""Tests of what is left alone in jobs that run, and what is said of them instead: on facts made by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.model.facts import AgentView, BuildLock, GroupView, NodeFacts, ProcessChanges, Socket
from tests.hang.job_cases import (
    AGENT,
    ALL,
    ARRIVED,
    AT_STORE,
    BATON,
    BEGUN,
    CALLS_BACK,
    CALLS_ON,
    CODE,
    ENDS_CALLS,
    FILE_LOCK,
    IN_ONE,
    LISTENS,
    LOADING,
    LOCK,
    POLLS,
    READS,
    REDUCE,
    REFUSED,
    RPC,
    RUNS,
    STARVED,
    STATIC,
    WAITING_HOST,
    WHOLE,
    judged,
    local,
    roots,
)
from tests.hang.live_facts import MAKING, RENDEZVOUS, WORKS, call, frames, node, process, store


def on_gpus(**moved: Any) -> NodeFacts:
    """A job with NCCL of which all ranks compute."""
    changes = {"threads": ("pt_nccl_watchdg",), "call": "", "state": "R"}
    spins = ProcessChanges(1.5, cpu=1.5, main_cpu=1.5, **{"stack": False, **moved})
    return local(*(process(number, CODE, moved=spins, **changes) for number in range(4)))


LEFT = {
    "all are where they were, with NCCL": (on_gpus(paths=1, written=90), "incomplete", "an NCCL collective that"),
    "all compute with NCCL, and no stack tells where": (on_gpus(stack=None), "incomplete", "an NCCL collective that"),
    "all compute with NCCL, and get about": (on_gpus(paths=2), "pass", ""),
    "all compute with NCCL, and were elsewhere before": (on_gpus(stack=True), "pass", ""),
    "all compute with NCCL, and write": (on_gpus(stack=None, written=90), "pass", ""),
    "remote calls that wait for each other": (
        local(frames(f"{RPC}api.py:rpc_sync"), ENDS_CALLS, ENDS_CALLS, ENDS_CALLS),
        "incomplete",
        "rank 0 is in a remote call at train.py:8 (rpc_sync); rank 1, rank 2, rank 3 are in a remote call",
    ),
    "what another rank has called": (
        local(frames(f"{RPC}api.py:rpc_sync"), ENDS_CALLS, ENDS_CALLS, CALLS_BACK),
        "warn",
        "rank 3, which is in its own code at server.py:5 (in what another rank has called; does not move)",
    ),
    "what another rank has called, and calls a further one": (
        local(frames(f"{RPC}api.py:rpc_sync"), ENDS_CALLS, CALLS_ON, CALLS_BACK),
        "warn",
        "rank 3, which is in its own code at server.py:5 (in what another rank has called; does not move)",
    ),
    "it trains": (local(*(process(r, REDUCE, moved=WORKS) for r in range(4))), "pass", ""),
    "it sends by a slow link": (
        local(
            *(process(r, REDUCE, moved=ProcessChanges(1.5, read=10**6, stack=False, exchanged=10**6)) for r in range(4))
        ),
        "pass",
        "",
    ),
    "gloo's threads of three groups only wake up": (
        local(
            *(process(r, REDUCE, moved=ProcessChanges(1.5, cpu=0.07, stack=False), threads=3 * WHOLE) for r in range(4))
        ),
        "incomplete",
        "all ranks wait in the same place",
    ),
    "threads of it write, and gloo's do not": (
        local(*(process(r, REDUCE, moved=ProcessChanges(1.5, read=10**6, stack=False)) for r in range(4))),
        "incomplete",
        "all ranks wait in the same place",
    ),
    "one loads data": (
        local(REDUCE, REDUCE, REDUCE, process(3, frames("torch/utils/data/dataloader.py:__next__"), moved=WORKS)),
        "warn",
        "for rank 3, which is waiting for data at train.py:8",
    ),
    "rank 0 reads before it serves the store": (
        node(process(0, LOADING, call="read", moved=READS, threads=()),
             process(1, RENDEZVOUS, threads=(), call="clock_nanosleep"), stores=(REFUSED,)),
        "warn",
        "Rank 1 waits (connecting to the store at train.py:8) for rank 0, which is waiting for data at train.py:8",
    ),
    "one computes for a while": (
        local(process(0, REDUCE, idle=20.0), REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "warn",
        "for rank 3, which computes at train.py:8. The wait has lasted at least 20 s.",
    ),
    "one computes, and the others wait long": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "warn",
        "for rank 3, which computes at train.py:8. The wait has lasted at least 5 minutes.",
    ),
    "one computes for long, and gets about in its code": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=replace(WORKS, paths=5))),
        "warn",
        "which computes at train.py:8 (its stack had 5 different paths)",
    ),
    "one computes for long, in a loop and what that calls": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=replace(WORKS, paths=2))),
        "warn",
        "it stayed in this function for the 1.5 s of the look",
    ),
    "one computes, since when is not known": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="", moved=WORKS)),
        "warn",
        "for rank 3, which computes at train.py:8.",
    ),
    "one computes, and the job has run for less than a minute": (
        node(process(0, RENDEZVOUS, threads=("pt_tcpstore_uv",), call="clock_nanosleep", age=25.0, world_size=2),
             process(1, CODE, call="", threads=(), moved=WORKS, age=24.0, world_size=2), world_size=2),
        "warn",
        "Rank 0 waits (hosting the store at train.py:8) for rank 1, which computes at train.py:8.",
    ),
    "one would compute, and gets no processor": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, STARVED),
        "warn",
        "for rank 3, which works at train.py:8",
    ),
    "one reads much, and the others wait long": (
        local(process(0, REDUCE, idle=300.0), REDUCE, REDUCE, process(3, CODE, call="", moved=READS)),
        "warn",
        "for rank 3, which computes at train.py:8 (it reads and writes 0.7 MB/s)",
    ),
    "one sleeps for a moment": (
        local(process(0, CODE, call="clock_nanosleep", idle=2.0), REDUCE, REDUCE, REDUCE),
        "warn",
        "for rank 0, which is in its own code at train.py:8 (sleeps; has not moved for 4 s)",
    ),
    "a data worker that takes its time": (
        local(process(0, LOADING, call="poll", idle=9.0), REDUCE, REDUCE, REDUCE, workers=[90.0, 1.0]),
        "warn",
        "for rank 0, which is waiting for data at train.py:8",
    ),
    "a program of its own that sleeps for a moment": (
        local(process(0, CODE, call="wait4", idle=90.0), REDUCE, REDUCE, REDUCE, children=[1.0]),
        "warn",
        "(waits for a process; has not moved for 2 s)",
    ),
    "a checkpoint that is flushed": (
        local(process(0, CODE, state="D", call="fsync", idle=12.0), REDUCE, REDUCE, REDUCE),
        "warn",
        "(fsync; has not moved for 14 s)",
    ),
    "a file lock that is looked at again and again": (
        local(process(0, FILE_LOCK, idle=0.1, **POLLS), REDUCE, REDUCE, REDUCE),
        "warn",
        "rank 0, which polls at train.py:8 (it sleeps and checks 10 times a second)",
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
        "warn",
        "for rank 0, which polls (it sleeps and checks 10 times a second)",
    ),
    "receives, without a stack": (
        local(process(0, (), timed=True), *IN_ONE),
        "incomplete",
        "the cause is unknown",
    ),
    "a server that gives no answer": (
        local(process(0, CODE, call="recvfrom", reads="socket:[7] to 10.9.9.9:443", idle=90.0), REDUCE, REDUCE, REDUCE),
        "warn",
        "which waits for an answer at train.py:8 (from 10.9.9.9:443; none for 92 s so far)",
    ),
    "a server that gives no answer, without a stack": (
        node(
            process(0, (), threads=WHOLE, call="recvfrom", reads="socket:[7] to 10.9.9.9:443", sockets=(AT_STORE,)),
            process(1, (), threads=RUNS, sockets=(AT_STORE,)),
            stores=(ALL,),
        ),
        "warn",
        "which waits for an answer (from 10.9.9.9:443",
    ),
    "a server that gives no answer, and the others are elsewhere": (
        node(process(0, CODE, call="recvfrom", reads="socket:[7] to 10.9.9.9:443", idle=90.0), stores=(ALL,)),
        "warn",
        "The ranks of other nodes may wait for rank 0, which waits for an answer at train.py:8 (from 10.9.9.9:443",
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
    texts = (*report.notes, *(finding.summary for finding in report.findings))
    assert any(said in text for text in texts) or not said


def test_who_sleeps_again_and_again_is_not_told_to_move() -> None:
    report = judged(LEFT["a file lock that is looked at again and again"][0])
    assert [group["moves"] for group in report.details["job"]["groups"]] == [False, False]
