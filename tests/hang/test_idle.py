"""Ranks that may have nothing to do: a server without clients, workers without orders; and looks that lie far apart."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from subprocess import PIPE, Popen
from typing import Any

import pytest

from distdoctor.hang import snapshot
from distdoctor.hang.proc import SocketTables
from distdoctor.knowledge.live.stacks import waiting
from distdoctor.model.facts import AgentView, Frame, JobProcess, JobThread, ProcessChanges, RendezvousView, Socket
from tests.hang.job_cases import ALL, CODE, REDUCE, RUNS, WHOLE, judged, local, roots, warned
from tests.hang.live_facts import RENDEZVOUS, STILL, WORKS, call, frames, node, process, store

ELASTIC: dict[str, Any] = {"launcher": "torchrun", "rdzv_backend": "c10d", "join_timeout": 600.0}
ON_ONE = {rank: ("host0", 4000 + rank) for rank in range(4)}
TWO_CAME = store((0, 1), 2, members_at=ON_ONE)
USER_CODE = "process/waiting-in-user-code"
ORDERS: dict[str, Any] = {"call": "read", "reads": "pipe:[7]", "idle": 90.0}
SERVES: dict[str, Any] = {"call": "epoll_wait", "reads": "connections to port 8000", "idle": 90.0}


def test_a_server_that_the_others_wait_for_may_be_without_clients() -> None:
    report = judged(local(process(0, CODE, **SERVES), REDUCE, REDUCE, REDUCE))
    assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")
    assert "for rank 0, which waits at train.py:8 (for connections to port 8000;" in report.findings[0].summary


def test_workers_that_all_wait_for_orders_do_not_hang() -> None:
    report = judged(local(*(process(rank, CODE, **ORDERS) for rank in range(4))))
    assert (roots(report), report.verdict) == ([], "incomplete")
    assert "no rank waits for another; workers that wait for requests look like this" in report.notes


def test_who_looks_again_and_again_may_wait_for_one_that_works() -> None:
    """Rank 0 writes a file that the others look for, without a collective between them."""
    looks_again = ProcessChanges(1.5, main_cpu=0.01, switches=3, stack=False)
    polls = (process(rank, CODE, call="clock_nanosleep", moved=looks_again) for rank in (1, 2, 3))
    report = judged(local(process(0, frames(line=3), moved=WORKS), *polls))
    assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")
    assert "may wait in their own code at train.py:8 (sleeps) for rank 0, which computes" in report.findings[0].summary


SHARED = [frames(f"multiprocessing/{name}") for name in ("synchronize.py:SemLock.__enter__", "connection.py:wait")]


@pytest.mark.parametrize("stack", SHARED, ids=["a lock", "a queue"])
def test_a_rank_that_works_may_have_the_lock_for_which_others_wait(stack: tuple[Frame, ...]) -> None:
    """``with lock: prepare()``, one rank after the other: the last one may be through already."""
    waits = [process(rank, stack, idle=90.0) for rank in (1, 2)]
    works = process(0, frames(line=3), moved=WORKS)
    for last in (REDUCE, process(3, stack, idle=90.0)):
        report = judged(local(works, *waits, last))
        assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")
        assert "for rank 0, which computes at train.py:3" in report.findings[0].summary


def test_a_socket_of_unix_may_be_one_to_a_rank_that_works() -> None:
    asks: dict[str, Any] = {"call": "recvfrom", "reads": "socket:[7]", "idle": 90.0}
    works = process(0, frames(line=3), moved=WORKS)
    assert roots(judged(local(works, process(1, CODE, **asks), REDUCE, REDUCE))) == []
    report = judged(local(REDUCE, process(1, CODE, **asks), REDUCE, REDUCE))
    assert roots(report) == [(USER_CODE, (1,), ("host0",))]


def test_a_lock_that_no_stack_tells_may_be_one_of_several_processes() -> None:
    waits = [process(rank, (), threads=WHOLE, idle=90.0) for rank in (1, 2)]
    works, done = (process(rank, (), threads=RUNS, moved=moved) for rank, moved in ((0, WORKS), (3, STILL)))
    assert roots(judged(local(works, *waits, done))) == []
    done_too = process(0, (), threads=RUNS)
    assert roots(judged(local(done_too, *waits, done))) == [(USER_CODE, (1, 2), ("host0",))]


def test_who_asks_a_rank_that_works_may_be_answered() -> None:
    """A rank that serves the others by HTTP, and computes before it answers."""
    asks: dict[str, Any] = {"call": "recvfrom", "reads": "socket:[7] to 127.0.0.1:8000", "idle": 90.0}
    at = (Socket("ESTABLISHED", "127.0.0.1", 8000, "127.0.0.1", 40000),)
    works, reduces = process(0, frames(line=3), moved=WORKS, sockets=at), process(0, REDUCE, idle=90.0, sockets=at)
    report = judged(local(works, process(1, CODE, **asks), REDUCE, REDUCE))
    assert (roots(report), report.verdict) == ([], "warn")
    report = judged(local(reduces, process(1, CODE, **asks), REDUCE, REDUCE))
    assert roots(report) == [(USER_CODE, (1,), ("host0",))]
    # A thread of it may answer while its main one waits.
    serves = JobThread(1700, "python", "S", frames=(Frame("serve_forever", "socketserver.py", 232),))
    report = judged(
        local(replace(reduces, threads=(*reduces.threads, serves)), process(1, CODE, **asks), REDUCE, REDUCE)
    )
    assert (roots(report), warned(report)) == ([], [(USER_CODE, (1,))])
    # Whoever is no rank of the job may answer yet.
    report = judged(local(process(0, frames(line=3), moved=WORKS), process(1, CODE, **asks), REDUCE, REDUCE))
    assert (roots(report), warned(report)) == ([], [(USER_CODE, (0, 1))])


@pytest.mark.parametrize("stack", SHARED, ids=["a lock", "a queue"])
def test_who_waits_for_another_rank_is_not_blamed_beside_it(stack: tuple[Frame, ...]) -> None:
    """An event that rank 3 is to set, which reads a file that gives nothing."""
    waits = [process(rank, stack, idle=90.0) for rank in (1, 2)]
    report = judged(local(REDUCE, *waits, process(3, CODE, idle=90.0, call="read", reads="/data/x")))
    assert roots(report) == [(USER_CODE, (3,), ("host0",))]
    assert "ranks 1 and 2" in str(report.findings[0].evidence)


def test_one_that_reads_beside_those_that_train_holds_nobody() -> None:
    """As an evaluator that is in no group of the others."""
    report = judged(local(*(process(rank, CODE, moved=WORKS) for rank in range(3)), process(3, CODE, **ORDERS)))
    assert (roots(report), report.verdict) == ([], "incomplete")


@pytest.mark.parametrize("other", [{"call": "read", "reads": "/dev/pts/3"}, {"call": "flock"}, {"timed": False}])
def test_what_is_no_order_is_waited_for_in_vain(other: dict[str, Any]) -> None:
    report = judged(local(*(process(rank, CODE, idle=90.0, **other) for rank in range(4))))
    assert roots(report) == [(USER_CODE, (0, 1, 2, 3), ("host0",))]


def test_who_reads_may_hold_ranks_that_are_elsewhere() -> None:
    report = judged(node(*(process(rank, CODE, **ORDERS) for rank in (2, 3)), stores=(ALL,), name="host1"))
    assert roots(report) == [(USER_CODE, (2, 3), ("host1",))]


def test_a_machine_so_busy_that_the_looks_lie_far_apart() -> None:
    """gloo's loop wakes up a hundred times a second: in 20 s that comes to more than a moment of processor time."""
    waits = ProcessChanges(20.0, cpu=0.12, main_cpu=0.03, switches=20, stack=False)
    ranks = (process(rank, REDUCE, moved=waits) for rank in (1, 2, 3))
    report = judged(local(process(0, CODE, **ORDERS), *ranks))
    assert roots(report) == [(USER_CODE, (0,), ("host0",))]
    assert [group["moves"] for group in report.details["job"]["groups"]] == [False, False]


def test_a_store_of_its_own_for_which_one_more_was_planned_is_waited_at() -> None:
    """TCPStore's constructor looks every 10 ms who has come, which is no step of the job."""
    looks_again = ProcessChanges(1.5, cpu=0.06, main_cpu=0.04, switches=140, stack=False)
    threads = ("pt_tcpstore_uv", "pt_tcpstore_uv", "gloo_tcp_loop", "pt_gloo_runloop")
    hosts = process(0, CODE, call="clock_nanosleep", moved=looks_again, threads=threads)
    report = judged(local(hosts, REDUCE, REDUCE, REDUCE))
    assert (roots(report), report.verdict) == ([], "incomplete")
    assert "rank 0 is hosting the store at train.py:8" in report.notes[0]


def test_ranks_that_meet_at_different_ports_are_told_apart() -> None:
    """Each chose its own, as where every process looks for one that is free."""
    serves = Socket("LISTEN", "0.0.0.0", 45123)
    hosts = process(0, RENDEZVOUS, call="clock_nanosleep", threads=("pt_tcpstore_uv",), sockets=(serves,))
    report = judged(node(hosts, process(1, RENDEZVOUS, call="clock_nanosleep", threads=()), world_size=None))
    assert (roots(report), report.verdict) == ([], "incomplete")
    assert (
        "rank 0 serves the store at port 45123, and rank 1 on the same host has no connection to it" in report.notes[0]
    )
    there = Socket("ESTABLISHED", "127.0.0.1", 50000, "127.0.0.1", 45123)
    joins = process(1, RENDEZVOUS, call="poll", threads=(), sockets=(there,))
    assert not any("45123" in note for note in judged(node(hosts, joins, world_size=None)).notes)


def test_a_job_that_moves_is_said_to_move_though_its_agent_is_stopped() -> None:
    agent = JobProcess(90, 1, "agent", "pt_elastic", "T", age=60.0)
    report = judged(node(*(process(rank, CODE, moved=WORKS) for rank in range(4)), agent, stores=(ALL,)))
    assert [(f.check, f.severity) for f in report.findings] == [("process/stopped", "warn")]
    assert (report.verdict, report.details["job"]["state"]) == ("warn", "moves")
    (evidence,) = report.findings[0].evidence
    assert "ranks 0, 1, 2 and 3 (pid 100 101 102 103) are in their own code at train.py:8" in evidence


def test_agents_that_meet_once_more_wait_for_the_node_that_is_not_back() -> None:
    """The store still has the ranks of the attempt before, who are all there."""
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=4000.0)
    endpoint = store((), rendezvous=(RendezvousView("job7", 1, agents=(AgentView(host="host0", pid=90),)),))
    report = judged(node(agent, stores=(endpoint, ALL), **ELASTIC))
    (finding,) = report.findings
    assert (finding.check, finding.severity, finding.nodes) == ("store/nodes-missing", "warn", ("host1",))
    assert finding.summary == "1 of 2 nodes rejoined host0:29500 (host0); 1 node has not rejoined."
    assert (report.verdict, report.details["job"]["state"]) == ("warn", "waits")


MINE = RendezvousView("job0", 0, agents=(AgentView(host="host0", pid=90),))
OTHER = RendezvousView("job1", 0, agents=(AgentView(host="host1", pid=90),))


@pytest.mark.parametrize("order", [(MINE, OTHER), (OTHER, MINE)])
def test_agents_with_different_ids_never_meet(order: tuple[RendezvousView, ...]) -> None:
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=60.0)
    report = judged(node(agent, stores=(store((), rendezvous=order),), run_id="job0", **ELASTIC))
    (finding,) = report.findings
    assert (finding.check, finding.severity) == ("environment/rendezvous-id-mismatch", "fail")
    assert (finding.nodes, finding.blame) == (("host0", "host1"), "one-of")
    assert finding.summary.endswith("never join: host0 with job0; host1 with job1.")


def test_another_job_s_agents_at_the_same_store_are_not_these() -> None:
    """Two jobs may share an endpoint: with these the nodes would be too few all the same."""
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=60.0)
    told = {"run_id": "job0", "nnodes": 3, **ELASTIC}
    (finding,) = judged(node(agent, stores=(store((), rendezvous=(OTHER, MINE)),), **told)).findings
    assert finding.check == "store/nodes-missing"
    assert finding.summary.startswith("1 of 3 nodes joined host0:29500 (host0); 2 nodes have not joined for 1 min")


def test_as_many_agents_as_have_to_be_there_go_on_by_themselves() -> None:
    """``--nnodes 1:2``, of which one was killed and thrown out."""
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=4000.0)
    endpoint = store((), rendezvous=(RendezvousView("job7", 1, agents=(AgentView(host="host0", pid=90),)),))
    report = judged(node(agent, stores=(endpoint, ALL), **ELASTIC | {"nnodes": 1}))
    (finding,) = report.findings
    assert (finding.check, finding.severity, finding.nodes) == ("store/nodes-missing", "warn", ())
    assert finding.summary == (
        "1 node rejoined torchrun's rendezvous (host0), which is enough; the job starts after 30 s of waiting for more."
    )
    assert report.details["job"]["state"] == "waits"


@pytest.mark.parametrize(
    ("host", "age", "blamed", "evidence"),
    [
        ("host0", 2.0, ("host0",), "torchrun's process 91 on host0 has ended"),
        ("host1", 9.0, ("host1",), "last heartbeat 9 s ago (one is due every 5 s)"),
        ("host1", 2.0, (), ""),
    ],
)
def test_an_agent_that_was_killed_is_still_counted_for_15_s(
    host: str, age: float, blamed: tuple[str, ...], evidence: str
) -> None:
    """Until it is thrown out the one that is left waits for the next round, which does not begin."""
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=4000.0)
    there, back = AgentView(1, host=host, pid=91, heartbeat_age=age), AgentView(host="host0", pid=90, heartbeat_age=1.0)
    endpoint = store((), rendezvous=(RendezvousView("job7", 0, complete=True, agents=(there,), waiting=(back,)),))
    report = judged(node(agent, stores=(endpoint, ALL), **ELASTIC))
    (finding,) = report.findings
    assert (finding.check, finding.severity, finding.nodes) == ("store/nodes-missing", "warn", blamed)
    assert finding.summary == (
        "host0 (torchrun, pid 90) waits for torchrun's next rendezvous round: the last one still counts "
        f"{host} (torchrun, pid 91)."
    )
    assert any(evidence in line for line in finding.evidence)
    assert report.details["job"]["state"] == "waits" and not any("run distdoctor hang on" in n for n in report.notes)


PROGRAM = """
import select, socket, sys
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
if sys.argv[1] == "accept":
    server.accept()
waits = getattr(select, sys.argv[1])()
waits.register(server, select.POLLIN)
waits.poll()
"""


@pytest.mark.parametrize("how", ["accept", "poll", "epoll"])
def test_at_which_port_a_process_serves_is_seen(how: str) -> None:
    with Popen([sys.executable, "-c", PROGRAM, how], stdout=PIPE) as started:
        try:
            assert started.stdout is not None
            port = int(started.stdout.readline())
            deadline = time.monotonic() + 20
            while (
                not (main := snapshot.thread_facts(started.pid, SocketTables())[0]).call and time.monotonic() < deadline
            ):
                time.sleep(0.02)
        finally:
            started.kill()
    assert waiting(main) == f"waits for connections to port {port}"


def test_ranks_that_have_ended_just_now() -> None:
    """The others may still be at the end of theirs: nobody waits, and no other host is there to be asked."""
    ended = [process(rank, (), state="Z", moved=None) for rank in (1, 3)]
    report = judged(node(process(0, CODE, moved=WORKS), *ended, stores=(store((0, 1, 2, 3), 4, members_at=ON_ONE),)))
    assert report.notes[:2] == (
        "rank 1, rank 3 ended, and the launcher has not noticed yet; the last output says why",
        "no process of rank 2 was found on host0",
    )


def test_a_rank_that_is_gone_is_told_as_gone() -> None:
    waits = [process(rank, call("barrier")) for rank in (0, 1, 3)]
    report = judged(node(*waits, stores=(store((0, 1, 2, 3), 4, members_at=ON_ONE),)))
    assert [one.check for one in report.findings] == ["process/gone"]
    rows = {tuple(row["ranks"]): row["place"] for row in report.details["job"]["groups"]}
    assert rows[(2,)] == "gone"


@pytest.mark.parametrize(("moved", "found"), [(WORKS, []), (STILL, [("process/stopped", (1,), ("host0",))])])
def test_who_is_watched_by_a_tracer_moves_between_its_stops(moved: ProcessChanges, found: list[Any]) -> None:
    watched = process(1, CODE, state="t", call="", moved=moved)
    assert roots(judged(local(REDUCE, watched, REDUCE, REDUCE))) == found


def test_who_is_left_alone_keeps_nobody_waiting() -> None:
    """The others are through, and their agent waits for the last."""
    left = process(1, CODE, call="read", reads="/data/x", idle=90.0, world_size=2)
    report = judged(node(left, world_size=2, stores=(TWO_CAME,)))
    (finding,) = report.findings
    assert finding.check == USER_CODE and finding.summary.endswith("does not move; the others have ended.")
