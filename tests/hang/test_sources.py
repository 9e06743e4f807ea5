"""Tests of what a job tells of itself against what is seen of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from distdoctor.model.facts import JobProcess, RasView, RecordedCall, RecorderView, WorkerServer
from tests.hang.job_cases import ALL, CODE, FIFO, REDUCE, judged
from tests.hang.live_facts import STILL, WORKS, node, process

HEALTHY = RasView("127.0.0.1", 28028, True, "2.27.3", whole=True)
TROUBLE = replace(HEALTHY, errors=("DEAD 1 job process is considered dead",))
HELD = process(1, CODE, **FIFO)


def recorder(*done: bool, operation: str = "all_reduce", url: str = "http://host0:1") -> tuple[WorkerServer, ...]:
    """Rank 0's, with so many calls."""
    calls = tuple(RecordedCall(number, operation, done=one) for number, one in enumerate(done, 1))
    return (WorkerServer(0, url, True, (RecorderView("0", calls),)),)


def disagreements(*ranks: JobProcess, servers: tuple[WorkerServer, ...] = (), ras: RasView | None = None) -> list[str]:
    """Return what is noted of sources that disagree."""
    notes = judged(node(*ranks, stores=(ALL,), servers=servers, ras=ras)).notes
    return [note for note in notes if note.startswith("sources disagree")]


def test_ras_calls_healthy_what_hangs() -> None:
    (line,) = disagreements(process(0, REDUCE), HELD, ras=HEALTHY)
    assert "calls the job healthy, but it hangs" in line


def test_ras_tells_of_errors_where_all_get_on() -> None:
    (line,) = disagreements(process(0, REDUCE, moved=WORKS), process(1, CODE, moved=WORKS), ras=TROUBLE)
    assert "reports errors, but every rank here makes progress" in line


@pytest.mark.parametrize(("url", "more"), [("http://host0:1", ""), ("file:/tmp/x0", ", which may be of before,")])
def test_all_is_done_and_the_stack_is_in_it(url: str, more: str) -> None:
    (line,) = disagreements(process(0, REDUCE), process(1, REDUCE), servers=recorder(True, True, url=url))
    assert f"rank 0: its flight recorder{more} marks all its calls as done, but its stack is in all_reduce" in line


def test_a_stopped_process_whose_server_answers() -> None:
    (line,) = disagreements(process(0, REDUCE, state="T"), process(1, REDUCE), servers=recorder(True, False))
    assert "its worker server answers, but its process is stopped" in line


@pytest.mark.parametrize(
    ("servers", "ras", "rank"),
    [
        (recorder(True, False), HEALTHY, process(1, REDUCE)),
        (recorder(True, operation="broadcast"), None, process(1, REDUCE)),
        ((), replace(HEALTHY, whole=False), HELD),
        ((), TROUBLE, HELD),
        ((), HEALTHY, process(1, REDUCE, moved=STILL)),
    ],
    ids=["pending", "never recorded", "not told whole", "both", "not known"],
)
def test_what_fits(servers: tuple[WorkerServer, ...], ras: RasView | None, rank: JobProcess) -> None:
    assert disagreements(process(0, REDUCE), rank, servers=servers, ras=ras) == []
