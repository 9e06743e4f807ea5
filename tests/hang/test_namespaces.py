"""A job in another network namespace is asked from in there, and the doctor is back where it was afterwards."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from distdoctor.hang import inspect
from distdoctor.hang.jobs import JobCandidate, LocalJob
from distdoctor.hang.namespaces import address_in_namespace, inside
from distdoctor.model.facts import JobProcess, Socket
from tests.helpers.namespaces import ENV, entry

_HOST = """
import socket, subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
open("/mnt/hosts", "w").write("127.0.0.1 localhost\\n10.9.8.7 there there.example # not this\\nnonsense name\\n")
subprocess.run(["mount", "--bind", "/mnt/hosts", "/etc/hosts"], check=True)
listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[tuple[int, int]]:
    """A process in another namespace, and a port on which it listens there."""
    if os.geteuid() != 0:
        pytest.skip("only root enters other namespaces")
    script = 'mount -t tmpfs none /mnt && exec "$0" -c "$1"'
    command = [*entry("--net", "--mount", tools=("ip", "mount")), "sh", "-c", script, sys.executable, _HOST]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV) as process:
        assert process.stdout is not None
        yield process.pid, int(process.stdout.readline())
        process.communicate("")


def reached(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 2).close()
    except ConnectionRefusedError:
        return False
    return True


def test_sockets_made_inside_are_there_and_later_ones_are_not(elsewhere: tuple[int, int]) -> None:
    pid, port = elsewhere
    before = Path("/proc/thread-self/ns/net").readlink()
    with inside(pid):
        assert reached(port)
    assert Path("/proc/thread-self/ns/net").readlink() == before
    with pytest.raises(KeyError), inside(pid):
        raise KeyError
    assert Path("/proc/thread-self/ns/net").readlink() == before and not reached(port)


def test_what_it_tells_of_itself_is_asked_there(elsewhere: tuple[int, int]) -> None:
    """On the same port of this namespace's loopback somebody else may listen: here nobody does."""
    pid, port = elsewhere
    netns = os.readlink(f"/proc/{pid}/ns/net")
    one = JobProcess(
        pid, 1, "rank", variables={"NCCL_RAS_ADDR": f"localhost:{port}"}, sockets=(Socket("LISTEN", "127.0.0.1", port),)
    )
    job = LocalJob("job", netns, {pid: (JobCandidate(pid, 1, 0.0, "S", "python", (), {}), "rank")})
    _, ras = inspect.ask_services(job, (), [one], timeout=0.3, host="here")
    assert ras is not None and "it says nothing" in ras.problem
    _, ras = inspect.ask_services(LocalJob("job", "", job.members), (), [one], timeout=0.3, host="here")
    assert ras is not None and "refused" in ras.problem


def test_names_of_its_hosts_file(elsewhere: tuple[int, int]) -> None:
    pid, _ = elsewhere
    assert address_in_namespace(pid, "there.example") == "10.9.8.7"
    assert address_in_namespace(pid, "not") == address_in_namespace(pid, "name") == address_in_namespace(pid, "") == ""


def test_a_process_that_is_gone() -> None:
    with pytest.raises(OSError), inside(2**22 + 1):
        pass
    assert address_in_namespace(2**22 + 1, "localhost") == ""
