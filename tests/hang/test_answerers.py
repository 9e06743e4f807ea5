"""Who of a host is to answer a rank that waits at a TCP connection, whether that works, and what follows from it."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace

import pytest

from distdoctor.hang.blocked_on import with_answerers
from distdoctor.hang.proc import SocketTables
from distdoctor.hang.snapshot import thread_facts
from distdoctor.model.facts import Answerer, JobProcess
from tests.hang.job_cases import CODE, REDUCE, judged, local, roots, warned
from tests.hang.live_facts import process

USER_CODE = "process/waiting-in-user-code"
SERVES = """
import socket, sys, time
server = socket.create_server(("127.0.0.1", 0))
print(server.getsockname()[1], flush=True)
taken, _ = server.accept()
print("taken", flush=True)  # until then nobody has the other end
end = time.monotonic() + 60
while time.monotonic() < end:
    sys.argv[1] == "works" or time.sleep(60)
"""
ASKS = """
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as asks:
    sys.argv[2] == "polls" and asks.settimeout(600)
    asks.recv(1)
"""


@pytest.mark.parametrize(("does", "how"), [("works", "receives"), ("sleeps", "polls")])
def test_who_is_to_answer_is_found_and_whether_it_works(does: str, how: str) -> None:
    server = subprocess.Popen([sys.executable, "-S", "-c", SERVES, does], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    port = server.stdout.readline().strip()
    asks = subprocess.Popen([sys.executable, "-S", "-c", ASKS, port, how])
    try:
        assert server.stdout.readline() == "taken\n"
        end = time.monotonic() + 20
        while time.monotonic() < end:
            tables = SocketTables()
            seen = replace(process(0, CODE), pid=asks.pid, threads=thread_facts(asks.pid, tables))
            if seen.threads[0].call in ("recvfrom", "poll"):
                break
            time.sleep(0.02)
        (main,) = (one.main for one in with_answerers([seen], tables))
        assert main is not None and main.asks is not None
        assert main.asks.pid == server.pid
        assert (main.asks.busy >= 0.05) == (does == "works")
    finally:
        for one in (asks, server):
            one.kill()
            one.communicate()


def test_who_waits_for_nobody_of_this_host_asks_none() -> None:
    one = process(0, CODE, call="recvfrom", reads="socket:[1] to 10.9.9.9:443", pid=1 << 30)
    assert with_answerers([one], SocketTables()) == [one]


def asks(one: JobProcess, busy: float, pid: int = 7) -> JobProcess:
    assert one.main is not None
    return replace(one, threads=(replace(one.main, asks=Answerer(pid, "vllm", busy)), *one.threads[1:]))


RECEIVES = {"call": "recvfrom", "reads": "socket:[17] to 127.0.0.1:8000", "idle": 30.0}


def test_a_program_beside_the_job_that_works_may_be_about_its_answer() -> None:
    report = judged(local(asks(process(0, CODE, **RECEIVES), 0.9), REDUCE, REDUCE, REDUCE))
    assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")
    assert "waits for an answer at train.py:8 (from 127.0.0.1:8000, pid 7 (vllm)" in report.findings[0].summary


def test_a_program_of_a_rank_may_ask_one_that_works() -> None:
    program = asks(process(None, (), role="child", pid=901, parent=100, threads=(), **RECEIVES), 0.9)
    report = judged(local(process(0, CODE, call="wait4", idle=30.0), REDUCE, REDUCE, REDUCE, program))
    assert (roots(report), warned(report), report.verdict) == ([], [(USER_CODE, (0,))], "warn")


def test_one_that_does_nothing_is_named() -> None:
    (found,) = judged(local(asks(process(0, CODE, **RECEIVES), 0.0), REDUCE, REDUCE, REDUCE)).findings
    assert (found.check, found.ranks) == (USER_CODE, (0,))
    assert "host0: rank 0 waits for an answer of pid 7 (vllm)" in found.evidence
    assert found.severity == "warn" and found.fixes[0].text.startswith("Restore 127.0.0.1:8000")


def test_one_that_does_nothing_is_named_also_where_all_ranks_wait_for_it() -> None:
    """They may be workers without orders: no failure, and still it is said where to look."""
    report = judged(local(*(asks(process(rank, CODE, **RECEIVES), 0.0) for rank in range(4))))
    assert (roots(report), report.verdict) == ([], "incomplete")
    assert "for an answer of pid 7 (vllm) on its host, which is idle" in report.notes[0]
    several = (asks(process(rank, CODE, **RECEIVES), 0.0, pid=7 + rank) for rank in range(4))
    assert "which does nothing" not in judged(local(*several)).notes[0]


def test_another_rank_that_waits_is_no_program_that_works() -> None:
    """Rank 1 is in a collective, for which it polls: that says nothing of what a thread of it is to answer."""
    asking = asks(process(0, CODE, **RECEIVES), 0.9, pid=101)
    assert roots(judged(local(asking, REDUCE, REDUCE, REDUCE))) == [(USER_CODE, (0,), ("host0",))]


def test_who_stands_still_beside_one_that_asks_is_the_one_that_is_named() -> None:
    asking, reads = asks(process(0, CODE, **RECEIVES), 0.9), process(1, CODE, call="read", idle=30.0)
    assert roots(judged(local(asking, reads, REDUCE, REDUCE))) == [(USER_CODE, (1,), ("host0",))]
