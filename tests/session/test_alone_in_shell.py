"""One rank of several, in a shell where nothing starts the others: variables left over, and nobody else to tell."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from distdoctor.session.finish import started_alone
from tests.helpers.servers import unused_port

LINE = """
import os
from distdoctor.session.finish import started_alone
print(started_alone(os.getppid(), os.getpid()))
"""
AGENT = "python\0/usr/bin/torchrun\0job.py"


@dataclass(frozen=True)
class Process:
    """One that is above, the last of them the parent."""

    number: int
    name: str
    line: str
    others: Sequence[int] = ()
    """Its children beside the one that leads here."""


def output_of(shell_line: str) -> str:
    return run("bash", "-c", shell_line).stdout


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_who_else_a_shell_has_started() -> None:
    one = f"{sys.executable} -c '{LINE}'"
    assert output_of(f"{one}; true") == "True\n"
    assert output_of(f"sleep 30 & {one}; kill $!") == "False\n"
    beside = "import subprocess, sys; r = subprocess.Popen(['sleep', '30'])"
    python = f"{beside}; subprocess.run([sys.executable, '-c', {LINE!r}]); r.kill()"
    assert run(sys.executable, "-c", python).stdout == "False\n"


@pytest.mark.parametrize(
    ("above", "alone"),
    [
        ((Process(1, "python", "/job/start.py"),), True),  # what a container runs, with the variables of a job in it
        ((Process(1, "tini", "tini -- python"), Process(7, "python", "/job/start.py")), True),
        ((Process(1, "tini", "tini"), Process(7, "python", "start.py", others=(9,))), False),
        ((Process(1, "python", "start.py", others=(9,)), Process(7, "numactl", "numactl -N 1 python")), False),
        ((Process(1, "init", "init", others=(9,)), Process(7, "bash", "bash")), True),
        ((Process(1, "torchrun", AGENT, others=(9,)), Process(7, "bash", "bash\0wrap.sh")), False),
    ],
)  # fmt: skip
def test_what_is_above_says_whether_there_are_others(tmp_path: Path, above: tuple[Process, ...], alone: bool) -> None:
    """A container's only process said nothing at all; below a wrapper of torchrun's ranks each told a report."""
    numbers = [one.number for one in above]
    for process, parent, child in zip(above, [0, *numbers], [*numbers[1:], 99], strict=False):
        folder = tmp_path / str(process.number)
        (folder / "task" / str(process.number)).mkdir(parents=True)
        children = " ".join(map(str, (child, *process.others)))
        (folder / "task" / str(process.number) / "children").write_text(children)
        (folder / "comm").write_text(f"{process.name}\n")
        (folder / "stat").write_text(f"{process.number} ({process.name}) S {parent} 1 1")
        (folder / "status").write_text(f"Name:\t{process.name}\nPPid:\t{parent}\n")
        (folder / "cmdline").write_text(process.line)
    assert started_alone(numbers[-1], 99, tmp_path) is alone


def test_a_rank_left_alone_tells_so() -> None:
    """It said nothing at all, and ended with status 3: its report was to be told by local rank 0."""
    variables = f"MASTER_ADDR=127.0.0.1 MASTER_PORT={unused_port()} RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2"
    variables += " GROUP_RANK=0 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0"
    done = run("bash", "-c", f"{variables} {sys.executable} -m distdoctor check --wait 1; exit $?")
    assert done.returncode == 3, done
    assert "store/nodes-missing" in done.stdout and "did not answer" in done.stdout, done
    assert "run `unset RANK WORLD_SIZE LOCAL_RANK`" in " ".join(done.stdout.split()), done
