"""Processes that are looked at twice: one that is about to run is looked at until it rests again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from distdoctor.hang import jobs, proc, snapshot
from distdoctor.hang.jobs import LocalJob
from distdoctor.hang.proc import SocketTables, Stat
from distdoctor.model.facts import JobProcess
from tests.hang.live_facts import frames, process

RUNS = process(0, frames(), call="")
WAKES = replace(RUNS, threads=tuple(replace(thread, state="R") for thread in RUNS.threads))
SLEEPS = process(0, frames(), call="clock_nanosleep")


@pytest.mark.parametrize(
    ("seen", "cpu", "call", "state"),
    [
        ((WAKES, SLEEPS), 5.0, "clock_nanosleep", "S"),
        ((WAKES, WAKES, SLEEPS), 5.0, "clock_nanosleep", "S"),
        ((WAKES,), 5.0, "", "R"),
        ((WAKES, SLEEPS), 5.4, "", "R"),
        ((SLEEPS, WAKES), 5.0, "clock_nanosleep", "S"),
    ],
    ids=["it sleeps again", "a little later", "others leave it no processor", "it computes", "it slept"],
)
def test_who_wakes_for_a_moment_is_seen_where_it_rests(
    seen: tuple[JobProcess, ...], cpu: float, call: str, state: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    later: Iterator[JobProcess] = iter(seen[1:])
    monkeypatch.setattr(snapshot, "process_facts", lambda *_: next(later, seen[-1]))
    monkeypatch.setattr(proc, "stat", lambda _: Stat("R", 1, cpu, 0.0))
    found: Any = LocalJob("job", "", {100: (None, "rank")})  # type: ignore[dict-item]
    settled = snapshot._settled({100: seen[0]}, found, SocketTables(), {100: 5.0})
    main = {100: seen[0], **settled}[100].main
    assert main is not None
    assert (main.call, main.state) == (call, state)


def test_a_share_of_the_processor_is_no_stop() -> None:
    """cpulimit(1) stops a process again and again; one that was stopped for good does not go on."""
    with subprocess.Popen(["sleep", "60"]) as limited, subprocess.Popen(["sleep", "60"]) as stopped:
        os.kill(stopped.pid, signal.SIGSTOP)
        ends = threading.Event()

        def limit() -> None:
            while not ends.is_set():
                os.kill(limited.pid, signal.SIGSTOP)
                time.sleep(0.07)
                os.kill(limited.pid, signal.SIGCONT)
                time.sleep(0.03)

        limits = threading.Thread(target=limit)
        limits.start()
        try:
            seen = {one.pid: replace(SLEEPS, pid=one.pid, state="T") for one in (limited, stopped)}
            going = snapshot._going_on(seen)
        finally:
            ends.set()
            limits.join()
            limited.kill()
            stopped.kill()
    assert [*going] == [limited.pid] and going[limited.pid].state in ("S", "R")
    assert not snapshot._going_on({1: SLEEPS})


def test_what_ended_below_a_process_is_counted() -> None:
    """Here: one program after the other."""
    code = "import subprocess\nwhile True:\n    subprocess.run(['sleep', '0.6'])"
    with subprocess.Popen([sys.executable, "-S", "-c", code]) as process:
        try:
            rank = jobs.JobCandidate(process.pid, os.getpid(), 0.0, "S", "python", (), {})
            found = LocalJob("job", "", {process.pid: (rank, "rank")})
            while len(found.members) < 2:
                scan = jobs.scan_processes()
                jobs._with_children([found], scan)
            seen = snapshot.take_two(found, scan, 1.0, "off", lambda: None)
        finally:
            process.kill()
    (one,) = seen.processes
    assert one.moved is not None and one.moved.ended == 1
