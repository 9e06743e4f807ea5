"""``distdoctor diagnose LOG...``: what a person is told of logs, and the exit status that a script reads."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import doctor, environment

RAISED = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/app/train.py", line 8, in main
[rank1]:     x = data[5]
[rank1]: IndexError: list index out of range
[rank0]: RuntimeError: [/torch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:302
"""
RESET = """\
[rank0]: RuntimeError: [/torch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [10.0.0.2]:302
"""
HEALTHY = """\
[W socket.cpp:464] [c10d] The server socket cannot be initialized on [::]:29500 (errno: 97 - Address family).
step 1 loss 2.31
step 2 loss 2.30
training finished
"""


@pytest.mark.parametrize(
    ("text", "status", "verdict", "roots"),
    [(RAISED, 1, "fail", ["process/exception"]), (RESET, 3, "incomplete", []), (HEALTHY, 0, None, [])],
    ids=["a cause", "a symptom", "no failure"],
)
def test_what_a_log_shows(tmp_path: Path, text: str, status: int, verdict: str | None, roots: list[str]) -> None:
    log = tmp_path / "train.log"
    log.write_text(text)
    packed = tmp_path / "train.log.gz"
    packed.write_bytes(gzip.compress(text.encode()))
    command = [sys.executable, "-m", "distdoctor", "diagnose", "-", "--json"]
    piped = subprocess.run(command, input=text, capture_output=True, text=True, env=environment(), check=False)
    for done in (doctor("diagnose", str(log), "--json"), doctor("diagnose", str(packed), "--json"), piped):
        report = json.loads(done.stdout)
        failing = [one["check"] for one in report["findings"] if one["severity"] == "fail" and not one["because_of"]]
        assert (done.returncode, failing) == (status, roots), done.stderr
        assert report["verdict"] == verdict or verdict is None
        assert bool(report["candidates"]) == (status == 3)


def test_the_rank_that_failed_first_is_named_with_file_and_line(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_text(RAISED)
    done = doctor("diagnose", str(log))
    assert "affected   rank 1" in done.stdout and f"{log}:4: rank 1: IndexError" in done.stdout
    assert "0 nodes" not in done.stdout and done.stdout.splitlines()[-1].startswith("Next: ")


def test_nothing_of_a_log_reaches_the_terminal_raw(tmp_path: Path) -> None:
    log = tmp_path / "train.log"
    log.write_bytes(RAISED.replace("out of range", "out of \x9b2J\x1b]52;c;Zm9v\x07 range").encode("latin-1"))
    done = doctor("diagnose", str(log), "-v")
    assert done.returncode == 1
    assert not {"\x1b", "\x9b", "\x07"} & set(done.stdout + done.stderr)


def test_a_log_that_is_not_there_is_said_in_one_line(tmp_path: Path) -> None:
    done = doctor("diagnose", str(tmp_path / "no.log"))
    assert (done.returncode, done.stdout) == (2, "") and done.stderr.count("\n") == 1
