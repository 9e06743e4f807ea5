"""Processes beside one at a queue, found by shared memory and Unix sockets of real processes."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from distdoctor.hang.peers import shared_memory, with_peers
from distdoctor.model.facts import Frame, JobProcess, JobThread

READER = Frame("acquire_read", "vllm/distributed/device_communicators/shm_broadcast.py", 9)
HOLDER = """
import mmap, os, sys
name, number = sys.argv[1], int(sys.argv[2])
if name:
    with open(name, "r+b") as file:
        kept = mmap.mmap(file.fileno(), 0)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def memory() -> Iterator[Path]:
    path = Path(f"/dev/shm/psm_{uuid.uuid4().hex[:8]}")
    path.write_bytes(bytes(4096))
    yield path
    path.unlink()


def started(name: str, end: int = 0) -> subprocess.Popen[str]:
    """A process that maps the file as shared memory and keeps this descriptor."""
    command = [sys.executable, "-c", HOLDER, name, str(end)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    child = subprocess.Popen(command, text=True, pass_fds=[end] if end else [], **pipes)  # type: ignore[call-overload]
    assert child.stdout.readline() == "ready\n"
    assert isinstance(child, subprocess.Popen)
    return child


def at_queue(pid: int) -> JobProcess:
    return JobProcess(pid, 1, "rank", threads=(JobThread(pid, "python", frames=(READER,)),))


def test_who_maps_the_same_memory_or_has_the_other_end_of_a_socket(memory: Path) -> None:
    near, far = socket.socketpair(socket.AF_UNIX)
    children = [started(str(memory), near.fileno()), started(str(memory)), started("", far.fileno()), started("")]
    for end in (near, far):
        end.close()
    reader, writer, connected, alone = (child.pid for child in children)
    try:
        (looked,) = with_peers([at_queue(reader)])
        found = {peer.pid: (peer.memory, peer.sockets) for peer in looked.peers or ()}
    finally:
        for child in children:
            child.communicate("")
    assert (found.get(writer), found.get(connected), found.get(alone)) == ((1, 0), (0, 1), None)


def test_no_process_is_read_unless_one_waits_at_a_queue() -> None:
    one = JobProcess(os.getpid(), 1, "rank")
    assert with_peers([one]) == [one]


def test_memory_of_one_process_alone_is_no_queue() -> None:
    child = started("")
    try:
        assert shared_memory(child.pid) == set()
    finally:
        child.communicate("")
    assert shared_memory(child.pid) is None
