"""Ranks of an earlier run whose launcher is gone, found as real processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from distdoctor.model.facts import encode
from distdoctor.probes.host import processes
from tests.helpers.namespaces import lines_of
from tests.helpers.servers import unused_port

_LAUNCHER = """
import os, subprocess, sys
env = {**os.environ, "RANK": "3", "WORLD_SIZE": "8"}
rank = subprocess.Popen([sys.executable, "-c", sys.argv[1], sys.argv[2]], env=env, stdout=subprocess.DEVNULL)
print(rank.pid, flush=True)
"""
_RANK = """
import socket, sys, time
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    time.sleep(60)
"""


@contextmanager
def orphan(port: int) -> Iterator[int]:
    """A rank that listens on ``port`` and whose launcher has ended."""
    done = subprocess.run(
        [sys.executable, "-c", _LAUNCHER, _RANK, str(port)], stdout=subprocess.PIPE, text=True, check=True, timeout=30
    )
    pid = int(done.stdout)
    try:
        yield pid
    finally:
        os.kill(pid, signal.SIGKILL)


def test_an_orphaned_rank_is_found_with_its_port() -> None:
    port = unused_port()
    with orphan(port) as pid:
        deadline = time.monotonic() + 10
        while not (found := [one for one in processes.probe_leftovers(port) if one.pid == pid and one.ports]):
            assert time.monotonic() < deadline, processes.probe_leftovers(port)
            time.sleep(0.05)
        assert (found[0].rank, found[0].ports) == ("3", (port,))
        assert found[0].name.startswith("python") and 0 <= found[0].age < 60
        assert b"create_server" not in encode(found), "its command line is nobody's business"
        assert processes.probe_leftovers(port)[0].pid == pid
    deadline = time.monotonic() + 10
    while pid in {
        one.pid for one in processes.probe_leftovers(port)
    }:  # who is killed is there until somebody has seen to it
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_rank_whose_launcher_lives_is_none() -> None:
    command = [sys.executable, "-c", _RANK, str(unused_port())]
    rank = subprocess.Popen(command, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"})
    try:
        time.sleep(0.2)
        assert rank.pid not in {one.pid for one in processes.probe_leftovers(1)}
    finally:
        rank.kill()
        rank.wait()


def seen_under_init(env: dict[str, str], shell: bool = False) -> Any:
    """Leftovers that a process with ``env`` finds beside a rank; both are children of process 1 of a namespace, the
    latter by a ``shell`` of its own."""
    code = f"""
import os, subprocess, sys
rank = {{"RANK": "1", "WORLD_SIZE": "2"}}
subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], env={{**os.environ, **rank}})
probe = (
    "import json; from distdoctor.probes.host import processes as l; "
    "print(json.dumps([o.rank for o in l.probe_leftovers(1)]))"
)
if {shell}:
    variables = [f"{{name}}={{value}}" for name, value in {env!r}.items()]
    subprocess.run(["sh", "-c", 'env "$@"; exit $?', "sh", *variables, sys.executable, "-c", probe], check=True)
else:
    subprocess.run([sys.executable, "-c", probe], env={{**os.environ, **{env!r}}}, check=True)
"""
    return json.loads(lines_of(code, "--pid", "--fork", "--mount-proc", "--kill-child")[0])


def test_a_child_of_a_containers_init_is_left_over() -> None:
    assert seen_under_init({}) == ["1"]


def test_where_init_itself_is_the_launcher_its_ranks_are_not_left_over() -> None:
    """``docker run image torchrun ... -m distdoctor check``: the other ranks are this run's own."""
    assert seen_under_init({"RANK": "0", "WORLD_SIZE": "2"}) == []


def test_ranks_that_were_started_one_by_one_are_not_left_over() -> None:
    """``docker exec -e RANK=1 ...`` for each: nobody is their common launcher."""
    assert seen_under_init({"RANK": "0", "WORLD_SIZE": "2"}, shell=True) == []
    assert seen_under_init({"RANK": "0", "WORLD_SIZE": "4"}, shell=True) == ["1"], "of another job"
    assert seen_under_init({"RANK": "1", "WORLD_SIZE": "2"}, shell=True) == ["1"], "this rank's own, of before"


_NO_FILE_LEFT = """
import resource
from distdoctor.probes.host import processes
from distdoctor.probes.network import ports
resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
print(processes.probe_leftovers(29500), ports.holders(29500))
"""


def test_without_a_file_to_look_with_none_is_found() -> None:
    """It failed the stage network with "Too many open files", and the other nodes never heard of this one."""
    done = subprocess.run(
        [sys.executable, "-c", _NO_FILE_LEFT], capture_output=True, text=True, check=False, timeout=30
    )
    assert (done.stdout.split(), done.returncode) == (["()", "()"], 0), done.stderr


_NO_PROC = """
import subprocess
from distdoctor.mesh.measurement import processor_busy
from distdoctor.probes.host import processes
from distdoctor.probes.network import ports
subprocess.run(["mount", "-t", "tmpfs", "none", "/proc"], check=True)
print(processes.probe_leftovers(29500), ports.holders(29500), processor_busy())
"""


def test_without_proc_none_is_found_and_nothing_breaks() -> None:
    """Where it is not mounted torch trains; the stage network failed with "process PID not found"."""
    assert lines_of(_NO_PROC, "--mount", tools=("mount",)) == ["() () 0.0"]
