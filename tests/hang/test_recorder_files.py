"""Flight recorders on disk: those that a rank of the job wrote itself, and no others."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import pytest

from distdoctor.hang import inspect, proc
from distdoctor.hang.jobs import JobCandidate, LocalJob
from distdoctor.model.launch_settings import RANK

DUMP = {
    "version": "2.10",
    "entries": [
        {
            "process_group": ("0", "default_pg"),
            "collective_seq_id": 3,
            "profiling_name": "gloo:all_reduce",
            "state": "scheduled",
            "input_sizes": [[4]],
            "output_sizes": [[4]],
        }
    ],
}


def found(tmp_path: Path) -> LocalJob:
    """A job of which this process is rank 5, just started."""
    variables = {RANK.variables[0]: "5", "TORCH_FR_DUMP_TEMP_FILE": f"{tmp_path}/trace_"}
    pid = os.getpid()
    one = JobCandidate(pid, 1, proc.uptime() - 5.0, "S", "python", (), variables)
    return LocalJob("job", "", {pid: (one, "rank")})


def test_one_that_the_rank_wrote(tmp_path: Path) -> None:
    (tmp_path / "trace_5").write_bytes(pickle.dumps(DUMP, protocol=2))
    (entry,) = inspect.read_recorder_files(found(tmp_path))
    assert (entry.rank, entry.url, entry.problem) == (5, f"file:{tmp_path}/trace_5", "")
    assert [(view.group, view.calls[0].number, view.calls[0].operation) for view in entry.recorders] == [
        ("0", 3, "all_reduce")
    ]


@pytest.mark.parametrize("what", ["older", "link", "pipe", "nothing"])
def test_one_that_it_did_not_write(tmp_path: Path, what: str) -> None:
    path = tmp_path / "trace_5"
    if what == "older":
        path.write_bytes(pickle.dumps(DUMP, protocol=2))
        os.utime(path, (1e9, 1e9))
    elif what == "link":
        (tmp_path / "other").write_bytes(pickle.dumps(DUMP, protocol=2))
        path.symlink_to(tmp_path / "other")
    elif what == "pipe":
        os.mkfifo(path)
    assert inspect.read_recorder_files(found(tmp_path)) == ()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives a file to somebody else")
def test_one_that_another_user_left(tmp_path: Path) -> None:
    """In /tmp anybody may be first."""
    path = tmp_path / "trace_5"
    path.write_bytes(pickle.dumps(DUMP, protocol=2))
    os.chown(path, 4711, 4711)
    assert inspect.read_recorder_files(found(tmp_path)) == ()


def test_one_that_would_run_code(tmp_path: Path) -> None:
    (tmp_path / "trace_5").write_bytes(b"cos\nsystem\n(S'false'\ntR.")
    assert inspect.read_recorder_files(found(tmp_path)) == ()
