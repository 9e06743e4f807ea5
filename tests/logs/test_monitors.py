"""Tests of who was killed by the monitor of its launcher was not killed for want of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import TABLE, judged, judged_files

HEARTBEAT = "Did not get subsequent heartbeat. Waited 300.00 seconds."
SAID = f"[2026-01-01 09:59:58,120] [WARNING] [RankMonitorServer:8] {HEARTBEAT}\n"
ENDED = "E0101 10:00:00.1 90 torch/distributed/elastic/multiprocessing/api.py:8] failed (exitcode: -9) local_rank: 0\n"
SPAWNED = "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL\n"
KILLED = ENDED + TABLE.format(code=-9, told="Signal 9 (SIGKILL) received by PID 101")


@pytest.mark.parametrize("said", [SAID, SAID.replace(HEARTBEAT, "FT timeout elapsed.")])
def test_a_rank_without_a_heartbeat(tmp_path: Path, said: str) -> None:
    found = judged(tmp_path, f"step 1 loss 2.0\n{said}{KILLED}")
    assert (found.verdict, found.findings) == ("incomplete", ())
    assert found.candidates[0].check == "process/timer-expired"
    assert "process/killed-by-oom" not in [one.check for one in found.candidates]


def test_what_somebody_else_has_killed_is_told(tmp_path: Path) -> None:
    """Another rank was killed before, in whose absence this one waited; another node's monitor tells nothing of it."""
    assert judged(tmp_path, f"{SPAWNED}{SAID}{KILLED}").findings[0].check == "process/killed-by-oom"
    (folder := tmp_path / "nodes").mkdir()
    (folder / "node1.log").write_text(SAID.replace(":8]", ":3]"))
    (folder / "node2.log").write_text(KILLED)
    assert judged_files(folder).findings[0].check == "process/killed-by-oom"


def test_an_exception_says_more(tmp_path: Path) -> None:
    raised = "[rank3]: Traceback (most recent call last):\n[rank3]: KeyError: 'x'\n"
    found = judged(tmp_path, f"{raised}{SAID}{KILLED}").findings[0]
    assert (found.check, found.ranks) == ("process/exception", (3,))


LATER = """Timeout (0:05:00)!
Thread 0x00007f31ff7f6b80 (most recent call first):
  File "/w/data.py", line 36 in read
  File "/w/train.py", line 12 in <module>
"""


def test_where_a_program_was_at_a_time_is_no_crash(tmp_path: Path) -> None:
    """As faulthandler.dump_traceback_later() tells."""
    assert judged(tmp_path, LATER + "step 1 loss 2.0\n").verdict == "warn"
    closed = "RuntimeError: [pair.cc:534] Connection closed by peer [10.0.0.7]:41822\n"
    told = [one.check for one in judged(tmp_path, LATER, closed).candidates]
    assert "process/waiting-in-user-code" in told and "process/crashed" not in told
    assert "process/crashed" in [one.check for one in judged(tmp_path, LATER.split("!")[1], closed).candidates]
