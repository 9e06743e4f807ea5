"""A check from a program that goes on: nothing of it is changed, and nothing stays behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time

from distdoctor.session import apart
from tests.helpers.namespaces import ROOT
from tests.helpers.runs import family

QUICK = ("--until", "network", "--nnodes", "1")


def state() -> tuple[object, ...]:
    """What a run in this process would change: handlers, the subreaper, threads, the environment."""
    handlers = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)]
    threads = sorted(thread.name for thread in threading.enumerate())
    return handlers, threads, dict(os.environ), signal.set_wakeup_fd(-1)


def test_in_a_running_event_loop_and_in_a_thread() -> None:
    """As a notebook calls it, and a script with threads. Not this process: it may have what other tests started."""
    subprocess.run([sys.executable, "-c", f"import {__name__}; {__name__}.notebook()"], cwd=ROOT, check=True)


def notebook() -> None:
    before = state()

    async def cell() -> apart.Ended:
        return apart.check(*QUICK)

    results = [asyncio.run(cell())]
    thread = threading.Thread(target=lambda: results.append(apart.check(*QUICK)))
    thread.start()
    thread.join()
    assert state() == before
    for ended in results:
        assert ended.status in (0, 1) and ended.report is not None, ended.said
        assert ended.report["schema_version"] == 1
    assert family(os.getpid()) == [os.getpid()]


def test_the_variables_are_the_caller_s_and_those_given() -> None:
    ended = apart.check(*QUICK, env={"GLOO_SOCKET_IFNAME": "nosuch0"})
    assert ended.report is not None, ended.said
    assert "gloo/interface-not-found" in [finding["id"] for finding in ended.report["findings"]]


def test_its_time_is_bounded_and_what_is_known_is_told() -> None:
    began = time.monotonic()
    ended = apart.check("--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1", timeout=2)
    assert ended.status == 128 + signal.SIGTERM
    assert ended.report is not None and ended.report["verdict"] in ("incomplete", "fail")
    assert time.monotonic() - began < 2 + 2 * apart.ENDING_SECONDS


def test_a_wrong_flag_is_told() -> None:
    ended = apart.check("--nnodes", "many")
    assert ended.status == 2 and "--nnodes" in ended.said


def test_a_caller_that_is_killed_leaves_no_check_behind() -> None:
    flags = ("--nnodes", "2", "--node-rank", "1", "--master-addr", "127.0.0.1")
    code = f"from distdoctor.session import apart; apart.check(*{flags})"
    caller = subprocess.Popen([sys.executable, "-c", code])
    try:
        deadline = time.monotonic() + 30
        while len(found := family(caller.pid)) < 3:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        caller.kill()
        caller.wait()
    deadline = time.monotonic() + 10
    while any(os.path.exists(f"/proc/{pid}") for pid in found[1:]):
        assert time.monotonic() < deadline, "the check outlives its caller"
        time.sleep(0.1)
