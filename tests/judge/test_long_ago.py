"""Tests of what a kernel log tells of last week is not what ended the job of today."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, raised
from tests.logs.test_folders import SHAPE, judged_folder, roots

LOST = "NVRM: Xid (PCI:0000:4e:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
KILLED = "Memory cgroup out of memory: Killed process 4711 (python) total-vm:9kB, anon-rss:6kB\n"
LAST_WEEK, NOW = "[Mon Nov 16 03:00:00 2026] ", "[Mon Nov 23 06:40:59 2026] "
ISO = "2026-11-16T03:00:00+0000 gpu07 kernel: "


def timed_traceback(error: str, who: str = "[rank1]: ") -> str:
    return "".join(f"2026-11-23 06:41:00 {line}\n" for line in raised(who, error).splitlines())


@pytest.mark.parametrize(
    ("line", "root"),
    [
        (LAST_WEEK + LOST, "process/exception"),
        (LAST_WEEK + KILLED, "process/exception"),
        (ISO + KILLED, "process/exception"),
        (NOW + LOST, "gpu/hardware"),
        (NOW + KILLED, "process/killed-by-oom"),
        (f"[81234.7] {KILLED}", "process/killed-by-oom"),
    ],
    ids=["a GPU", "a process", "journald", "a GPU now", "a process now", "no date"],
)
def test_an_exception_of_today(tmp_path: Path, line: str, root: str) -> None:
    assert roots(judged_folder(tmp_path, gpu07__dmesg=line, rank1__log=timed_traceback(SHAPE))) == [root]


@pytest.mark.parametrize(("line", "verdict"), [(KILLED, "incomplete"), (LOST, "fail")])
def test_where_the_job_shows_a_symptom_only(tmp_path: Path, line: str, verdict: str) -> None:
    """A process of last week was none of this job; a GPU that was lost may be lost still."""
    found = judged_folder(tmp_path, gpu07__dmesg=LAST_WEEK + line, rank1__log=timed_traceback(CLOSED))
    assert found.verdict == verdict


def test_a_log_of_the_job_without_dates_says_nothing_of_it(tmp_path: Path) -> None:
    found = judged_folder(tmp_path, gpu07__dmesg=LAST_WEEK + LOST, rank1__log=raised("[rank1]: ", SHAPE))
    assert roots(found) == ["gpu/hardware"]


EARLIER, AT_THE_END = "[Mon Nov 23 03:11:02 2026] ", "[Mon Nov 23 06:52:11 2026] "
STEPS = "".join(f"2026-11-23 06:{minute}:00,120 - step {minute} loss 2.1\n" for minute in range(31, 50))


@pytest.mark.parametrize(
    ("line", "error", "root"),
    [
        (EARLIER + KILLED, SHAPE, ["process/exception"]),
        (EARLIER + KILLED, CLOSED, []),
        (AT_THE_END + KILLED, CLOSED, ["process/killed-by-oom"]),
        (EARLIER + LOST, CLOSED, ["gpu/hardware"]),
        (EARLIER + KILLED, f"{CLOSED} of pid 4711", ["process/killed-by-oom"]),
    ],
    ids=["an exception", "a symptom", "at the end", "a GPU", "a number that the job names"],
)
def test_a_process_that_was_killed_before_the_job_began(tmp_path: Path, line: str, error: str, root: list[str]) -> None:
    found = judged_folder(tmp_path, gpu07__dmesg=line, rank1__log=STEPS + raised("[rank1]: ", error))
    assert roots(found) == root
    if not root:
        told = next(one for one in found.candidates if one.check == "process/killed-by-oom")
        assert found.verdict == "incomplete" and "before the job's logs begin" in str(told)


def test_a_job_that_ended_well_after_another_process_was_killed(tmp_path: Path) -> None:
    ended = f"{STEPS}2026-11-23 06:50:00,1 - Training finished.\n"
    found = judged_folder(tmp_path, gpu07__dmesg=EARLIER + KILLED, rank1__log=ended)
    assert not found.findings and not found.candidates and found.verdict == "pass"


def test_a_log_of_which_only_the_end_is_left(tmp_path: Path) -> None:
    """Ranks wait for one that was killed, and tell so half an hour later."""
    line = "[Mon Nov 23 06:11:02 2026] " + KILLED
    found = judged_folder(tmp_path, gpu07__dmesg=line, rank1__log=timed_traceback(CLOSED))
    assert roots(found) == ["process/killed-by-oom"]
    found = judged_folder(
        tmp_path, gpu07__dmesg=line, rank1__log=timed_traceback(SHAPE)
    )  # which no killed process makes
    assert roots(found) == ["process/exception"]
