"""Flight recorders and files of NCCL's Inspector: those of this job, and no others."""

from __future__ import annotations

import json
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


@pytest.mark.parametrize("what", ["written now", "older", "link"])
def test_files_of_nccls_inspector(tmp_path: Path, what: str) -> None:
    """Of a communicator of four ranks, in the form of inspectorStateDumpJSON(): rank 2 completed fewer collectives."""
    job = found(tmp_path)
    job.ranks[0].variables["NCCL_INSPECTOR_DUMP_DIR"] = str(tmp_path / "inspector")
    (tmp_path / "inspector").mkdir()
    for rank, last in enumerate((9, 9, 7, 9)):
        record = {
            "header": {"id": "0x7f8c496ae9f661", "rank": rank, "n_ranks": 4, "nnodes": 1},
            "metadata": {"inspector_output_format_version": "v4.0", "hostname": "n1", "pid": 100 + rank},
            "coll_perf": {"coll": "AllReduce", "coll_sn": last, "coll_msg_size_bytes": 8},
        }
        path = tmp_path / f"inspector/n1-pid{100 + rank}.log"
        target = path if what != "link" else tmp_path / path.name
        target.write_text(json.dumps(record, separators=(",", ":")) + "\n")
        if what == "link":
            path.symlink_to(target)
        elif what == "older":
            os.utime(path, (1e9, 1e9))
    said = "NCCL's inspector: rank 2 completed AllReduce number 7 of communicator 0x7f8c496ae9f661 last, the others "
    assert [*inspect.inspector_notes(job)] == ([f"{said}number 9"] if what == "written now" else [])
