"""Tests of what is found in jobs that run: on facts made by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.hang.report import changes, progressed_ranks
from distdoctor.model.facts import AgentView, BuildLock, Frame, GroupView, JobProcess, JobThread, Member, Socket
from tests.hang.job_cases import (
    AGENT,
    ALL,
    ARRIVED,
    AT_STORE,
    BACKWARD,
    BATON,
    BEGUN,
    CALLED,
    CODE,
    ENDS_CALLS,
    FAR,
    FIFO,
    FORWARD,
    FURTHER,
    LISTENS,
    LOADING,
    MEETS_FOR_CALLS,
    NO_ANSWER,
    OTHER_WROTE,
    REDUCE,
    REFUSED,
    RPC,
    RUNS,
    SILENT,
    STATIC,
    WAITING_HOST,
    WAITS_FOR_THREAD,
    WHOLE,
    judged,
    local,
    roots,
)
from tests.hang.live_facts import MAKING, RENDEZVOUS, WORKS, call, frames, node, process, store, syn_sent

FOUND = {
    "stopped": (
        node(process(0, REDUCE, state="T"), process(1, REDUCE), stores=(ALL,)),
        ("process/stopped", (0,), ("host0",)),
    ),
    "code": (
        node(process(0, REDUCE), process(1, CODE, **FIFO), stores=(ALL,)),
        ("process/waiting-in-user-code", (1,), ("host0",)),
    ),
    "a file that gives nothing, without a stack": (
        node(
            process(0, (), threads=WHOLE, call="read", reads="/data/x", sockets=(AT_STORE,)),
            process(1, (), threads=RUNS, sockets=(AT_STORE,)),
            stores=(ALL,),
        ),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "workers of a data loader that have no name": (
        local(process(0, LOADING, call="poll", idle=2.0), REDUCE, REDUCE, REDUCE, children=[90.0]),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "a process that is joined at the end": (
        local(
            process(0, (Frame("_exit_function", "/usr/lib/python3.11/multiprocessing/util.py", 1),), call="wait4"),
            *(REDUCE, REDUCE, REDUCE),
            children=[90.0],
        ),
        ("process/waiting-in-user-code", (0,), ("host0",)),
    ),
    "not there where remote calls begin": (
        local(*(process(n, MEETS_FOR_CALLS, call="poll") for n in range(3)), process(3, CODE, **FIFO)),
        ("process/waiting-in-user-code", (3,), ("host0",)),
    ),
    "not there where remote calls end": (
        local(ENDS_CALLS, ENDS_CALLS, ENDS_CALLS, process(3, CODE, **FIFO)),
        ("process/waiting-in-user-code", (3,), ("host0",)),
    ),
    "never calls init": (
        node(WAITING_HOST, process(1, CODE, threads=(), **FIFO), stores=(store((2, 3), clients=3),)),
        ("process/waiting-in-user-code", (1,), ("host0",)),
    ),
    "between two tries, without a stack": (
        node(process(1, (), threads=(), call="clock_nanosleep", age=3700.0), stores=(REFUSED,)),
        ("network/port-refused", (), ("host0",)),
    ),
    "rank 0 waits before it serves the store": (
        node(process(0, CODE, threads=(), **FIFO), process(1, RENDEZVOUS, threads=(), call="clock_nanosleep"),
             stores=(REFUSED,)),
        ("process/waiting-in-user-code", (0,), ("host0",)),
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
    "node missing, for longer than any default": (
        node(
            replace(WAITING_HOST, age=1900.0),
            process(1, MAKING, threads=BEGUN, call="poll", age=1900.0),
            stores=(store((1,), clients=2),),
        ),
        ("store/nodes-missing", (2, 3), ()),
    ),
    "filtered": (
        node(process(2, RENDEZVOUS, threads=(), sockets=(SILENT,)), stores=(NO_ANSWER,), name="host1"),
        ("network/port-filtered", (), ("host0",)),
    ),
    "refused": (
        node(process(2, RENDEZVOUS, threads=(), call="clock_nanosleep", age=3700.0), stores=(REFUSED,), name="host1"),
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


@pytest.mark.parametrize(
    ("ranks", "severity"),
    [
        ((), "fail"),
        ((process(0, REDUCE, moved=WORKS), process(1, REDUCE, moved=WORKS)), "warn"),
        ((process(0, MAKING, call="poll"), process(1, MAKING, call="poll")), "fail"),
    ],
    ids=["before it started any", "its ranks train", "its ranks wait for its store"],
)
def test_an_agent_that_is_stopped(ranks: tuple[JobProcess, ...], severity: str) -> None:
    """As Ctrl-Z does, which its ranks do not get (they have sessions of their own)."""
    report = judged(node(replace(AGENT, state="T"), *ranks, stores=(ALL,), **STATIC))
    found = [(f.check, f.severity, f.nodes, f.ranks) for f in report.findings if f.check == "process/stopped"]
    assert found == [("process/stopped", severity, ("host0",), ())]
    assert report.findings[0].fixes[0].commands == (f"kill -CONT {AGENT.pid}",)


@pytest.mark.parametrize(("strangers", "found"), [((), [("process/gone", (1,), ("host0",))]), ((1,), [])])
def test_who_still_listens_is_not_gone(strangers: tuple[int, ...], found: list[object]) -> None:
    """Its process belongs to the job, and was not found to: it cannot be known what it does."""
    report = judged(node(process(0, REDUCE), stores=(ALL,), strangers=strangers))
    assert roots(report) == found
    assert report.verdict == ("fail" if found else "incomplete")


@pytest.mark.parametrize(("left", "found"), [(9000.0, [("process/waiting-in-user-code", (3,), ("host0",))]), (5.0, [])])
def test_a_function_in_c_that_another_rank_has_called(left: float, found: list[object]) -> None:
    """``rpc_sync("w3", time.sleep, args=(9000,))``: of what is called there is no frame of Python's."""
    sleeps = JobThread(1500, "python", "S", call="clock_nanosleep", frames=CALLED[1:], left=left)
    callee = replace(process(3, ENDS_CALLS), threads=(*process(3, ENDS_CALLS).threads, sleeps))
    report = judged(local(frames(f"{RPC}api.py:rpc_sync"), ENDS_CALLS, ENDS_CALLS, callee))
    assert roots(report) == found
    assert "'in its own code (in what another rank has called)'" in str(report.details)


@pytest.mark.parametrize("threads", [(), ("pt_data_worker",)], ids=["a fork of it", "the rank itself"])
def test_what_a_rank_left_behind_is_not_the_rank(threads: tuple[str, ...]) -> None:
    """A process that it had forked before it ended has its number and its sockets, and none of its threads."""
    left = process(1, CODE, call="clock_nanosleep", pid=300, threads=threads, **LISTENS)
    report = judged(local(REDUCE, left, REDUCE, REDUCE))
    assert roots(report) == [("process/waiting-in-user-code" if threads else "process/gone", (1,), ("host0",))]
    if not threads:
        assert "host0: pid 300 is a fork of a rank that has ended, in its own code" in "".join(
            report.findings[0].evidence
        )
        assert "End its forked processes, which keep its connections open: kill 300" in report.findings[0].fixes[0].text


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


@pytest.mark.parametrize(("idle", "told"), [(4.9, []), (1.0, ["rank 1"])])
def test_who_only_ran_for_the_look_before_did_not_get_on(idle: float, told: list[str]) -> None:
    """Its stack was read at the end of that look, 5 s before this one, for which it may have been stopped."""
    before = replace(judged(local(REDUCE, REDUCE)), started_at="2026-01-01T10:00:00", seconds=2.0)
    after = judged(local(process(0, REDUCE, idle=90.0), process(1, REDUCE, idle=idle)))
    assert progressed_ranks(before, replace(after, started_at="2026-01-01T10:00:07")) == told


def test_ranks_of_which_nothing_is_seen_are_not_blamed() -> None:
    hidden = [process(number, (), call="", threads=()) for number in range(4)]
    report = judged(local(*hidden))
    assert (report.verdict, report.findings) == ("incomplete", ())
    assert any("run this as root" in note for note in report.notes)


def test_a_rank_that_ended_well_before_init_under_torchrun() -> None:
    """torchrun goes on where one of its processes ends with status 0."""
    ranks = [process(n, MAKING, threads=BEGUN, call="poll", local_rank=n, local_world_size=4) for n in (0, 1, 3)]
    report = judged(node(AGENT, *ranks, stores=(store((0, 1, 3)),), nnodes=1, launcher="torchrun"))
    assert roots(report) == [("collective/rank-missing", (2,), ("host0",))]
    (finding,) = report.findings
    assert any(
        "torchrun runs without a process of rank 2; it ends all ranks on a failure" in line for line in finding.evidence
    )
    assert finding.fixes[0].text.startswith("Fix the last error in the output of these ranks")


def test_ranks_of_which_each_is_in_another_call_may_all_be_wrong() -> None:
    report = judged(local(*(call(name) for name in ("broadcast", "scatter", "barrier", "all_reduce"))))
    assert roots(report) == [("collective/mismatch", (0, 1, 2, 3), ("host0",))]
    assert report.findings[0].summary.endswith("The facts do not show which of them is wrong.")
    report = judged(local(*(call(name) for name in ("broadcast", "scatter", "barrier", "barrier"))))
    assert roots(report) == [("collective/mismatch", (0, 1), ("host0",))]
