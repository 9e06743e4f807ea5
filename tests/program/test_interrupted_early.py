"""Ctrl-C in the milliseconds before signals are answered: no traceback, whatever is being imported."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.commands import environment

PRESS = """
import os, signal, sys
class Presser:
    def find_spec(self, name, path=None, target=None):
        if name == {name!r}:
            os.kill(os.getpid(), {number})
sys.meta_path.insert(0, Presser())
"""
"""Sends the signal at the moment when that module is looked for."""
PROGRAMS = {
    "module": ["-m", "distdoctor"],
    "script": ["-c", "from distdoctor.__main__ import main; main()"],
}


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["distdoctor.own_path", "distdoctor.interrupts", "distdoctor.cli.ahead"])
def test_a_signal_while_it_starts_leaves_no_traceback(
    tmp_path: Path, name: str, program: str, number: signal.Signals
) -> None:
    press = tmp_path / "sitecustomize.py"
    press.write_text(PRESS.format(name=name, number=int(number)))
    env = environment()
    command = [sys.executable, *PROGRAMS[program], "check", "--until", "environment"]
    done = subprocess.run(
        command,
        env={**env, "PYTHONPATH": f"{tmp_path}:{env['PYTHONPATH']}"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode in (-number, 128 + number)
    assert "Traceback" not in done.stderr and "KeyboardInterrupt" not in done.stderr
