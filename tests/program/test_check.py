"""Whole runs of ``check`` on this machine, as a user starts them: reports, deadlines, signals."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distdoctor.model.stages import STAGES
from tests.helpers.namespaces import ROOT
from tests.helpers.runs import check, ended, environment, failures, family, listens, node, nothing_left, stages, started
from tests.helpers.servers import serving, unused_port

NEEDS_NO_TORCH = STAGES[:4]
ONE, TWO = ("--nnodes", "1"), ("--nnodes", "2", "--master-addr", "127.0.0.1")
FURTHER = pytest.mark.scoreboard


def test_eight_ranks_on_this_machine() -> None:
    status, report = check("--nproc-per-node", "8")
    assert (status, report["verdict"], failures(report)) == (0, "pass", [])
    assert list(stages(report)) == list(STAGES)
    assert {name for name, how in stages(report).items() if how == "pass"} >= {"store", "gloo", "barrier", "collective"}
    assert report["plan"]["nproc_per_node"] == 8 and report["plan"]["world_size"] == 8


@pytest.mark.parametrize(
    "until", [stage if stage in ("network", "store") else pytest.param(stage, marks=FURTHER) for stage in STAGES]
)
def test_until_each_stage(until: str) -> None:
    """Nothing beyond it is climbed, nothing up to it is left out."""
    status, report = check("--until", until)
    assert (status, report["verdict"]) == (0, "pass")
    assert list(stages(report)) == list(STAGES[: STAGES.index(until) + 1])
    assert set(stages(report).values()) <= {"pass", "skip"}
    assert (report["torch"] is None) is (until in NEEDS_NO_TORCH)


def slow_torch(folder: Path, seconds: float) -> str:
    """PYTHONPATH with which Python takes so long to import torch: what imports it sleeps first."""
    (folder / "sitecustomize.py").write_text(SLOW_IMPORT.format(seconds=seconds))
    return f"{folder}:{ROOT}"


@pytest.mark.parametrize("flag", ["-OO", pytest.param("-O", marks=FURTHER)])
def test_python_without_asserts_and_docstrings(flag: str) -> None:
    process = subprocess.Popen(
        [sys.executable, flag, "-m", "distdoctor", "check", "--json", "--nproc-per-node", "1"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    status, report = ended(process)
    assert (status, failures(report)) == (0, [])


SLOW_IMPORT = """
import sys, time
class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "torch":
            time.sleep({seconds})
sys.meta_path.insert(0, Slow())
"""


def test_the_time_of_torchs_import_is_no_stages_time(tmp_path: Path) -> None:
    status, report = check("--nproc-per-node", "1", PYTHONPATH=slow_torch(tmp_path, 4))
    assert (status, failures(report)) == (0, [])
    (details,) = report["details"]["nodes"].values()
    assert details["torch_seconds"] > 4 and (Path(details["torch_path"]) / "__init__.py").is_file()
    assert details["executable"] == sys.executable
    seconds = {entry["stage"]: entry["seconds"] for entry in report["stages"]}
    assert seconds["gpu"] < 2 and seconds["network"] < 3, seconds


def test_interrupted_while_torch_is_imported_it_does_not_say_that_there_is_none(tmp_path: Path) -> None:
    variables = environment(PYTHONPATH=slow_torch(tmp_path, 60))
    process = subprocess.Popen(
        [sys.executable, "-m", "distdoctor", "check"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=variables
    )
    try:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
    finally:
        process.kill()
    assert process.returncode == 130
    assert b"torch still being imported" in out and b"no torch" not in out and b"torch-missing" not in out


def test_several_nodes_on_one_machine_meet_over_loopback(tmp_path: Path) -> None:
    port = unused_port()
    save = ("--save", str(tmp_path))
    with started(*node(0, port, *save)) as first, started(*node(1, port, *save)) as second:
        results = [ended(first), ended(second)]
    assert [(status, failures(report)) for status, report in results] == [(0, []), (0, [])]
    assert results[0][1]["nodes"] == results[1][1]["nodes"]
    assert [entry["node_rank"] for entry in results[0][1]["nodes"]] == [0, 1]
    assert sorted(name.rpartition("-")[2] for name in os.listdir(tmp_path)) == ["node0.json", "node1.json"]
    nothing_left([], port)


def test_once_per_rank_with_variables_set_by_hand() -> None:
    port = str(unused_port())
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "LOCAL_WORLD_SIZE": "2"}
    with started(RANK="0", LOCAL_RANK="0", **common) as first, started(RANK="1", LOCAL_RANK="1", **common) as second:
        status, report = ended(first)
        out, err = second.communicate(timeout=60)
    assert (status, failures(report), second.returncode) == (0, [], 0), err
    assert out == "", "rank 0 alone prints"


def test_a_stray_variable_is_named_and_unsetting_it_cures() -> None:
    with started("--wait", "2", RANK="0") as process:
        status, report = ended(process)
    (finding,) = (f for f in report["findings"] if f["because_of"] is None)
    assert (status, finding["id"]) == (1, "environment/missing-variable")
    assert [f["env"] for f in finding["fixes"] if f["option"] == 3] == [{"RANK": None}]
    assert check()[0] == 0


def test_wait_ends_the_wait_for_a_node_that_never_comes() -> None:
    port, began = unused_port(), time.monotonic()
    with started(*node(0, port, "--wait", "4", "--timeout", "6")) as process:
        status, report = ended(process)
    assert status in (1, 3) and "store/nodes-missing" in failures(report)
    assert time.monotonic() - began >= 4
    nothing_left([], port)


def test_wait_ends_the_wait_for_a_master_that_never_comes() -> None:
    began = time.monotonic()
    with started(*node(1, unused_port(), "--wait", "3", "--timeout", "6")) as process:
        status, report = ended(process)
    assert (status, report["verdict"]) == (1, "fail") and "network/port-refused" in failures(report)
    assert stages(report)["network"] == "fail" and stages(report)["collective"] == "skip"
    assert time.monotonic() - began >= 3


@pytest.mark.perf
@pytest.mark.parametrize("rank", [0, 1])
def test_a_run_ends_within_wait_and_timeout_and_five_seconds(rank: int) -> None:
    """Beside the time that Python takes to start and to import torch."""
    began = time.monotonic()
    subprocess.run([sys.executable, "-c", "import torch"], check=True)
    start = time.monotonic() - began
    with started(*node(rank, unused_port(), "--wait", "3", "--timeout", "6")) as process:
        ended(process)
    assert time.monotonic() - began - start < 3 + 6 + 5 + 2 * start


@pytest.mark.parametrize(
    ("wait", "flags"),
    [("1", TWO), ("20", ONE), pytest.param("1", ONE, marks=FURTHER), pytest.param("20", TWO, marks=FURTHER)],
)
def test_who_holds_the_port_is_said_however_short_the_wait(wait: str, flags: tuple[str, ...]) -> None:
    def greet(opened: socket.socket) -> None:
        opened.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        opened.recv(100)

    with serving(greet) as port:
        status, report = check(*flags, "--master-port", str(port), "--wait", wait)
    assert (status, [f["id"] for f in report["findings"] if f["because_of"] is None]) == (
        1,
        ["network/foreign-service"],
    )
    (finding,) = (f for f in report["findings"] if f["id"] == "network/foreign-service")
    assert any("is held by" in line and f"pid {os.getpid()}" in line for line in finding["evidence"])
    assert finding["fixes"][0]["flags"]["--master-port"] != str(port) and "is free" in finding["fixes"][0]["text"]


def test_a_timeout_too_short_for_the_ranks_blames_nobody() -> None:
    status, report = check("--timeout", "0.05")
    assert (status, report["verdict"], failures(report)) == (3, "incomplete", [])
    assert list(stages(report)) == list(STAGES)
    assert any("--timeout" in note for note in report["notes"])


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(n, marks=FURTHER) for n in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_signal_ends_it_with_a_report_of_what_is_known(number: signal.Signals) -> None:
    port = unused_port()
    with started(*node(0, port, "--wait", "170")) as process:
        listens(port)
        pids = family(process.pid)
        assert len(pids) >= 3
        process.send_signal(number)
        time.sleep(0.02)
        process.send_signal(number)  # as SLURM does when the time of a job is up
        status, report = ended(process)
    assert status == 128 + number
    assert any(number.name in note for note in report["notes"])
    assert [entry["arrived"] for entry in report["nodes"]][:1] == [True]
    nothing_left(pids, port)


def test_a_signal_to_node_0_lets_the_others_know_at_once() -> None:
    port = unused_port()
    with (
        started(*node(0, port, "--wait", "90", nnodes=3)) as first,
        started(*node(1, port, "--wait", "90", nnodes=3)) as second,
    ):
        assert first.stderr is not None
        for line in first.stderr:
            if "2 of 3" in line:
                break
        first.send_signal(signal.SIGINT)
        assert first.wait(60) == 130
        status, report = ended(second, 60)
    assert (status, report["verdict"], failures(report)) == (3, "incomplete", [])
    assert len([entry for entry in report["nodes"] if entry["arrived"]]) == 2
    nothing_left([], port)


def test_kill_9_of_the_whole_run_leaves_nothing() -> None:
    port = unused_port()
    with started(*node(0, port, "--wait", "170")) as process:
        listens(port)
        pids = family(process.pid)
        process.kill()
        process.communicate()
    nothing_left(pids, port)
