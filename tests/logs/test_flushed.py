"""What Python writes below a traceback, because it kept it back until the process ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.logs.test_first_failure import CLOSED, raised
from tests.logs.test_folders import judged_folder, roots

FAILED = "ValueError: bad batch"
WARNED = "/opt/x.py:3: UserWarning: an old name\n  warnings.warn(\n"
LEFT = "[rank0]:[W0101 10:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called\n"


def steps(first: int, last: int) -> str:
    return "".join(f"epoch 0 step {number} loss 2.{number}\n" for number in range(first, last))


@pytest.mark.parametrize("above", ["", steps(0, 30)], ids=["all was kept back", "the last of it"])
@pytest.mark.parametrize("left", ["", LEFT])
def test_steps_below_the_traceback_of_torchs_hook_were_before_it(tmp_path: Path, above: str, left: str) -> None:
    found = judged_folder(tmp_path, a__log=above + raised("[rank0]: ", FAILED) + steps(30, 60) + left)
    assert (found.verdict, roots(found), found.findings[0].ranks) == ("fail", ["process/exception"], (0,))


@pytest.mark.parametrize(
    ("above", "below"),
    [
        (steps(0, 30), steps(0, 60)),
        ("", WARNED + steps(0, 60)),
        (steps(0, 30), steps(30, 60) + "Training finished.\n"),
        ("", steps(0, 1500)),
    ],
    ids=["started again", "started again with a warning", "done", "more than is kept back"],
)
def test_a_job_that_works_below_it_has_another_try(tmp_path: Path, above: str, below: str) -> None:
    found = judged_folder(tmp_path, a__log=above + raised("[rank0]: ", FAILED) + below)
    assert found.verdict in ("pass", "warn") and not found.findings


def test_without_torchs_hook_it_may_have_been_caught(tmp_path: Path) -> None:
    text = raised("", FAILED)
    assert ", in <module>" in text
    assert judged_folder(tmp_path, a__log=text + steps(0, 60)).verdict == "warn"
    found = judged_folder(tmp_path, a__log=text + steps(0, 60), b__log=raised("[rank1]: ", CLOSED) + steps(0, 60))
    assert roots(found) == ["process/exception"] and "a.log" in found.findings[0].evidence[0]


def test_two_ranks_in_one_log_that_keep_back_their_steps(tmp_path: Path) -> None:
    said = [(1, raised("[rank1]: ", FAILED)), (1, steps(0, 30)), (0, raised("[rank0]: ", CLOSED)), (0, steps(0, 30))]
    lines = "".join(f"{rank}: {line}\n" for rank, text in said for line in text.splitlines())
    found = judged_folder(tmp_path, a__log=lines)
    assert roots(found) == ["process/exception"] and found.findings[0].ranks == (1,)
