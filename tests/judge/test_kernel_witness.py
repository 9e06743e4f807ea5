"""A kernel's log beside a job's: what it says of other processes on that machine is no cause."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import TABLE, judged, raised

KILLED = TABLE.format(code=-9, told="Signal 9 (SIGKILL) received by PID 101")
RAISED = TABLE.format(code=1, told="To enable traceback see: ...") + raised("[rank8]: ", "ValueError: bad sample")


def oom(pid: int, program: str) -> str:
    text = f"[9.100000] {program} invoked oom-killer: gfp_mask=0x140cca, order=0, oom_score_adj=0\n"
    return f"{text}[9.200000] Out of memory: Killed process {pid} ({program}) total-vm:1kB, anon-rss:1kB\n"


@pytest.mark.parametrize("kernel", [oom(999, "java"), oom(999, "java") + oom(998, "mysqld")])
def test_another_program_that_was_killed_is_not_the_job(tmp_path: Path, kernel: str) -> None:
    finding = judged(tmp_path, KILLED, kernel).findings[0]
    assert finding.title.startswith("A process was killed by signal 9")
    assert not any("java" in line or "oom-killer" in line for line in finding.evidence)
    assert judged(tmp_path, RAISED, kernel).findings[0].check == "process/exception"


@pytest.mark.parametrize(
    "kernel",
    [
        oom(101, "java"),  # its own number, whatever it is called
        oom(77, "python3.11"),  # a container has numbers of its own
        oom(999, "java") + oom(101, "python"),
        oom(55, "python") + oom(101, "python"),
        oom(55, "ray::WorkerDict"),
    ],
)
def test_a_process_of_the_job_is(tmp_path: Path, kernel: str) -> None:
    found = judged(tmp_path, KILLED, kernel).findings[0]
    assert (found.check, found.title) == ("process/killed-by-oom", "The kernel killed a process because memory ran out")


def test_a_job_that_tells_no_numbers_is_judged_by_what_is_there(tmp_path: Path) -> None:
    assert judged(tmp_path, "Killed\n", oom(999, "java")).findings[0].check == "process/killed-by-oom"
