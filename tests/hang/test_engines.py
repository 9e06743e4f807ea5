"""Workers of inference engines, which wait for orders in a queue: named as such, idle or left without one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from distdoctor.hang.jobs import JobCandidate
from distdoctor.model.facts import JobProcess, ProcessChanges
from tests.hang.job_cases import ALL, CODE, FIFO, REDUCE, judged, roots, warned
from tests.hang.live_facts import frames, node, process

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


def engine(core: str, *workers: JobProcess) -> Any:
    orders = process(None, frames(*ORDERS[core]), pid=50, role="launcher", threads=())
    return node(replace(orders, title="VLLM::EngineCore"), *workers, stores=(ALL,))


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
