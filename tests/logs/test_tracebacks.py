"""Tests of how a traceback ends: with an exception of whatever name, or with what only a parent says of its child."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, judged_files

FRAMES = ("Traceback (most recent call last):", '  File "/x/train.py", line 8, in <module>', "    main()")


def traced(end: str, before: str = "") -> str:
    return "".join(f"{before}{line}\n" for line in (*FRAMES, *end.split("\n")))


@pytest.mark.parametrize("before", ["", "[rank3]: ", "2026-01-31 12:00:00,123 - "])
@pytest.mark.parametrize(
    "end",
    [
        "Exception: expected value at line 1 column 1",
        "Exception",
        "sqlite3.Error: no such table",
        "Error: the settings do not fit",
        "zmq.error.Again: Resource temporarily unavailable",
        "torch._dynamo.exc.Unsupported: call_function",
        "concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly",
        "bdb.BdbQuit",
        "torch._inductor.exc.InductorError: CalledProcessError: Command '['gcc']' returned non-zero exit status 1.",
    ],
)
def test_an_exception_of_any_name(tmp_path: Path, end: str, before: str) -> None:
    (finding,) = judged(tmp_path, "start\n" + traced(end, before) + "more\n").findings
    assert finding.check == "process/exception" and finding.ranks == ((3,) if "rank" in before else ())
    assert finding.evidence[0].startswith(f"{tmp_path}/part0.log:5: ") and finding.evidence[0].endswith(end)
    assert finding.evidence[-1] == "raised at /x/train.py:8 in <module>"


@pytest.mark.parametrize("end", ["\r\n", "\r"])
@pytest.mark.parametrize("error", ["zmq.error.Again: busy", "ValueError: busy"])
def test_other_ends_of_lines(tmp_path: Path, error: str, end: str) -> None:
    """As on Windows, and as a line of JSON with a traceback in one of its fields is read."""
    (finding,) = judged(tmp_path, f"start\n{traced(error).replace(chr(10), end)}more\n").findings
    assert (finding.check, finding.evidence[-1]) == ("process/exception", "raised at /x/train.py:8 in <module>")


def test_lines_of_other_ranks_between_those_of_a_traceback(tmp_path: Path) -> None:
    mine, other = traced("zmq.error.Again: busy", "[rank3]: ").splitlines(), "[rank0]: step 3"
    (finding,) = judged(tmp_path, "".join(f"{line}\n{other}\n" for line in mine)).findings
    assert (finding.check, finding.ranks) == ("process/exception", (3,))


@pytest.mark.parametrize(
    "end",
    [
        "Epoch: 3",
        "srun: error: gpu07: task 3: Exited with exit code 1",
        "Loading: 30%",
        "org.apache.spark.SparkException: no",
        "Exception:\n\n-- Process 2 terminated with the following error:",
        "Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for",
        "asyncio.exceptions.CancelledError",
    ],
)
def test_what_says_nothing_of_the_reason(tmp_path: Path, end: str) -> None:
    found = judged(tmp_path, traced(end))
    assert (found.verdict, found.findings) == ("incomplete", ())


def test_an_exception_whose_text_begins_on_the_next_line(tmp_path: Path) -> None:
    """As rich puts it where the first word of it is long."""
    frame = "│ /app/train.py:105 in main        │"
    gloo = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:129]\nTimed out waiting 15000ms for send "
    gloo += "operation to complete"
    lines = {0: f"{frame}\nRuntimeError: \n{gloo}", 3: f"{frame}\nIndexError: index out of range in self"}
    for rank, text in lines.items():
        (tmp_path / f"rank{rank}.log").write_text("".join(f"[rank{rank}]: {line}\n" for line in text.splitlines()))
    found = judged_files(tmp_path)
    assert [(one.check, one.ranks) for one in found.findings[:1]] == [("process/exception", (3,))]
    (tmp_path / "rank3.log").write_text("[rank3]: " + frame + "\n[rank3]: ValueError: \n[rank3]: no such split: dev\n")
    assert "ValueError: no such split: dev" in judged_files(tmp_path).findings[0].summary


def test_what_a_test_asserted_says_nothing(tmp_path: Path) -> None:
    """As unittest tells it, behind what ended the process that it waited for."""
    head = f"{'=' * 70}\nFAIL [2.643s]: test_group (__main__.TestBackend)\n{'-' * 70}\n"
    assert judged(tmp_path, head + traced("AssertionError")).verdict == "incomplete"
    assert judged(tmp_path, head + traced("AssertionError: 3 is not 4")).verdict == "fail"
    assert judged(tmp_path, traced("AssertionError")).verdict == "fail"


def test_a_line_that_python_cannot_parse_has_its_place(tmp_path: Path) -> None:
    """It stands without a traceback of its own, below another one."""
    syntax = '  File "/home/u/train.py", line 12\n    def f(:\n          ^\nSyntaxError: invalid syntax\n'
    (found,) = judged(tmp_path, traced("elastic.multiprocessing.errors.ChildFailedError: ") + syntax).findings
    assert "at train.py:12 " in found.summary
