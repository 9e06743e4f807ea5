"""Logs that grow while they are read."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from distdoctor.judge.logs.findings import judge_logs
from distdoctor.logs.collect import Collector
from distdoctor.logs.reading import reader
from distdoctor.logs.reading.follow import LogFollower
from tests.facts_builder import CHECKS
from tests.helpers.commands import environment
from tests.logs.judging import LOGS

STEPS = "step 1 loss 2\nstep 2 loss 1\n"
OUT = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"


def follower(*paths: Path) -> LogFollower:
    return LogFollower(paths, Collector(LOGS))


def lines(one: LogFollower) -> list[str]:
    """Return where roots are seen: file and line."""
    findings = judge_logs(one.collected().logs, CHECKS).findings
    return [finding.evidence[0].partition(": rank")[0] for finding in findings if finding.because_of is None]


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def test_what_is_written_later_is_read_once(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(STEPS)
    one = follower(log)
    assert one.poll() and not one.poll() and lines(one) == []
    append(log, OUT[:30])
    assert one.poll() and lines(one) == []
    append(log, OUT[30:])
    assert one.poll() and lines(one) == [f"{log}:3"]
    append(log, "".join(f"step {number} loss 1\n" for number in range(9)))
    assert one.poll() and lines(one) == []  # it went on
    assert one.collected().logs.sources[0].lines == 12


def test_files_that_appear_in_a_folder(tmp_path: Path) -> None:
    (tmp_path / "0").mkdir()
    (tmp_path / "0/stdout.log").touch()
    one = follower(tmp_path)
    assert not one.poll()
    (tmp_path / "1").mkdir()
    (tmp_path / "1/stderr.log").write_text(OUT)
    append(tmp_path / "0/stdout.log", STEPS)
    assert one.poll() and lines(one) == [f"{tmp_path}/1/stderr.log:1"]


def test_a_rotated_log_is_read_to_its_end_and_the_new_one_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(STEPS)
    one = follower(tmp_path)
    assert one.poll()
    append(log, OUT)  # written just before
    log.rename(tmp_path / "x.log.1")
    log.write_text(STEPS)
    assert one.poll() and lines(one) == [f"{log}:3"]
    assert [(source.name, source.lines) for source in one.collected().logs.sources] == [
        (str(log), 3),
        (f"{log} (begun anew, 1)", 2),
    ]


def test_a_new_log_that_has_the_inode_of_one_that_was_deleted_is_read(tmp_path: Path) -> None:
    """As on ext4 at each second turn of logrotate that keeps one old file. (Here the old one itself is emptied and put
    back: not every file system gives a number away again so soon.)"""
    log, old = tmp_path / "x.log", tmp_path / "x.log.1"
    log.write_text(STEPS)
    one = follower(tmp_path)
    assert one.poll()
    log.rename(old)
    log.write_text(STEPS)
    assert one.poll() and not one.poll()
    old.write_text("")
    old.rename(tmp_path / "between")
    log.rename(old)
    (tmp_path / "between").rename(log)
    append(log, OUT)
    assert one.poll() and lines(one) == [f"{log} (begun anew, 2):1"]


def test_a_truncated_log_is_read_from_its_beginning(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(STEPS * 5)
    one = follower(log)
    one.poll()
    log.write_text(OUT)
    assert one.poll() and lines(one) == [f"{log} (begun anew, 1):1"]


def test_what_does_not_grow_is_read_when_it_is_whole(tmp_path: Path) -> None:
    one = follower(tmp_path)
    stack = f'Traceback (most recent call last):\n  File "t.py", line 3, in main\n    f()\n{OUT[9:]}'
    text = json.dumps({"message": {"message": OUT, "extraInfo": {"py_callstack": stack, "timestamp": "1"}}})
    (tmp_path / "error.json").write_text(text[:60])
    assert not one.poll()
    (tmp_path / "error.json").write_text(text)
    assert not one.poll() and one.poll() and len(lines(one)) == 1
    assert not one.poll()


def test_a_last_line_without_an_end_is_read_at_the_end(tmp_path: Path) -> None:
    log = tmp_path / "x.log"
    log.write_text(STEPS + OUT.rstrip())
    one = follower(log)
    one.poll()
    one.close()
    assert lines(one) == [f"{log}:3"]


def test_what_is_not_there_at_the_start_is_a_mistake(tmp_path: Path) -> None:
    with pytest.raises(reader.Unreadable):
        follower(tmp_path / "no.log")


def until(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not true():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_it_speaks_when_a_root_appears_and_reports_at_ctrl_c(tmp_path: Path) -> None:
    log, told = tmp_path / "x.log", tmp_path / "stderr"
    log.write_text(STEPS)
    with told.open("w") as stderr:
        running = subprocess.Popen(
            [sys.executable, "-m", "distdoctor", "diagnose", "--follow", "--json", str(log)],
            stdout=subprocess.PIPE, stderr=stderr, env=environment(), text=True,
        )  # fmt: skip
    try:
        append(log, OUT)
        until(lambda: "gpu/out-of-memory" in told.read_text())
        assert told.read_text().count("\n") == 1 and f"{log}:3" in told.read_text()
        os.kill(running.pid, signal.SIGINT)
        out, _ = running.communicate(timeout=60)
    finally:
        running.kill()
    assert running.returncode == 130
    assert [one["check"] for one in json.loads(out)["findings"]] == ["gpu/out-of-memory"]


def test_stdin_ends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "distdoctor", "diagnose", "-f", "-", "-q"],
        input=STEPS + OUT, capture_output=True, text=True, env=environment(), check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1 and "gpu/out-of-memory" in done.stdout


def test_what_the_names_of_all_files_tell(tmp_path: Path) -> None:
    for node, rank in (("nodeA", 0), ("nodeB", 1)):
        (tmp_path / f"train-88123-{node}-{rank}.err").write_text(OUT.removeprefix("[rank3]: ") if rank else STEPS)
    one = follower(tmp_path)
    one.poll()
    assert judge_logs(one.collected().logs, CHECKS).findings[0].nodes == ("nodeB",)
