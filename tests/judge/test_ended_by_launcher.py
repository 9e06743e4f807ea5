"""A rank that torchrun itself had to kill is not what ended the job."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.judging import judged, raised

ROW = """  time      : 2026-09-07_{time}
  host      : gpu-a
  rank      : {rank} (local_rank: {rank})
  exitcode  : {code} (pid: {pid})
  error_file: <N/A>
  traceback : {told}
"""
NOTHING = "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
KILLED = "Signal 9 (SIGKILL) received by PID 700"
AT, LATER = "13:02:58", "13:03:29"


def row(rank: int, code: int, time: str) -> str:
    return ROW.format(time=time, rank=rank, code=code, pid=700 + rank, told=KILLED + str(rank) if code < 0 else NOTHING)


def table(first: str, *others: str) -> str:
    head = (
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED\n----\nFailures:\n"
    )
    rest = "".join(f"[{number}]:\n{one}" for number, one in enumerate(others, 1))
    return f"{head}{rest}----\nRoot Cause (first observed failure):\n[0]:\n{first}====\n"


@pytest.mark.parametrize(
    ("text", "root", "ranks"),
    [
        (table(row(1, 1, AT), row(3, 1, AT), row(0, -9, LATER)), None, ()),
        (table(row(1, 1, AT), row(0, -9, AT)), "process/killed-by-oom", (0,)),
        (table(row(0, -9, AT), row(1, -9, LATER)), "process/killed-by-oom", (0,)),
        (table(row(0, -9, LATER)), "process/killed-by-oom", (0,)),
        (raised("[rank1]: ", "KeyError: 'a'") + table(row(1, 1, AT), row(0, -9, LATER)), "process/exception", (1,)),
    ],
    ids=["by torchrun", "at once", "the first by somebody", "alone", "beside an exception"],
)
def test_a_killed_rank(tmp_path: Path, text: str, root: str | None, ranks: tuple[int, ...]) -> None:
    found = judged(tmp_path, text)
    assert [(one.check, one.ranks) for one in found.findings if one.because_of is None] == (
        [(root, ranks)] if root else []
    )
    assert found.verdict == ("fail" if root else "incomplete")


def test_what_mpirun_says_below_the_end_of_a_rank(tmp_path: Path) -> None:
    told = "Primary job  terminated normally, but 1 process returned\na non-zero exit code.\n"
    assert judged(tmp_path, f"initialized\nexiting!\ndone\n------\n{told}------\n").verdict == "incomplete"
