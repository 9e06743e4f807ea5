"""Locks on files: for which a process waits, who has it, and what is said of it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from distdoctor.hang import blocked_on, snapshot, stacks
from distdoctor.hang.jobs import JobCandidate
from distdoctor.hang.proc import SocketTables
from distdoctor.model.facts import CallArguments, FileLock, Frame, JobProcess, JobThread
from tests.hang.job_cases import CODE, FILE_LOCK, REDUCE, judged, local, roots, warned
from tests.hang.live_facts import call, process

BLOCKS = "import fcntl, sys; file = open(sys.argv[1]); print(1, flush=True); fcntl.{}(file, fcntl.LOCK_EX)"


@contextmanager
def waiting(how: str, path: Path) -> Iterator[JobProcess]:
    """A process that waits for a lock on the file, as it is seen."""
    path.touch()
    program = BLOCKS.format(how).replace("open(sys.argv[1])", "open(sys.argv[1], 'r+')")
    with subprocess.Popen([sys.executable, "-S", "-c", program, path], stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            one = JobCandidate(started.pid, 1, 1.0, "S", "python", (), {}, True, "2.13.0", "net")
            deadline = time.monotonic() + 20
            while True:
                seen = snapshot.process_facts(one, "rank", SocketTables())
                if (seen.main and seen.main.call in ("flock", "fcntl")) or time.monotonic() > deadline:
                    break
                time.sleep(0.02)
            yield blocked_on.with_lock(seen)
        finally:
            started.kill()


@pytest.mark.parametrize(("how", "lock"), [("flock", fcntl.flock), ("lockf", fcntl.lockf)])
def test_who_has_the_lock_that_a_process_waits_for(how: str, lock: object, tmp_path: Path) -> None:
    path = tmp_path / "cache.lock"
    with path.open("w") as file:
        lock(file, fcntl.LOCK_EX)  # type: ignore[operator]
        with waiting(how, path) as seen:
            assert seen.main is not None and seen.main.lock is not None
            assert seen.main.lock.path == str(path) and [*seen.main.lock.holders] == [os.getpid()]


def asks(given: CallArguments) -> JobProcess:
    """One that asks again and again, in filelock."""
    frames = (
        Frame("_poll_until_acquired", "filelock/_api.py", 1, given=given),
        Frame("<module>", "train.py", 8, own=True),
    )
    return JobProcess(
        os.getpid(), 1, "rank", threads=(JobThread(os.getpid(), "python", call="clock_nanosleep", frames=frames),)
    )


def test_who_asks_again_and_again_says_for_which_file(tmp_path: Path) -> None:
    path = tmp_path / "hub.lock"
    with path.open("w") as file:
        seen = blocked_on.with_lock(asks(CallArguments(lock=str(path))))
        assert seen.main is not None and seen.main.lock == FileLock(str(path))
        fcntl.flock(file, fcntl.LOCK_EX)
        seen = blocked_on.with_lock(asks(CallArguments(lock=str(path))))
    assert seen.main is not None and seen.main.lock is not None and [*seen.main.lock.holders] == [os.getpid()]


def test_a_lock_that_is_the_file_itself_has_an_age(tmp_path: Path) -> None:
    path = tmp_path / "soft.lock"
    path.touch()
    os.utime(path, (0, time.time() - 300))
    seen = blocked_on.with_lock(asks(CallArguments(lock=str(path), soft=True)))
    assert seen.main is not None and seen.main.lock is not None
    assert seen.main.lock.age is not None and 299 < seen.main.lock.age < 330
    path.unlink()
    seen = blocked_on.with_lock(asks(CallArguments(lock=str(path), soft=True)))
    assert seen.main is not None and seen.main.lock is None


TAKES = "import sys, filelock; print(1, flush=True); filelock.FileLock(sys.argv[1]).acquire()"


@pytest.mark.skipif(bool(stacks.why_not()), reason="py-spy is not here, or may not trace")
def test_filelock_is_seen_to_wait_for_its_file(tmp_path: Path) -> None:
    pytest.importorskip("filelock")
    path = tmp_path / "hub.lock"
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with subprocess.Popen([sys.executable, "-c", TAKES, path], stdout=subprocess.PIPE) as started:
            try:
                assert started.stdout is not None and started.stdout.readline()
                locks: set[str] = set()
                deadline = time.monotonic() + 20
                while not locks and time.monotonic() < deadline:
                    time.sleep(0.1)
                    frames, _ = stacks.read([started.pid], given=True)[started.pid]
                    locks = {frame.given.lock for frame in frames.get(started.pid, ()) if frame.given}
            finally:
                started.kill()
    assert locks == {str(path)}


@pytest.mark.parametrize(
    ("shown", "given"),
    [
        ({"self": "<UnixFileLock at 0x7f>", "lock_filename": '"/c/x.lock"'}, CallArguments(lock="/c/x.lock")),
        (
            {"self": "<SoftFileLock at 0x7f>", "lock_filename": '"/c/x.lock"'},
            CallArguments(lock="/c/x.lock", soft=True),
        ),
        ({"self": "<UnixFileLock at 0x7f>", "lock_filename": '"/c/downloads/aaaaaa..."'}, None),
        ({"self": "<UnixFileLock at 0x7f>"}, None),
    ],
)
@pytest.mark.parametrize("where", ["_api.py", "_core/_acquire.py"], ids=["3", "4"])
def test_what_filelock_was_given(where: str, shown: dict[str, str], given: CallArguments | None) -> None:
    shown_so = [{"name": name, "repr": text} for name, text in shown.items()]
    frame = stacks._frame({"name": "acquire", "filename": f"/v/lib/python3.11/site-packages/filelock/{where}",
                           "short_filename": f"filelock/{where}", "line": 7, "locals": shown_so})  # fmt: skip
    assert frame.given == given


def with_lock(one: JobProcess, lock: FileLock) -> JobProcess:
    assert one.main is not None
    return replace(one, threads=(replace(one.main, lock=lock), *one.threads[1:]))


HELD_BY_0 = FileLock("/c/x.lock", {100: "python"})
POLLS = {"call": "clock_nanosleep", "moved": replace(process(0, CODE).moved, switches=30)}  # type: ignore[type-var]


@pytest.mark.parametrize("how", [{"call": "flock", "reads": "/c/x.lock"}, POLLS])
def test_a_barrier_inside_of_a_lock(how: dict[str, object]) -> None:
    waits = [with_lock(process(n, FILE_LOCK if how is POLLS else CODE, **how), HELD_BY_0) for n in (1, 2, 3)]
    report = judged(local(call("barrier"), *waits))
    assert roots(report) == [("process/waiting-in-user-code", (0, 1, 2, 3), ("host0",))]
    (finding,) = report.findings
    assert finding.summary.startswith(
        "Rank 0 on host0 holds the lock on /c/x.lock and is in barrier at train.py:8; ranks 1, 2 and 3 wait for that"
    )


def test_a_program_that_waits_for_a_lock_of_a_rank() -> None:
    """``flock FILE COMMAND`` of rank 1, while rank 0 has the lock in a barrier."""
    program = with_lock(process(1, CODE, role="child", pid=901, parent=101, call="flock"), HELD_BY_0)
    report = judged(local(call("barrier"), process(1, CODE, call="wait4"), REDUCE, REDUCE, program))
    assert roots(report) == [("process/waiting-in-user-code", (0, 1), ("host0",))]
    assert "Rank 0 on host0 holds the lock on /c/x.lock" in report.findings[0].summary


def test_who_has_the_lock_and_works_is_waited_for() -> None:
    waits = [with_lock(process(n, FILE_LOCK, **POLLS), HELD_BY_0) for n in (1, 2, 3)]
    works = process(0, CODE, moved=replace(process(0, CODE).moved, cpu=1.2, stack=True, read=1 << 20))  # type: ignore[type-var]
    report = judged(local(works, *waits))
    assert (roots(report), warned(report), report.verdict) == ([], [("process/waiting-in-user-code", (0,))], "warn")


def test_who_has_the_lock_and_is_held_is_the_one_that_is_named() -> None:
    """It reads below the lock, and nothing comes; a server that does not answer may do so yet."""
    waits = [with_lock(process(n, FILE_LOCK, **POLLS), HELD_BY_0) for n in (1, 2, 3)]
    asks = process(0, CODE, call="recvfrom", reads="socket:[7] to 10.9.9.9:443", idle=90.0)
    assert warned(judged(local(asks, *waits))) == [("process/waiting-in-user-code", (0,))]
    loads = process(0, CODE, call="read", reads="/data/x", idle=90.0)
    report = judged(local(loads, *waits))
    assert roots(report) == [("process/waiting-in-user-code", (0,), ("host0",))]
    assert any("waiting for a lock that another rank has" in line for line in report.findings[0].evidence)


def test_the_process_that_has_the_lock_is_named() -> None:
    other = FileLock("/c/x.lock", {7: "rsync"})
    report = judged(local(REDUCE, with_lock(process(1, CODE, call="flock", reads="/c/x.lock"), other), REDUCE, REDUCE))
    (finding,) = report.findings
    assert "flock on /c/x.lock, which pid 7 (rsync) has, and does not move" in finding.summary
    assert (
        finding.fixes[0].text
        == "Make pid 7 (rsync) release /c/x.lock, or end it. Confirm with: `lslocks`, `py-spy dump`."
    )
    report = judged(local(REDUCE, with_lock(process(1, FILE_LOCK, **POLLS), other), REDUCE, REDUCE))
    assert (roots(report), report.verdict) == ([], "warn")
    assert "waits for a lock at train.py:8 (/c/x.lock, which pid 7 (rsync) has)" in report.findings[0].summary
    left = FileLock("/c/x.lock", age=300.0)
    report = judged(local(REDUCE, with_lock(process(1, FILE_LOCK, **POLLS), left), REDUCE, REDUCE))
    assert "(/c/x.lock, a file that was made 5 minutes ago)" in report.findings[0].summary
    assert report.findings[0].fixes[0].text.startswith("Delete /c/x.lock if the process that created it has ended")


@pytest.mark.parametrize("each", [18, 1800], ids=["3", "4"])
def test_who_reads_who_has_the_lock_does_not_get_on(each: int) -> None:
    """filelock reads the file of a SoftFileLock each time it looks: the job was told as one that moves."""
    left = FileLock("/c/x.lock", age=300.0)
    moved = replace(process(0, CODE).moved, switches=40, read=40 * each, cpu=0.02, seconds=2.0)  # type: ignore[type-var]
    waits = with_lock(process(1, FILE_LOCK, call="clock_nanosleep", moved=moved), left)
    report = judged(local(REDUCE, waits, REDUCE, REDUCE))
    assert (roots(report), warned(report), report.verdict) == ([], [("process/waiting-in-user-code", (1,))], "warn")
    loads = replace(waits, moved=replace(moved, read=1 << 20))  # type: ignore[type-var]
    assert judged(local(REDUCE, loads, REDUCE, REDUCE)).verdict == "warn"
