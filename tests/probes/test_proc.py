"""Other processes of the host, whose names and command lines are any bytes and may hold secrets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from distdoctor.model.facts import Bind, NetworkFacts, encode
from distdoctor.model.text import encodable
from distdoctor.probes.host.proc import process_state, unanswered
from distdoctor.probes.network import ports
from tests.helpers.namespaces import lines_of
from tests.helpers.servers import unused_port

_HOLDER = b"""
import ctypes, os, socket, sys, time
ctypes.CDLL(None).prctl(15, b"tr\\xffain")
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    print("ready", flush=True)
    time.sleep(60)
"""


@contextmanager
def holder(port: int) -> Iterator[int]:
    """A process with a name and arguments that are no UTF-8, one of them a token, which listens on ``port``."""
    command = [os.fsencode(sys.executable), b"-c", _HOLDER, b"%d" % port, b"--token=s3cret", b"\xff\xfe"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env={**os.environ, "RANK": "0", "WORLD_SIZE": "2"})
    try:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        yield process.pid
    finally:
        process.kill()
        process.communicate()


def test_a_holder_of_the_port_is_told_by_name_pid_and_user() -> None:
    port = unused_port()
    with holder(port) as pid:
        (found,) = ports.holders(port)
        assert (found.pid, encodable(found.name)) == (pid, "tr\\xffain")
        text = encode(NetworkFacts(bind=Bind(False, port, holders=(found,)))).decode()
        assert "s3cret" not in text and str(pid) in text
        assert process_state(pid) in ("S", "R")


_SERVER = """
import ctypes, socket, sys, threading, time
def serve():
    ctypes.CDLL(None).prctl(15, sys.argv[2].encode())  # PR_SET_NAME
    print("ready", flush=True)
    time.sleep(60)
with socket.create_server(("127.0.0.1", int(sys.argv[1]))):
    threading.Thread(target=serve).start()
    time.sleep(60)
"""


@pytest.mark.parametrize(("thread", "serves"), [("pt_tcpstore_uv", True), ("pt_tcpstore", True), ("server", False)])
def test_a_holder_that_serves_a_store_of_torch_is_told_by_its_thread(thread: str, serves: bool) -> None:
    """A store that is stopped answers nothing, and has its thread all the same."""
    port = unused_port()
    with subprocess.Popen([sys.executable, "-c", _SERVER, str(port), thread], stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGSTOP)
            (found,) = ports.holders(port)
            assert found.hosts_store is serves
        finally:
            process.kill()


_CALLER = """
import socket, sys, time
here, there = map(int, sys.argv[1:])
with socket.create_connection(("127.0.0.1", there), source_address=("127.0.0.1", here)):
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_connection_whose_own_port_it_is_holds_the_port() -> None:
    """A process that connects out has the port; a listener cannot have it, and nobody listens on it."""
    port = unused_port()
    with socket.create_server(("127.0.0.1", 0)) as server:
        there = server.getsockname()[1]
        command = [sys.executable, "-c", _CALLER, str(port), str(there)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None and process.stdout.readline() == b"ready\n"
                with pytest.raises(OSError, match="in use"):
                    socket.create_server(("", port))
                (found,) = ports.holders(port)
                assert (found.pid, found.peer) == (process.pid, f"127.0.0.1:{there}")
                # Beside a listener, what it has accepted holds nothing; nor does what is only being closed.
                (listener,) = ports.holders(there)
                assert (listener.pid, listener.peer) == (os.getpid(), "")
            finally:
                process.kill()
    assert ports.holders(port) == ()


def test_the_names_of_mounts_may_be_any_bytes() -> None:
    code = (
        "import os, subprocess\n"
        "from distdoctor.probes.host import files\n"  # before /tmp, where this checkout may lie, is covered
        "mount = ['mount', '-t', 'tmpfs', 'none']\n"
        "subprocess.run([*mount, '/tmp'], check=True)\n"
        "os.makedirs(b'/tmp/m\\xff'); subprocess.run([*mount, b'/tmp/m\\xff'], check=True)\n"
        "os.makedirs('/tmp/ü x'); subprocess.run([*mount[:2], 'proc', 'none', '/tmp/ü x'], check=True)\n"
        "print(files.filesystem('/tmp/file'), files.filesystem('/tmp/ü x/file'))\n"
    )
    (line,) = lines_of(code, "--mount", "--pid", "--fork", tools=("mount",))
    assert line == "tmpfs proc"


def test_a_connection_that_nobody_answers_is_told() -> None:
    """A listener whose queue is full leaves the next request without an answer, as a filter that drops it does."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as server:
        port = server.getsockname()[1]
        clients = [socket.socket() for _ in range(4)]
        try:
            for one in clients:
                one.setblocking(False)
                one.connect_ex(("127.0.0.1", port))
            waiting = unanswered(os.getpid())
            assert waiting and {place[:2] for place in waiting} == {("127.0.0.1", port)}
            assert len(waiting) < len(clients)
            assert unanswered(1) == [] or os.geteuid() == 0
        finally:
            for one in clients:
                one.close()
