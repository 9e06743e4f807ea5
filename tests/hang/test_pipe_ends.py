"""Tests of who of a job has the other end of a pipe at which a rank waits; and what follows from it."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.hang.blocked_on import with_pipe_peers
from distdoctor.hang.proc import SocketTables
from distdoctor.hang.snapshot import thread_facts
from distdoctor.model.facts import JobProcess, ProcessChanges
from tests.hang.job_cases import CODE, REDUCE, judged, local, roots, warned
from tests.hang.live_facts import STILL, WORKS, process

READS = "import os, sys; os.read(int(sys.argv[1]), 1)"
WRITES = "import os, sys\nwhile True: os.write(int(sys.argv[1]), bytes(65536))"
OPENS = "import sys; open(sys.argv[1]).read()"
HAS = "import sys; print(1, flush=True); sys.stdin.read()"


def seen(pid: int, rank: int) -> JobProcess:
    return replace(process(rank, ()), pid=pid, threads=thread_facts(pid, SocketTables()))


def ends(waits: list[str], other: int, pass_fds: tuple[int, ...] = ()) -> tuple[bool, bool]:
    """Whether who waits at a pipe is told that the process ``other`` has its other end, and that a third one has."""
    waiting = subprocess.Popen([sys.executable, "-c", *waits], pass_fds=pass_fds)
    third = subprocess.Popen([sys.executable, "-c", HAS], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert third.stdout is not None and third.stdout.read(1)
        end = time.monotonic() + 20
        while (one := seen(waiting.pid, 0)).threads[0].call not in ("read", "write") and time.monotonic() < end:
            time.sleep(0.02)
        main = with_pipe_peers([one, seen(other, 1), seen(third.pid, 2)])[0].main
        assert main is not None
        return other in main.other_ends, third.pid in main.other_ends
    finally:
        for child in (waiting, third):
            child.kill()
            child.communicate()


@pytest.mark.parametrize("writes", [False, True])
def test_a_pipe_without_a_name(writes: bool) -> None:
    """Who has it open as the one that waits does is not the other end."""
    near, far = os.pipe()
    mine, other = (far, near) if writes else (near, far)
    held = subprocess.Popen(
        [sys.executable, "-c", HAS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(other,)
    )
    try:
        os.close(other)
        assert ends([WRITES if writes else READS, str(mine)], held.pid, (mine,)) == (True, False)
        assert ends([WRITES if writes else READS, str(mine)], os.getpid(), (mine,)) == (False, False)
    finally:
        os.close(mine)
        held.kill()
        held.communicate()


def test_a_named_pipe(tmp_path: Path) -> None:
    path = tmp_path / "batches"
    os.mkfifo(path)
    with open(os.open(path, os.O_RDWR), "wb", buffering=0):
        assert ends([OPENS, str(path)], os.getpid()) == (True, False)


def test_a_file_is_no_pipe(tmp_path: Path) -> None:
    file = tmp_path / "data"
    with file.open("wb"):
        rank = process(0, CODE, call="read", reads=str(file))
        has_it = replace(process(1, CODE), pid=os.getpid())
        assert with_pipe_peers([rank, has_it])[0] == rank


def at_pipe(rank: int, *others: int) -> JobProcess:
    one = process(rank, CODE, call="read", reads="pipe:[1]")
    assert one.main is not None
    return replace(one, threads=(replace(one.main, other_ends=others), *one.threads[1:]))


def test_who_waits_at_a_pipe_for_a_rank_that_works_is_not_stuck() -> None:
    works = process(1, CODE, moved=WORKS)
    report = judged(local(at_pipe(0, 101), works, REDUCE, REDUCE))
    assert not roots(report)
    assert warned(report) == [("process/waiting-in-user-code", (1,))]


def test_who_waits_at_a_pipe_of_nobody_is_whatever_the_others_do() -> None:
    report = judged(local(at_pipe(0), process(1, CODE, moved=WORKS), REDUCE, REDUCE))
    assert roots(report) == [("process/waiting-in-user-code", (0,), ("host0",))]


@pytest.mark.parametrize(
    ("moved", "found"), [(WORKS, []), (STILL, [("process/waiting-in-user-code", (0,), ("host0",))])]
)
def test_who_opens_a_named_pipe_may_wait_for_a_rank_that_works(
    moved: ProcessChanges, found: list[tuple[str, tuple[int, ...], tuple[str, ...]]]
) -> None:
    opens = process(0, CODE, call="openat")
    assert opens.main is not None
    opens = replace(opens, threads=(replace(opens.main, waits_in="wait_for_partner"), *opens.threads[1:]))
    other = process(1, CODE if moved is WORKS else REDUCE, moved=moved)
    assert roots(judged(local(opens, other, REDUCE, REDUCE))) == found


def test_a_rank_that_is_held_itself_is_named_alone_beside_who_waits_for_it() -> None:
    sleeps = process(1, CODE, call="read", reads="/data/x")
    report = judged(local(at_pipe(0, 101), sleeps, REDUCE, REDUCE))
    assert roots(report) == [("process/waiting-in-user-code", (1,), ("host0",))]
