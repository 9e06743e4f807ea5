"""Ranks that sleep, pause, import, or wait for one message: what is a hang, what is slow, and what cannot be known."""

from __future__ import annotations

import socket
import sys
import time
from dataclasses import replace
from subprocess import PIPE, Popen
from typing import Any

import pytest

from distdoctor.hang import blocked_on, snapshot
from distdoctor.hang.proc import SocketTables
from distdoctor.hang.report import changes, progressed_ranks, report_on_jobs
from distdoctor.model.facts import Frame, JobProcess, JobThread, NodeFacts, ProcessChanges
from distdoctor.model.report import Report
from distdoctor.render.text import render
from tests.facts_builder import CHECKS
from tests.hang.job_cases import judged
from tests.hang.live_facts import WORKS, call, frames, node, process, store

ALL, REDUCE, CODE = store((0, 1, 2, 3)), call("all_reduce"), frames()
RUNS = ("gloo_tcp_loop", "pt_gloo_runloop in a collective")
IMPORT = "<frozen importlib._bootstrap>:_call_with_frames_removed"
DDP_IMPORT = frames("torch/_dynamo/utils.py:<module>", IMPORT, "torch/nn/parallel/distributed.py:<module>", IMPORT)
COMPILES = frames("triton/runtime/jit.py:<module>", IMPORT, "torch/_inductor/compile_fx.py:compile_fx")
BACKWARD = frames("torch/autograd/graph.py:_engine_run_backward", "torch/_tensor.py:backward")
FORWARD = frames("torch/nn/parallel/distributed.py:_pre_forward", "torch/nn/parallel/distributed.py:forward")
USER_CODE, MISMATCH = "process/waiting-in-user-code", "collective/mismatch"


def sleeps(rank: int, left: float | None, idle: float = 1.0, **more: Any) -> Any:
    """A rank that sleeps in its own code."""
    return process(rank, CODE, call="clock_nanosleep", left=left, idle=idle, **more)


def local(*ranks: Any, waited: float = 9.0, children: Any = ()) -> NodeFacts:
    """A whole job of four on one host: the stack of each, or its process; who is in a collective has waited so long."""
    made = [process(n, one, idle=waited) if isinstance(one, tuple) else one for n, one in enumerate(ranks)]
    return node(*made, *children, stores=(ALL,))


def child(rank: int, left: float) -> Any:
    """Return what runs below that rank: it sleeps, too."""
    return process(
        None, (), pid=300, parent=100 + rank, role="child", idle=9.0, call="clock_nanosleep", left=left, threads=()
    )


SENDER = JobThread(1300, "python", "S", call="futex", frames=(Frame("send_metrics", "metrics.py", 7, own=True),))


def joins(woke: tuple[int, ...], written: int, *more: Any, function: str = "Thread.join") -> Any:
    """Rank 3, which waits until its thread 1300 has ended; these of its threads ran, and it wrote so much."""
    one = process(3, (Frame(function, "threading.py", 1119), *CODE), idle=90.0)
    moved = ProcessChanges(1.5, written=written, stack=False, woke=woke)
    return replace(one, threads=(*one.threads, SENDER, *more), moved=moved)


def watched(call: str, reads: str) -> Any:
    """Rank 3, which waits there for long, while a thread of it starts nvidia-smi every second."""
    return process(3, CODE, call=call, reads=reads, idle=90.0, moved=ProcessChanges(1.5, stack=False, ended=1))


LEFT = {
    "ten seconds of sleep in each step": (
        local(REDUCE, REDUCE, REDUCE, sleeps(3, 2.0, 8.0)),
        "warn",
        "for rank 3, which sleeps at train.py:8 (for 2 s more)",
    ),
    "all sleep between two steps": (
        local(*(sleeps(rank, 2.0, 8.0) for rank in range(4))),
        "warn",
        "(sleeps) with 2 s of its sleep left; no rank on this node waits for another",
    ),
    "a program of its own that sleeps": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="wait4", idle=9.0), children=[child(3, 11.0)]),
        "warn",
        "for rank 3, which sleeps at train.py:8 (for 11 s more)",
    ),
    "a thread that it joins sends slowly": (
        local(REDUCE, REDUCE, REDUCE, joins((1300,), 90)),
        "warn",
        "waits for data at train.py:8 (one of its threads or processes gets some from time to time)",
    ),
    "a thread that it joins looks again and again": (
        local(REDUCE, REDUCE, REDUCE, joins((1300,), 0)),
        "warn",
        "waits for its own thread at train.py:8 (which runs from time to time)",
    ),
    "a thread that keeps its program looks again and again": (
        local(REDUCE, REDUCE, REDUCE, joins((1300,), 0, function="_shutdown")),
        "warn",
        "waits for its own thread at metrics.py:7",
    ),
    "one program of its own after the other": (
        local(
            REDUCE,
            REDUCE,
            REDUCE,
            process(3, CODE, call="wait4", idle=9.0, moved=ProcessChanges(1.5, stack=False, ended=1)),
        ),
        "warn",
        "for rank 3, which runs one program after another at train.py:8. The wait has lasted at least 9 s",
    ),
    "one program of its own after the other, for long": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="wait4", moved=ProcessChanges(1.5, ended=1)), waited=300.0),
        "warn",
        "for rank 3, which runs one program after another at train.py:8. The wait has lasted at least 5 minutes",
    ),
    "tries again and again": (
        local(REDUCE, REDUCE, REDUCE, sleeps(3, 3.0), waited=300.0),
        "warn",
        "which sleeps at train.py:8 (for 3 s more). The wait has lasted at least 5 minutes.",
    ),
    "a service that answers after some seconds, for long": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="recvfrom", idle=2.0), waited=300.0),
        "warn",
        "(recvfrom; has not moved for 4 s). The wait has lasted at least 5 minutes.",
    ),
    "a thread of it fetches data slowly": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, idle=90.0, moved=ProcessChanges(1.5, fed=1))),
        "warn",
        "waits for data at train.py:8 (one of its threads or processes gets some from time to time)",
    ),
    "imports DistributedDataParallel": (
        local(REDUCE, REDUCE, REDUCE, process(3, DDP_IMPORT, moved=WORKS)),
        "warn",
        "for rank 3, which computes at train.py:8",
    ),
    "imports it before it meets the others": (
        node(process(0, DDP_IMPORT, threads=(), moved=WORKS, age=5.0), stores=()),
        "pass",
        "",
    ),
    "imports what it compiles with": (
        local(REDUCE, REDUCE, REDUCE, process(3, COMPILES, moved=WORKS)),
        "warn",
        "for rank 3, which is compiling at train.py:8",
    ),
    "all wait for a message": (
        local(*(process(rank, CODE, timed=True) for rank in range(4))),
        "incomplete",
        "all ranks wait in the same place (in wait() for a message, or for a lock at train.py:8)",
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_failure(name: str) -> None:
    facts, verdict, said = LEFT[name]
    report = judged(facts)
    assert [f.check for f in report.findings if f.severity == "fail"] == []
    assert report.verdict == verdict
    texts = (*report.notes, *(finding.summary for finding in report.findings))
    assert any(said in text for text in texts) or not said


LEAVES = frames("/usr/lib/python3.11/threading.py:_shutdown")[:1]
LEAVING = process(3, LEAVES)
WRITER = JobThread(1301, "python", "S", call="futex", frames=(Frame("log", "metrics.py", 9, own=True),))
FOUND = {
    "it joins a thread that does nothing": (local(REDUCE, REDUCE, REDUCE, joins((), 90)), "waits for a lock"),
    "it joins one of two threads": (local(REDUCE, REDUCE, REDUCE, joins((1301,), 90, WRITER)), "waits for a lock"),
    "it waits for a lock, and a thread of it writes": (
        local(REDUCE, REDUCE, REDUCE, joins((1300,), 90, function="Condition.wait")),
        "waits for a lock",
    ),
    "a night of sleep, seen at once": (local(REDUCE, REDUCE, REDUCE, sleeps(3, 30_000.0, 0.3)), "is in its own code"),
    "a program of its own that sleeps for an hour": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="wait4", idle=0.3), children=[child(3, 3600.0)]),
        "waits for a process",
    ),
    "a name that is looked up": (
        local(REDUCE, REDUCE, REDUCE, process(3, frames("/usr/lib/python3.11/socket.py:getaddrinfo"), call="poll")),
        "looks up the name of a host",
    ),
    "a file, beside a thread that gets data": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="read", reads="/data/x", moved=ProcessChanges(1.5, fed=1))),
        "read on /data/x",
    ),
    "a file, beside a thread that runs programs": (
        local(REDUCE, REDUCE, REDUCE, watched("flock", "/data/x")),
        "at train.py:8",
    ),
    "an answer, beside a thread that runs programs": (
        local(REDUCE, REDUCE, REDUCE, watched("recvfrom", "socket:[7] to 10.77.0.9:443")),
        "10.77.0.9",
    ),
    "a lock, without a time limit": (local(REDUCE, REDUCE, REDUCE, process(3, CODE, timed=False)), "waits for a lock"),
    "a pipe that is full": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="write", reads="pipe:[7] (its standard error)")),
        "writes to pipe:[7] (its standard error), which is full",
    ),
    "a question": (
        local(REDUCE, REDUCE, REDUCE, process(3, CODE, call="read", reads="/dev/pts/3")),
        "waits for somebody to type at /dev/pts/3",
    ),
    "a thread that is left": (
        local(REDUCE, REDUCE, REDUCE, replace(LEAVING, threads=(*LEAVING.threads, SENDER))),
        "at metrics.py:7, its program has ended but for a thread,",
    ),
}


@pytest.mark.parametrize("name", FOUND)
def test_what_is_found(name: str) -> None:
    facts, said = FOUND[name]
    report = judged(facts)
    assert [(f.check, f.ranks) for f in report.findings if f.because_of is None] == [(USER_CODE, (3,))]
    assert said in report.findings[0].summary


def test_a_worker_that_is_stopped_is_told_with_how_it_goes_on() -> None:
    loading = process(3, frames("torch/utils/data/dataloader.py:_get_data"), call="poll", idle=3.0)
    worker = process(None, (), pid=300, parent=103, role="loader", idle=90.0, state="T", threads=())
    report = judged(local(REDUCE, REDUCE, REDUCE, loading, children=[worker]))
    assert report.findings[0].check == USER_CODE
    assert any("stopped (resume it: kill -CONT 300)" in line for line in report.findings[0].evidence)


WORKER = "torch/utils/data/_utils/worker.py:_worker_loop"
IDLE_WORKER = frames(
    "selectors.py:select", "multiprocessing/connection.py:wait", "multiprocessing/queues.py:get", WORKER
)


@pytest.mark.parametrize("still", [90.0, 2.0])
def test_workers_without_work_do_not_hide_the_one_that_stands_still(still: float) -> None:
    """They look every 5 s whether their rank lives, so that with two workers no data loader was ever held."""
    loading = process(3, frames("torch/utils/data/dataloader.py:_get_data"), call="poll", idle=0.6)
    stack = (Frame("__getitem__", "train.py", 14, own=True), *frames(WORKER))
    at_work = process(None, stack, pid=300, parent=103, role="loader", idle=still, call="openat", threads=())
    idle = process(None, IDLE_WORKER, pid=301, parent=103, role="loader", idle=0.6, call="poll", threads=())
    report = judged(local(REDUCE, REDUCE, REDUCE, loading, at_work, idle))
    found = [(f.check, f.ranks, f.severity) for f in report.findings if f.because_of is None]
    assert found == [(USER_CODE, (3,), "fail" if still > 5 else "warn")]
    assert report.verdict == ("fail" if still > 5 else "warn")
    all_idle = replace(at_work, threads=idle.threads, idle=0.6)
    assert judged(local(REDUCE, REDUCE, REDUCE, loading, all_idle, idle)).verdict == "warn"


def in_pass(rank: int, stack: tuple[Frame, ...]) -> Any:
    return process(rank, stack, threads=RUNS)


def test_ranks_that_are_further_in_a_step_are_not_apart() -> None:
    """DistributedDataParallel has collectives in both passes, and who stops early leaves ranks in either."""
    passes = (in_pass(0, FORWARD), in_pass(1, FORWARD), in_pass(2, BACKWARD))
    report = judged(local(*passes, process(3, call("barrier"))))
    assert [(f.check, f.ranks) for f in report.findings] == [(MISMATCH, (3,))]
    assert "DistributedDataParallel at train.py:8 or in a backward pass at train.py:8" in report.findings[0].summary


def below_loop(rank: int, thread: JobThread | None, **more: Any) -> Any:
    """A rank whose main thread has an event loop, and another thread."""
    one = process(rank, frames("asyncio/base_events.py:run_forever"), **{"call": "epoll_wait", **more})
    return replace(one, threads=(*one.threads, *([thread] if thread else [])))


REDUCES = JobThread(1400, "python", "S", call="futex", frames=call("all_reduce", 30))
POLLED = {"call": "clock_nanosleep", "moved": ProcessChanges(1.5, switches=3)}


@pytest.mark.parametrize("more", [{}, POLLED], ids=["event loop", "looks again and again"])
def test_a_collective_in_a_thread_that_is_waited_for_is_one(more: dict[str, Any]) -> None:
    report = judged(local(*(below_loop(rank, REDUCES, **more) for rank in range(3)), below_loop(3, None)))
    assert [(f.check, f.ranks) for f in report.findings] == [(USER_CODE, (3,))]
    places = [group["place"] for group in report.details["job"]["groups"]]
    assert "in all_reduce at train.py:30 (in a thread that it waits for)" in places


def test_of_two_ranks_of_four_none_is_told_to_be_the_wrong_one() -> None:
    report = judged(node(in_pass(2, BACKWARD), process(3, call("barrier")), stores=(ALL,), name="host1"))
    assert [f.check for f in report.findings] == [MISMATCH]
    assert "Run `distdoctor hang` on the other nodes to see which is wrong" in report.findings[0].summary


RECEIVES = """
import socket, sys, threading, time
near, far = socket.socketpair()
near.settimeout(float(sys.argv[1]) or None)
def receive():
    while True:
        try: near.recv(100)
        except TimeoutError: pass
def send():
    while True:
        time.sleep(0.05)
        if sys.argv[2] == "feed": far.send(b"x")
def send_all():
    while True: near.sendall(bytes(1 << 20))
def take():
    while True:
        time.sleep(0.05)
        far.recv(9000)
targets = (send_all, take) if sys.argv[2] == "takes" else (receive, send)
for target in targets: threading.Thread(target=target, daemon=True).start()
print(1, flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize(
    ("limit", "what", "count"),
    [("0", "feed", 1), ("9", "feed", 1), ("0", "none", 0), ("0.1", "none", 0), ("0", "takes", 1)],
)
def test_a_thread_that_gets_data_is_seen(limit: str, what: str, count: int) -> None:
    with Popen([sys.executable, "-c", RECEIVES, limit, what], stdout=PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            deadline = time.monotonic() + 20
            while True:
                before, began = blocked_on.context_switches(started.pid), time.monotonic()
                time.sleep(0.4)
                after = blocked_on.context_switches(started.pid)
                found = blocked_on.fed_descriptors(
                    started.pid, blocked_on.woken_threads(started.pid, before, after), time.monotonic() - began
                )
                if found or not count or time.monotonic() > deadline:
                    break
        finally:
            started.kill()
    assert found == count


SERVES = """
import select, socket, sys, threading
server = socket.create_server(("127.0.0.1", 0))
waits = getattr(select, sys.argv[1])()
waits.register(server, select.POLLIN)
def serve():
    while True:
        waits.poll()
        server.accept()[0].close()
threading.Thread(target=serve, daemon=True).start()
print(server.getsockname()[1], flush=True)
threading.Event().wait()
"""


@pytest.mark.parametrize("how", ["poll", "epoll"])
def test_a_server_whose_clients_wake_it_gets_no_data(how: str) -> None:
    """As the store of torch up to 2.5, whose thread has no name: this program asks it meanwhile."""
    with Popen([sys.executable, "-c", SERVES, how], stdout=PIPE) as started:
        try:
            assert started.stdout is not None
            port = int(started.stdout.readline())
            before, began = blocked_on.context_switches(started.pid), time.monotonic()
            for _ in range(5):
                with socket.create_connection(("127.0.0.1", port)) as client:
                    client.recv(1)
            deadline = time.monotonic() + 10
            while (after := blocked_on.context_switches(started.pid)) == before and time.monotonic() < deadline:
                time.sleep(0.05)
            found = blocked_on.fed_descriptors(
                started.pid, blocked_on.woken_threads(started.pid, before, after), time.monotonic() - began
            )
        finally:
            started.kill()
    assert after != before and found == 0


PROGRAMS = {
    "time.sleep": ([sys.executable, "-Sc", "import time; print(1, flush=True); time.sleep(50)"], 50),
    "select": ([sys.executable, "-Sc", "import select; print(1, flush=True); select.select([], [], [], 50)"], 50),
    "asyncio": ([sys.executable, "-c", "import asyncio; print(1, flush=True); asyncio.run(asyncio.sleep(50))"], 50),
    "sleep": (["sh", "-c", "echo 1; exec sleep 5000"], 5000),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_how_long_a_process_sleeps_yet_is_read_without_waking_it(name: str) -> None:
    command, seconds = PROGRAMS[name]
    with Popen(command, stdout=PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            deadline = time.monotonic() + 20
            while (main := snapshot.thread_facts(started.pid, SocketTables())[0]).call not in (
                "clock_nanosleep",
                "epoll_wait",
            ):
                assert time.monotonic() < deadline
                time.sleep(0.02)
            before = snapshot.take(started.pid, 0.0)
            left = snapshot.thread_facts(started.pid, SocketTables())[0].left
            after = snapshot.take(started.pid, 1.0)
        finally:
            started.kill()
    assert left is not None and main.left is not None and seconds - 30 < left <= main.left <= seconds
    assert before and after and snapshot.movement_between(before, after).switches == 0


def test_who_is_where_it_was_and_got_on_meanwhile() -> None:
    """A job that is slow is at the same lines at each look; who waits for the others tells since when."""

    def seen(waited: float, at: str) -> Report:
        facts = local(REDUCE, REDUCE, REDUCE, sleeps(3, 2.0, 8.0), waited=waited)
        return report_on_jobs([facts], CHECKS, (), started_at=f"2026-01-01T00:00:{at}+00:00", seconds=0.0)

    first = seen(8.0, "00")
    assert changes(first, seen(3.0, "10")) == []
    assert progressed_ranks(first, seen(3.0, "10")) == ["rank 0", "rank 1", "rank 2"]
    assert progressed_ranks(first, seen(18.0, "10")) == []


def test_an_agent_whose_ranks_are_not_seen_leaves_what_the_store_tells() -> None:
    agent = JobProcess(90, 1, "agent", "pt_elastic", "S", age=60.0, node_rank=0)
    report = judged(
        node(agent, stores=(store((0, 2), 3),), launcher="torchrun", rdzv_backend="static", world_size=None)
    )
    assert [(f.check, f.severity, f.ranks) for f in report.findings] == [("collective/rank-missing", "warn", (1,))]
    assert report.verdict == "incomplete"


def test_the_page_tells_since_when_and_where_to_look_next() -> None:
    held = render(judged(local(REDUCE, REDUCE, REDUCE, process(3, CODE), waited=1500.0)))
    assert held.startswith("HANG  ") and "ranks have waited for at least 25 minutes" in held
    elsewhere = render(judged(node(process(0, REDUCE), process(1, REDUCE), stores=(ALL,))))
    assert "distdoctor hang --hosts 'host[0-1]'" in elsewhere.splitlines()[-1]
    all_here = render(judged(LEFT["all wait for a message"][0])).splitlines()
    assert (
        all_here[-2].startswith("Next: print the stack of each rank") and all_here[-1].strip() == "distdoctor hang -v"
    )
    assert render(judged(LEFT["tries again and again"][0])).startswith("WAITING  ")


def test_who_looks_again_is_named_beside_one_that_was_seen_to_run() -> None:
    """On a busy machine one of two that look every second for a file is seen on its way."""
    looks_again = ProcessChanges(1.5, main_cpu=0.01, switches=1, stack=True)
    (found,) = judged(local(REDUCE, REDUCE, sleeps(2, 0.4), sleeps(3, 0.9, moved=looks_again))).findings
    assert (found.ranks, found.severity) == ((2, 3), "warn")
