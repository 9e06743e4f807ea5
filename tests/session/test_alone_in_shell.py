"""One rank of several, in a shell where nothing starts the others: variables left over, and nobody else to tell."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.servers import unused_port

LINE = "import os; from distdoctor.session.first_process import alone_in_shell; print(alone_in_shell(os.getppid()))"


def told(shell_line: str) -> str:
    return run("bash", "-c", shell_line).stdout


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(words, capture_output=True, text=True, check=False, timeout=120)


def test_who_else_a_shell_has_started() -> None:
    one = f"{sys.executable} -c '{LINE}'"
    assert told(f"{one}; true") == "True\n"
    assert told(f"sleep 30 & {one}; kill $!") == "False\n"
    python = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {LINE!r}])"
    assert run(sys.executable, "-c", python).stdout == "False\n"


def test_a_rank_left_alone_tells_so() -> None:
    """It said nothing at all, and ended with status 3: its report was to be told by local rank 0."""
    variables = f"MASTER_ADDR=127.0.0.1 MASTER_PORT={unused_port()} RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2"
    variables += " GROUP_RANK=0 TORCHELASTIC_RUN_ID=none TORCHELASTIC_RESTART_COUNT=0"
    done = run("bash", "-c", f"{variables} {sys.executable} -m distdoctor check --wait 1; exit $?")
    assert done.returncode == 3, done
    assert "store/nodes-missing" in done.stdout and "Rank 0 was not met on" in done.stdout, done
    assert "LOCAL_RANK are left over: unset them" in done.stdout.replace("\n       ", " "), done
