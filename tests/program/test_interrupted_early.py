"""Ctrl-C in the milliseconds before signals are answered, and a signal that comes again while one is."""

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
PROGRAMS = {"module": ["-m", "distdoctor"], "script": ["-c", "from distdoctor.__main__ import main; main()"]}


HELD = """
import sys, time
from distdoctor import interrupts
interrupts.TOGETHER_SECONDS = float(sys.argv[1])
interrupts.begin()
print("ready", flush=True)
while interrupts.pending() is None:
    time.sleep(0.01)
print("held", flush=True)
time.sleep(0.5)
print("goes on", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(("seconds", "goes_on"), [("60", True), ("0", False)])
def test_a_signal_told_again_at_once_is_the_same_and_later_it_ends_the_process(seconds: str, goes_on: bool) -> None:
    """SLURM sends two SIGTERM within milliseconds when the time of a job is up: what ended at once told no report."""
    command = [sys.executable, "-c", HELD, seconds]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "held\n"
        process.send_signal(signal.SIGTERM)
        said = process.stdout.readline()
        process.kill()
    assert said == ("goes on\n" if goes_on else "")
    assert goes_on or process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("name", ["distdoctor.own_path", "distdoctor.interrupts", "distdoctor.cli.preload"])
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
