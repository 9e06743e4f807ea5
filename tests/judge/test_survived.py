"""Tests of what stands in a log and ended nobody, and what a program wrote of its own end."""

from __future__ import annotations

from pathlib import Path

import pytest

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


MEMORY = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."
CAUGHT = raised("", MEMORY).replace(
    '12, in <module>\n    main()\n  File "/home/u/train.py", line 8, in main', "8, in fit"
)
SKIPPED = record("WARNING train: batch 7 was skipped")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (steps(5, 7) + CAUGHT + steps(7, 8), []),
        (steps(5, 7) + SKIPPED + CAUGHT + steps(7, 8), []),
        (steps(5, 7) + record(f"WARNING train: batch 7: {MEMORY}") + steps(7, 8), []),
        (steps(5, 7) + CAUGHT, ["gpu/out-of-memory"]),
        (steps(5, 7) + CAUGHT + steps(6, 7), ["gpu/out-of-memory"]),  # the same step again: a log that is drawn late
        (steps(5, 7) + raised("", MEMORY) + steps(7, 8), ["gpu/out-of-memory"]),  # nobody caught it
        (steps(5, 7) + CAUGHT + steps(7, 8) + FAILED.replace("-6", "1"), ["gpu/out-of-memory"]),
        ("".join(f"[rank1]: {line}\n" for line in CAUGHT.splitlines()) + steps(7, 8), ["gpu/out-of-memory"]),
    ],
)
def test_one_more_step_of_a_program_that_caught_an_error(tmp_path: Path, text: str, expected: list[str]) -> None:
    assert [check for check, _ in roots(tmp_path, text)] == expected


REJECTED = "usage: probe.py [-h] [--model MODEL]\nprobe.py: error: unrecognized arguments: --out x.json\n"


def test_work_below_a_rejected_command_line_is_of_another_program(tmp_path: Path) -> None:
    failed = raised("", MEMORY)
    assert roots(tmp_path, REJECTED + steps(0, 9) + failed) == [("gpu/out-of-memory", ())]
    assert roots(tmp_path, REJECTED + steps(0, 9)) == []
    assert roots(tmp_path, REJECTED) == [("process/exception", ())]


LEAVES = (
    "[rank{0}]:[W1102 10:21:17.009112658 ProcessGroupNCCL.cpp:1524] Warning: WARNING: destroy_process_group() was not "
    "called before program exit, which can leak resources. (function operator())\n"
)
MISSED = (
    "[rank{0}]:[W1102 10:21:18.205932053 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=105, "
    "addr=[node1]:35952, remote=[node0]:37127): Failed to recv, got 0 bytes. Connection was likely closed.\n"
)


def test_a_store_that_left_while_its_ranks_exit(tmp_path: Path) -> None:
    """Rank 3's own exit came before it missed the store; rank 2 has not exited."""
    leave = steps(0, 9) + LEAVES.format(0) + LEAVES.format(3)
    assert judged(tmp_path, leave + MISSED.format(3)).verdict == "warn"
    assert judged(tmp_path, leave + MISSED.format(2)).verdict == "incomplete"
    assert judged(tmp_path, leave + MISSED.format(2) + MISSED.format(3)).verdict == "incomplete"
    earlier = MISSED.format(3).replace(":18.", ":16.")
    assert judged(tmp_path, steps(0, 9) + earlier + LEAVES.format(3)).verdict == "incomplete"
    assert roots(tmp_path, leave + raised("[rank3]: ", "KeyError: 3") + MISSED.format(3))


@pytest.mark.parametrize(("level", "expected"), [("WARNING", []), ("ERROR", [("process/exception", ())])])
def test_an_exception_that_a_program_only_warned_of(tmp_path: Path, level: str, expected: list[object]) -> None:
    """vLLM's prefix has the level, and the exception follows it, also at the end of a traceback."""
    text = f"{level} 06-25 16:32:09 [import_utils.py:408] ImportError: libnvrtc.so.13: cannot open shared object file\n"
    assert roots(tmp_path, text) == expected
    prefix = f"{level} 06-25 16:32:09 [import_utils.py:408] "
    below = "".join(f"{prefix}{line}\n" for line in CAUGHT.replace(MEMORY, "ImportError: libx.so").splitlines())
    assert roots(tmp_path, below) == expected
    assert judged(tmp_path, below).verdict == ("fail" if expected else "warn")
