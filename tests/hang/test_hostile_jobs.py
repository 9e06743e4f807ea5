"""Tests of what any user can give a process of his: numbers beyond all bounds, and passwords in addresses."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from distdoctor.hang import inspect, jobs, proc, snapshot
from distdoctor.hang.agent_options import of_agent
from distdoctor.hang.jobs import JobCandidate, LocalJob
from distdoctor.hang.proc import SocketTables
from distdoctor.hang.store import view

HUGE = ("9" * 5000, "\u00b2", "-1", "1e9", "99999999999")


@pytest.fixture(scope="module")
def without_sockets() -> Iterator[int]:
    """A process that has none; this one may still have those of another test."""
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process.pid
        process.kill()


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_PORT"])
def test_a_number_that_is_none_is_not_known(name: str, value: str, without_sockets: int) -> None:
    told = {"RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29500", name: value}
    one = JobCandidate(without_sockets, 1, 0.0, "S", "python", (), told)
    found = LocalJob("job", "", {one.pid: (one, "rank")})
    assert view.store_address(found) == (("127.0.0.1", 29500) if name != "MASTER_PORT" else None)
    assert view._known(found)["expected_world"] == (2 if name != "WORLD_SIZE" else None)
    facts = inspect._facts(found, [snapshot.process_facts(one, "rank", SocketTables())], 0.0, ())
    assert facts.world_size == (2 if name != "WORLD_SIZE" else None)


@pytest.mark.parametrize("value", HUGE)
@pytest.mark.parametrize("flag", ["--nnodes", "--node-rank", "--master-port"])
def test_nor_is_one_of_a_command_line(flag: str, value: str) -> None:
    options = of_agent(["torchrun", f"{flag}={value}", "train.py"], {})
    assert options.nodes == ((1, 1) if flag != "--nnodes" else None)
    assert options.static_node_rank == (0 if flag != "--node-rank" else None)
    assert options.endpoint == ("127.0.0.1", 29500)


def test_no_password_of_an_address_is_told() -> None:
    env = {**os.environ, "RANK": "0", "WORLD_SIZE": "2", "MASTER_ADDR": "me:s3cret@node0", "MASTER_PORT": "29500"}
    words = ["--rdzv-endpoint=me:s3cret@node0:29400", "--rdzv-backend=c10d", "--master-addr=me:s3cret@node0"]
    program = [sys.executable, "-c", "print(flush=True), input()"]
    with subprocess.Popen(program, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        try:
            assert (
                process.stdout is not None and process.stdout.readline()
            )  # before, the kernel may show no variables yet
            seen = proc.stat(process.pid)
            one = jobs._candidate(process.pid, seen) if seen is not None else None
        finally:
            process.kill()
    assert one is not None and one.variables["MASTER_ADDR"] == "***@node0"
    options = of_agent(["torchrun", *words, "train.py"], {})
    assert (options.endpoint, options.master_addr) == (("***@node0", 29400), "***@node0")
