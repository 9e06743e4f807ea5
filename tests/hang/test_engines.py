"""Workers of inference engines, which wait for orders in a queue: named as such, idle or left without one."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.hang import proc
from distdoctor.hang.jobs import JobCandidate
from distdoctor.knowledge.live import stacks
from distdoctor.model.facts import CallArguments, Frame, JobProcess, JobThread, ProcessChanges, Socket
from tests.hang.job_cases import ALL, CODE, FIFO, LISTENS, REDUCE, judged, roots, warned
from tests.hang.live_facts import RENDEZVOUS, WORKS, frames, node, process, store

QUEUE = "vllm/distributed/device_communicators/shm_broadcast.py"
READS = frames(f"{QUEUE}:acquire_read", f"{QUEUE}:dequeue")
ASKS = frames("zmq/sugar/socket.py:recv_multipart")
SPINS = ProcessChanges(1.5, cpu=1.4, main_cpu=1.4, switches=900, paths=1)
SLEEPS: dict[str, Any] = {"call": "clock_nanosleep", "moved": ProcessChanges(1.5, switches=200)}
ORDERS = {
    "serves": ("queue.py:get",),
    "is elsewhere": (),
    "waits for answers": (f"{QUEUE}:acquire_read", f"{QUEUE}:dequeue"),
}


def worker(number: int, *stack: Any, **more: Any) -> JobProcess:
    one = process(number, *stack, **more)
    return replace(one, parent=50, title=f"VLLM::Worker_TP{number}")


def engine(core: str, *workers: JobProcess, joined_by: tuple[int, ...] = ()) -> Any:
    orders = process(None, frames(*ORDERS[core]), pid=50, role="launcher", threads=())
    seen = store(joined_by, members_at={number: ("host0", 4000 + number) for number in joined_by}) if joined_by else ALL
    return node(replace(orders, title="VLLM::EngineCore"), *workers, stores=(seen,))


IDLE = [worker(number, READS, moved=SPINS) for number in range(4)]
BUSY = worker(0, REDUCE), worker(2, REDUCE), worker(3, REDUCE)
HELD = "process/waiting-in-user-code"
HANGS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "one did not get the order": (engine("serves", *BUSY, IDLE[1]), (1,)),
    "one did not get the order, and asks with pauses": (engine("serves", *BUSY, worker(1, READS, **SLEEPS)), (1,)),
    "one did not get the order, seen between two pauses": (
        engine("serves", *BUSY, worker(1, READS, call="", idle=0.0, moved=ProcessChanges(1.5, switches=200))),
        (1,),
    ),
    "one reads, and the core waits for it": (engine("waits for answers", *IDLE[:3], worker(3, CODE, **FIFO)), (3,)),
    "one waits for a pipe, and the core for it": (
        engine("waits for answers", *IDLE[:3], worker(3, CODE, call="read", reads="pipe:[7]")),
        (3,),
    ),
    "each waits for the other": (engine("waits for answers", *IDLE), (0, 1, 2, 3)),
}


@pytest.mark.parametrize("name", HANGS)
def test_who_keeps_an_engine_from_going_on(name: str) -> None:
    facts, ranks = HANGS[name]
    report = judged(facts)
    assert roots(report) == [(HELD, ranks, ("host0",))]
    if "order" in name:
        assert any("waits for a message of pid 50 (VLLM::EngineCore)" in line for line in report.findings[0].evidence)
        assert "py-spy dump --pid 50" in report.findings[0].fixes[0].text


def test_an_engine_that_lacks_a_worker() -> None:
    """Nothing waits in a collective: the others wait for orders, and the core for the worker that has ended."""
    report = judged(engine("waits for answers", IDLE[0], IDLE[1], joined_by=(0, 1, 3)))
    assert roots(report) == [("process/gone", (3,), ("host0",))]


def test_an_engine_whose_other_workers_are_on_another_node() -> None:
    assert judged(engine("waits for answers", IDLE[0], IDLE[1])).verdict == "incomplete"


def test_cores_that_meet_before_they_start_workers() -> None:
    """Nothing but the call says how many there are."""
    call = Frame("_create_c10d_store", RENDEZVOUS[0].file, 1, given=CallArguments(world_size=2))
    core = process(None, (call, *RENDEZVOUS[1:]), call="clock_nanosleep", threads=("pt_tcpstore_uv",), **LISTENS)
    alone = store((), expected_world=None, clients=1)
    report = judged(node(replace(core, world_size=None), stores=(alone,), master_port=4001, world_size=None))
    assert warned(report) == [("store/nodes-missing", (1,))]


@pytest.mark.parametrize("others", ["wait", "work"])
def test_a_store_for_an_engine_and_its_trainer(others: str) -> None:
    """The engine's first worker waits in TCPStore() for the trainer; the others already ask for a key."""
    threads = ("pt_tcpstore_uv", "pt_tcpstore_uv", "gloo_tcp_loop", "pt_gloo_runloop")
    asks_again = ProcessChanges(1.5, cpu=0.06, main_cpu=0.04, switches=140, stack=False)
    hosts = process(0, CODE, call="clock_nanosleep", moved=asks_again, threads=threads)
    further = store((), port=51216, clients=4, served_by=hosts.pid)
    asking = {"call": "poll", "sockets": (Socket("ESTABLISHED", "10.0.0.1", 1, "10.0.0.1", 29500),)}
    rest = [process(number, CODE, **asking if others == "wait" else {"moved": WORKS}) for number in (1, 2, 3)]
    report = judged(node(hosts, *rest, stores=(ALL,), further_stores=(further,)))
    said = "waits at train.py:8 in TCPStore() for further clients of its store at port 51216; 4 joined"
    assert (said in str(report.findings)) == (others == "wait")
    assert roots(report) == []


@pytest.mark.parametrize("threads", [True, False])
def test_a_wait_that_only_zmqs_threads_tell(threads: bool) -> None:
    """pyzmq's recv() has no Python frame: the thread waits for an event counter that ZMQ's own threads raise."""
    code = (
        "import ctypes, os, select, sys, threading, time\n"
        "def serve(): ctypes.CDLL(None).prctl(15, b'ZMQbg/IO/0'); time.sleep(600)\n"
        f"if {threads}: threading.Thread(target=serve, daemon=True).start()\n"
        "poll = select.poll(); poll.register(os.eventfd(0), select.POLLIN)\n"
        "time.sleep(0.2); print('waits', flush=True); poll.poll()"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as waits:
        try:
            assert waits.stdout is not None and waits.stdout.readline()
            deadline = time.monotonic() + 60
            while (call := proc.blocked_call(waits.pid, waits.pid) or [""])[
                0
            ] != "poll" and time.monotonic() < deadline:
                time.sleep(0.05)
            assert proc.at_zmq(waits.pid, call) == threads
        finally:
            waits.kill()
    thread = JobThread(1, "python", "S", call="poll", reads=stacks.AT_ZMQ, frames=CODE)
    assert (stacks.awaited_queue(thread), stacks.awaits_request(thread)) == (stacks.AT_ZMQ, True)


def test_an_engine_without_requests_is_idle() -> None:
    report = judged(engine("serves", *IDLE))
    assert (roots(report), warned(report), report.verdict) == ([], [], "pass")
    assert report.notes == ("the engine has no request: each worker waits for an order, and so does its core",)


def test_an_engine_whose_core_is_elsewhere_may_have_requests() -> None:
    assert judged(engine("is elsewhere", *IDLE)).verdict == "incomplete"


def test_a_driver_that_waits_for_requests_is_no_failure() -> None:
    """Its workers wait in a broadcast meanwhile, as those of vLLM's first engine."""
    report = judged(node(worker(0, ASKS, call="poll"), *(worker(n, REDUCE) for n in (1, 2, 3)), stores=(ALL,)))
    assert roots(report) == []


@pytest.mark.parametrize(
    ("command", "title"),
    [
        ("VLLM::Worker_DP0_TP1_EP1", "VLLM::Worker_DP0_TP1_EP1"),
        ("sglang::scheduler_TP0", "sglang::scheduler_TP0"),
        ("ray::RayTrainWorker.execute()", "ray::RayTrainWorker.execute()"),
        ("/usr/bin/python3", ""),
    ],
)
def test_titles_of_engines(command: str, title: str) -> None:
    assert JobCandidate(1, 1, 0.0, "S", "python", (command, ""), {}).title == title
