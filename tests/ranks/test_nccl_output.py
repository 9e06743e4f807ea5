"""Tests of what NCCL prints in a rank's process, which may be killed while it waits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import ctypes, os, signal
from distdoctor.ranks import groups
groups.line_by_line()
ctypes.CDLL(None).printf(b"NCCL INFO Using network IB\\n")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_it_is_there_when_the_process_is_killed(tmp_path: Path) -> None:
    out = tmp_path / "out"
    with out.open("wb") as file:
        # Of PYTHONUNBUFFERED Python makes that of libc's stdout, too.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        subprocess.run([sys.executable, "-c", PROGRAM], stdout=file, env=env, check=False)
    assert out.read_text() == "NCCL INFO Using network IB\n"
