"""Tests of what a run from one place starts on each host: when it ends by itself."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import asdict

import psutil
import pytest

from distdoctor.cli.options import RunFlags
from distdoctor.plan.values import Flags
from distdoctor.remote.connection import packed
from tests.helpers.namespaces import ENV

_REMOTE = "from distdoctor.cli.hosts import agent; agent.SILENT_SECONDS = 1.0; agent.remote()"


@pytest.mark.parametrize("beats", [0, 4])
def test_a_line_that_goes_silent_ends_it(beats: int) -> None:
    """And not as long as the other end says that it is there. The line itself stays open."""
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", _REMOTE], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENV
    ) as started:
        assert started.stdin is not None and started.stdout is not None and started.stderr is not None
        assert b"hello" in started.stdout.readline()
        for _ in range(beats):
            time.sleep(0.5)
            began = time.monotonic()
            started.stdin.write(packed({"beat": True}))
            started.stdin.flush()
            assert started.poll() is None
        assert started.wait(20) != 0
        assert time.monotonic() - began > 1
        assert "from where the run was started" in started.stderr.read().decode()


def test_torch_is_imported_while_the_last_hosts_are_waited_for() -> None:
    """It has its order, and nobody has told it to begin."""
    order = {"way": "--hosts", "flags": asdict(Flags(nnodes="2", node_rank=1, master_addr="127.0.0.1"))}
    command = [sys.executable, "-m", "distdoctor", "remote"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, env=ENV) as started:
        assert started.stdin is not None
        started.stdin.write(packed({**order, "how": asdict(RunFlags()), "env": {}, "cwd": "/"}))
        started.stdin.flush()
        here, end = psutil.Process(started.pid), time.monotonic() + 30
        while not (children := here.children()) and time.monotonic() < end:
            time.sleep(0.05)
        started.kill()
    assert children and not any(child.is_running() for child in psutil.wait_procs(children, 10)[1])
