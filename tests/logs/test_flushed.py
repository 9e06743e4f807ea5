"""Tests of what Python writes below a traceback, because it kept it back until the process ended."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.logs.judging import CLOSED, judged_files, raised
from tests.logs.test_folders import judged_folder, roots

FAILED = "ValueError: bad batch"
WARNED = "/opt/x.py:3: UserWarning: an old name\n  warnings.warn(\n"
LEFT = "[rank0]:[W0101 10:00:00.1 ProcessGroupNCCL.cpp:1496] Warning: WARNING: destroy_process_group() was not called\n"


def steps(first: int, last: int) -> str:
    return "".join(f"epoch 0 step {number} loss 2.{number}\n" for number in range(first, last))


RUN = '  File "<frozen runpy>", line 198, in _run_module_as_main\n'
CHILD = '  File "/usr/lib/python3.12/multiprocessing/process.py", line 314, in _bootstrap\n    self.run()\n'


def uncaught(who: str, error: str, outermost: str = RUN) -> str:
    head, _, rest = raised(who, error).partition("\n")
    return head + "\n" + "".join(f"{who}{line}\n" for line in outermost.splitlines()) + rest


@pytest.mark.parametrize("above", ["", steps(0, 30)], ids=["all was kept back", "the last of it"])
@pytest.mark.parametrize("outermost", [RUN, CHILD], ids=["python -m", "multiprocessing"])
@pytest.mark.parametrize("left", ["", LEFT])
def test_steps_below_a_traceback_that_were_before_it(tmp_path: Path, above: str, outermost: str, left: str) -> None:
    found = judged_folder(tmp_path, a__log=above + uncaught("[rank0]: ", FAILED, outermost) + steps(30, 60) + left)
    assert (found.verdict, roots(found), found.findings[0].ranks) == ("fail", ["process/exception"], (0,))


def test_python_itself_writes_them_so(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text(f"print({steps(0, 30)!r})\nraise ValueError('bad batch')\n")
    env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with (tmp_path / "a.log").open("w") as log:
        subprocess.run([sys.executable, "-m", "part"], cwd=tmp_path, env=env, stdout=log, stderr=log, check=False)
    assert (tmp_path / "a.log").read_text().startswith("Traceback")
    assert roots(judged_files(tmp_path / "a.log")) == ["process/exception"]


@pytest.mark.parametrize(
    ("above", "below"),
    [(steps(0, 30), steps(30, 60) + "Training finished.\n"), ("", steps(0, 1500))],
    ids=["done", "more than is kept back"],
)
def test_a_job_that_works_below_it_has_another_try(tmp_path: Path, above: str, below: str) -> None:
    found = judged_folder(tmp_path, a__log=above + uncaught("[rank0]: ", FAILED) + below)
    assert found.verdict in ("pass", "warn") and not found.findings


@pytest.mark.parametrize(("clock", "verdict"), [("10:00:20", "fail"), ("10:22:00", "warn")])
def test_what_a_process_had_kept_back_is_written_at_once(tmp_path: Path, clock: str, verdict: str) -> None:
    """A log of two starts: the second serves minutes after the first has failed."""
    first = "ERROR 01-02 10:00:00 [core.py:718] ValueError: too big\n" + uncaught("", "RuntimeError: it did not start")
    text = f"{first}{steps(0, 30)}INFO 01-02 {clock} [loggers.py:1] step 30\n" + steps(31, 34)
    assert judged_folder(tmp_path, a__log=text).verdict == verdict


@pytest.mark.parametrize("who", ["", "[rank0]: "])
def test_of_a_script_what_it_printed_stands_above(tmp_path: Path, who: str) -> None:
    assert judged_folder(tmp_path, a__log=raised(who, FAILED) + steps(0, 60)).verdict == "warn"


def test_what_a_launcher_raises_says_nothing_of_what_ranks_print(tmp_path: Path) -> None:
    frame = RUN + '  File "/opt/torch/distributed/run.py", line 901, in main\n'
    text = uncaught("", "ValueError: no such option", frame)
    assert judged_folder(tmp_path, a__log=text + steps(0, 60)).verdict == "warn"


def test_two_ranks_in_one_log_that_keep_back_their_steps(tmp_path: Path) -> None:
    said = [
        (1, uncaught("[rank1]: ", FAILED)),
        (1, steps(0, 30)),
        (0, uncaught("[rank0]: ", CLOSED)),
        (0, steps(0, 30)),
    ]
    lines = "".join(f"{rank}: {line}\n" for rank, text in said for line in text.splitlines())
    found = judged_folder(tmp_path, a__log=lines)
    assert roots(found) == ["process/exception"] and found.findings[0].ranks == (1,)
