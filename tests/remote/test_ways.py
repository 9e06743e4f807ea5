from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.model.errors import UsageError
from distdoctor.remote import transports
from distdoctor.remote.connection import unpacked
from distdoctor.remote.transports import NamedHost


def program(folder: Path, name: str, prints: str, status: int = 0) -> None:
    """A command of a site in ``folder``."""
    path = folder / name
    path.write_text(f"#!/bin/sh\ncat <<'EOF'\n{prints}\nEOF\nexit {status}\n")
    path.chmod(0o755)


def test_the_line_that_is_run_there_starts_what_is_here() -> None:
    """With nothing to say on stdin, it says hello and ends."""
    done = subprocess.run(
        ["sh", "-c", transports.remote_line(None)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    hello = unpacked(done.stdout.splitlines()[0])
    assert hello is not None and hello["hello"] is True, done.stderr


def test_what_a_check_needs_is_begun_there_in_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "distdoctor", "")
    (tmp_path / "distdoctor").write_text('#!/bin/sh\necho "$(pwd) $*"\n')
    for folder, at in ((tmp_path / "it's here", None), (tmp_path / "gone", str(tmp_path))):
        folder.mkdir()
        monkeypatch.chdir(folder)
        line = transports.remote_line(f"export PATH={tmp_path}:$PATH", "store")
        monkeypatch.chdir(tmp_path)
        if at:
            folder.rmdir()
        done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
        assert done.stdout == f"{at or folder} remote --until store\n"


def test_where_there_is_no_distdoctor_the_status_says_so(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path)}
    done = subprocess.run(
        ["/bin/sh", "-c", transports.remote_line(":")], env=env, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == transports.ABSENT


def test_a_setup_line_comes_first(tmp_path: Path) -> None:
    program(tmp_path, "distdoctor", "found on PATH")
    line = transports.remote_line(f"export PATH={tmp_path}:$PATH")
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "found on PATH\n"


def test_a_way_by_ssh_asks_nothing_and_takes_no_host_for_an_option() -> None:
    (target,) = transports.by_ssh([NamedHost("gpu1")])
    command = target.command(None)
    assert command[0] == "ssh" and "-oBatchMode=yes" in command and command[-3:-1] == ["--", "gpu1"]
    assert command[-1].startswith("sh -c ")


PODS = {
    "items": [
        {"metadata": {"name": name}, "status": {"phase": phase, "podIP": address}}
        for name, phase, address in (
            ("job-worker-10", "Running", "10.1.0.4"),
            ("job-worker-2", "Running", "10.1.0.3"),
            ("job-master-0", "Running", "10.1.0.2"),
            ("job-worker-11", "Pending", ""),
        )
    ]
}


def test_pods_in_the_order_of_their_ranks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program(tmp_path, "kubectl", json.dumps(PODS))
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    targets = transports.into_pods("app=job", "team")
    assert [target.host.name for target in targets] == ["job-master-0", "job-worker-2", "job-worker-10"]
    assert transports.address_of(targets[0]) == "10.1.0.2"
    assert targets[0].command(None)[:6] == ["kubectl", "exec", "--stdin", "--namespace=team", "job-master-0", "--"]


def test_what_the_site_says_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    program(tmp_path, "kubectl", "error: no such namespace", status=1)
    with pytest.raises(UsageError, match="--pods: kubectl: error: no such namespace"):
        transports.into_pods("app=job", None)
    program(tmp_path, "squeue", "")
    with pytest.raises(UsageError, match="--slurm-job 7: no such job is running"):
        transports.into_slurm_job("7")
    program(tmp_path, "squeue", "7|7|RUNNING|gpu[1-2]")
    steps = transports.into_slurm_job("7")
    assert [step.host.name for step in steps] == ["gpu1", "gpu2"] and "--overlap" in steps[0].before
    monkeypatch.setenv("PATH", str(tmp_path / "none"))
    with pytest.raises(UsageError, match="needs squeue, which is not on PATH here"):
        transports.into_slurm_job("7")
    assert sys.executable in steps[0].command(None)[-1]


def test_components_of_a_job_are_one_and_an_array_is_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    program(tmp_path, "squeue", "7|7+0|RUNNING|gpu[1-2]\n8|7+1|RUNNING|cpu1")
    steps = transports.into_slurm_job("7")
    assert [(step.host.name, step.before[-2]) for step in steps] == [
        ("gpu1", "--jobid=7"),
        ("gpu2", "--jobid=7"),
        ("cpu1", "--jobid=8"),
    ]
    program(tmp_path, "squeue", "9|7_1|RUNNING|gpu1\n7|7_2|RUNNING|gpu2\n7|7_[3-4]|PENDING|")
    with pytest.raises(UsageError, match="several jobs run, name one: 7_1, 7_2"):
        transports.into_slurm_job("7")
    program(tmp_path, "squeue", "9|7_1|RUNNING|gpu1")
    assert "--jobid=9" in transports.into_slurm_job("7_1")[0].before


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("7|7|FAILED|gpu[1-2]", r"it is FAILED; it ran on gpu\[1-2\], .*--hosts gpu\[1-2\]$"),
        ("7|7|PENDING|", "it is PENDING$"),
    ],
)
def test_a_job_that_does_not_run(says: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
    program(tmp_path, "squeue", says)
    with pytest.raises(UsageError, match=f"--slurm-job 7: {told}"):
        transports.into_slurm_job("7")
