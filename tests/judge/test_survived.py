"""Tests of what stands in a log and ended nobody, and what a program wrote of its own end."""

from __future__ import annotations

from pathlib import Path

from tests.logs.judging import CLOSED, judged, raised, roots

IMAGE = raised("", "PIL.UnidentifiedImageError: cannot identify image file '/data/x.JPEG'")
TIMEOUT = (
    "[rank0]:[E1102 10:21:17.104882713 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective operation "
    "timeout: WorkNCCL(SeqNum=871, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600021 "
    "milliseconds before timing out.\n"
)
FAILED = (
    "E1102 10:21:18.725000 41 torch/distributed/elastic/multiprocessing/api.py:1002] failed (exitcode: -6) "
    "local_rank: 0 (pid: 4231) of binary: /opt/python\n"
)


def steps(first: int, last: int) -> str:
    return "".join(
        f"2026-11-02 10:00:01,000 INFO train: step {number} loss 2.{number}\n" for number in range(first, last)
    )


def test_what_was_only_printed_below_torchrun(tmp_path: Path) -> None:
    """Python keeps nothing back there: the steps below it were made after it."""
    text = steps(0, 20) + IMAGE + steps(20, 60) + TIMEOUT + FAILED
    assert "process/exception" not in [check for check, _ in roots(tmp_path, text)]
    few = steps(0, 20) + IMAGE + steps(20, 24) + raised("[rank0]: ", CLOSED) + FAILED
    assert roots(tmp_path, few) == [("process/exception", ())]  # so many others make until they notice
    by_hand = steps(0, 20) + IMAGE + steps(20, 60) + raised("[rank0]: ", CLOSED)
    assert roots(tmp_path, by_hand) == [("process/exception", ())]  # they may have been kept back


def test_a_cause_that_a_program_warned_of_and_overcame(tmp_path: Path) -> None:
    warned = "2026-11-02 10:00:00,000 WARNING train: CUDA out of memory. Tried to allocate 2.00 GiB. Batch 16 -> 8\n"
    text = warned + steps(0, 30) + raised("[rank0]: ", "FloatingPointError: loss is nan at step 30")
    assert roots(tmp_path, text) == [("process/exception", (0,))]
    assert roots(tmp_path, steps(0, 30) + warned) == [("gpu/out-of-memory", ())]
    assert roots(tmp_path, warned + steps(0, 30) + raised("[rank0]: ", CLOSED)) == []


def record(text: str) -> str:
    return f"2026-11-02 10:01:01,000 {text}\n"


def test_the_last_word_of_a_program_that_logs_its_end(tmp_path: Path) -> None:
    """What it then tidies up is no work."""
    denied = raised("", "PermissionError: [Errno 13] Permission denied: '/ckpt/step_30'")
    end = record("CRITICAL train: training failed") + denied + record("INFO train: cleaning up")
    lost = steps(0, 30) + record("CRITICAL train: training failed") + raised("", CLOSED)
    found = judged(tmp_path, lost, steps(0, 30) + end)
    assert [one.check for one in found.findings if one.because_of is None] == ["process/exception"]
    assert "PermissionError" in found.findings[0].summary


def test_what_was_logged_long_before_the_end_is_not_it(tmp_path: Path) -> None:
    away = record("ERROR train: the tracker is away") + raised("", "ConnectionError: a tracker is away")
    lost = steps(0, 30) + raised("[rank0]: ", CLOSED)
    for text in (
        steps(0, 30) + away + record("INFO train: going on") * 40,
        away + record("INFO train: starting"),  # it had not begun to work
        steps(0, 30) + away + record("INFO train: going on") + steps(30, 50),
    ):
        assert judged(tmp_path, lost, text).verdict == "incomplete"
    alone = judged(tmp_path, steps(0, 30) + away + record("INFO train: going on"))
    assert not alone.findings  # nobody has lost a peer
