"""For whom the others wait, by groups, by peers outside the job, and in a job that starts."""

from __future__ import annotations

import socket
import threading
import time
from dataclasses import replace

import pytest

from distdoctor.hang.inspect import Wanted, inspect
from distdoctor.hang.jobs import LocalJob
from distdoctor.hang.proc import SocketTables
from distdoctor.hang.snapshot import thread_facts
from distdoctor.hang.store import view
from distdoctor.model.facts import Answerer, Frame, JobProcess, JobThread, ProcessChanges
from tests.hang.job_cases import CODE, REDUCE, REFUSED, judged, local, roots, warned
from tests.hang.live_facts import RENDEZVOUS, WORKS, call, frames, node, process
from tests.hang.test_waits_by_group import EARLIER, LATER, PAIRS, job, rank
from tests.helpers.programs import python

USER_CODE, MISMATCH = "process/waiting-in-user-code", "collective/mismatch"
TWICE = ("gloo_tcp_loop", "pt_gloo_runloop in a collective", "pt_gloo_runloop in a collective")
TWO_GROUPS = (*TWICE[:2], *TWICE[:2])
SAVES = JobThread(1800, "python", "S", call="futex", frames=call("gather_object", 30))
POLLS = ProcessChanges(1.5, main_cpu=0.01, switches=8, stack=False)


def elsewhere(number: int, groups: int = 2) -> JobProcess:
    """A rank that computes in its own code, and is in so many groups."""
    return replace(rank(number, groups, None, frames(line=3)), moved=WORKS)


def test_who_is_in_no_group_that_waits_is_not_waited_for() -> None:
    """Ranks 0 and 1 wait for rank 1's own pair; ranks 2 and 3 compute, which is no reason for that."""
    waits = (rank(0, 2, 1, EARLIER), elsewhere(1), elsewhere(2), elsewhere(3))
    assert warned(judged(job(PAIRS, *waits))) == [(USER_CODE, (1,))]


def test_who_is_waited_for_by_way_of_another_group() -> None:
    """Rank 0 waits in the default group for rank 2, which waits in its pair for rank 3."""
    waits = (rank(0, 2, 0, LATER), rank(1, 2, 0, LATER), rank(2, 2, 1, EARLIER), elsewhere(3))
    assert warned(judged(job(PAIRS, *waits))) == [(USER_CODE, (3,))]


def test_where_groups_are_not_known_all_that_are_elsewhere_are_named() -> None:
    polls = [process(number, CODE, call="clock_nanosleep", moved=POLLS) for number in (1, 2)]
    report = judged(local(REDUCE, *polls, REDUCE))
    assert (warned(report), report.verdict) == ([(USER_CODE, (1, 2))], "warn")
    assert "Ranks 0 and 3 wait in all_reduce at train.py:8 for rank 1, which polls" in report.findings[0].summary


def test_who_may_be_in_a_collective_itself_is_not_named() -> None:
    """Without a stack a wait with a time limit may be one for a message."""
    report = judged(local(process(0, (), timed=True), REDUCE, REDUCE, REDUCE))
    assert (report.findings, report.verdict) == ((), "incomplete")


def test_a_call_that_does_not_come_back_though_its_rank_waits_as_well() -> None:
    called = (
        Frame("look_up", "server.py", 5, own=True),
        Frame("_run_function", "torch/distributed/rpc/internal.py", 9),
    )
    serves = process(0, call("barrier"))
    serves = replace(serves, threads=(*serves.threads, JobThread(1500, "python", "S", call="futex", frames=called)))
    asks = process(1, frames("torch/distributed/rpc/api.py:rpc_sync"))
    report = judged(local(serves, asks, call("barrier"), call("barrier")))
    assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")
    assert "for rank 0, which has not ended what they called at server.py:5" in report.findings[0].summary
    assert warned(judged(local(call("barrier"), asks, call("barrier"), call("barrier")))) == []


def saving(number: int, names: tuple[str, ...]) -> JobProcess:
    """A rank that waits in a collective, as does a thread of it."""
    one = process(number, REDUCE, threads=names)
    return replace(one, threads=(*one.threads, SAVES))


def test_threads_that_use_one_group_in_another_order() -> None:
    (finding,) = judged(local(*(saving(number, TWICE) for number in range(4)))).findings
    assert (finding.check, finding.ranks, finding.blame) == (MISMATCH, (0, 1, 2, 3), "one-of")
    assert finding.evidence[0] == "host0: another thread of rank 0 is in gather_object at train.py:30"
    assert "its own group" in finding.fixes[0].text


def test_threads_with_a_group_of_their_own_are_not_blamed() -> None:
    assert roots(judged(local(*(saving(number, TWO_GROUPS) for number in range(4))))) == []


def test_at_whom_one_waits_with_a_time_limit_is_seen() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        code = (
            f"import socket; s = socket.create_connection(('127.0.0.1', {port}), 60); print(1, flush=True); s.recv(1)"
        )
        with python(code) as client:
            end = time.monotonic() + 10
            while (main := thread_facts(client.pid, SocketTables())[0]).call != "poll" and time.monotonic() < end:
                time.sleep(0.05)
    assert main.reads == f"socket: to 127.0.0.1:{port}"


def test_a_pool_that_fetches_is_waited_for_and_no_failure() -> None:
    fetches = JobThread(1900, "python", "S", call="poll", reads="socket: to 10.9.9.9:443",
                        frames=frames("http/client.py:readinto", line=5))  # fmt: skip
    one = process(1, (Frame("result", "/usr/lib/python3.11/concurrent/futures/_base.py", 451), *CODE), idle=90.0)
    report = judged(local(REDUCE, replace(one, threads=(*one.threads, fetches)), REDUCE, REDUCE))
    assert (roots(report), warned(report)) == ([], [(USER_CODE, (1,))])
    assert "(from 10.9.9.9:443; none for 92 s so far)" in report.findings[0].summary
    assert roots(judged(local(REDUCE, one, REDUCE, REDUCE))) == [(USER_CODE, (1,), ("host0",))]


@pytest.mark.parametrize("state", ["S", "T"])
def test_a_server_of_its_own_that_is_stopped_does_not_answer(state: str) -> None:
    one = process(1, CODE, call="recvfrom", reads="socket:[7] to 127.0.0.1:8000", idle=90.0)
    one = replace(one, threads=(replace(one.threads[0], asks=Answerer(901, "server")), *one.threads[1:]))
    server = process(None, (), pid=901, parent=101, role="child", state=state, threads=(), idle=90.0)
    report = judged(local(REDUCE, one, REDUCE, REDUCE, server))
    assert bool(roots(report)) is (state == "T")


def test_ranks_whose_numbers_are_not_known_may_serve_the_store_yet() -> None:
    """One script starts them; one looks for a store that another has not opened."""
    dials = process(None, RENDEZVOUS, pid=201, threads=())
    starts = process(None, (), pid=202, threads=(), torch=None, moved=WORKS)
    report = judged(node(dials, starts, stores=(REFUSED,), launcher="fork"))
    assert roots(report) == []
    gave_up = replace(dials, age=3700.0)  # longer than TCPStore's client tries
    assert roots(judged(node(gave_up, replace(gave_up, pid=203), stores=(REFUSED,), launcher="fork")))


def test_a_store_that_opens_between_the_looks_is_not_refused() -> None:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        port = server.getsockname()[1]

        def opens() -> None:
            time.sleep(0.5)
            server.listen()

        opener = threading.Thread(target=opens)
        opener.start()
        first, _ = view.ask_stores(LocalJob(f"127.0.0.1:{port}", ""), f"127.0.0.1:{port}")
        facts = inspect(Wanted(store=f"127.0.0.1:{port}", apart=1.0), meanwhile=opener.join)
    assert [view.contact.outcome for view in first if view.contact] == ["refused"]
    assert [view.contact.outcome for view in facts.jobs[0].stores if view.contact] == ["open"]
