"""What the threads of a process are called: those without names of their own by what they do, in real processes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from distdoctor.hang import proc
from distdoctor.hang.proc import LOOP, RUNS, STORE

AS_GLOO = """
import ctypes, select, socket, sys, threading
named, runs = sys.argv[1], int(sys.argv[2])
epoll, held = select.epoll(), threading.Lock()
server = socket.create_server(("127.0.0.1", 0))
held.acquire()

def serve():
    waits = select.poll()
    waits.register(server, select.POLLIN)
    waits.poll()

def loop():
    if named: ctypes.CDLL(None).prctl(15, named.encode(), 0, 0, 0)
    while True: epoll.poll(0.01, 64)

for target in (held.acquire, serve, loop, *runs * [held.acquire]):
    threading.Thread(target=target, daemon=True).start()
print(1, flush=True)
threading.Event().wait()
"""
"""The threads of a rank as up to torch 2.9: one of somebody else's, the store's, gloo's, those that run collectives."""


@contextmanager
def names_in(*words: str) -> Iterator[list[str]]:
    """The names of the threads of such a process, but for the main one, in the order in which they were begun."""
    with subprocess.Popen([sys.executable, "-c", AS_GLOO, *words], stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            deadline = time.monotonic() + 20
            while True:
                names = proc.thread_names(started.pid)
                told = [name for tid, name in sorted(names.items()) if tid != started.pid]
                if any(name in (LOOP, words[0]) for name in told) or time.monotonic() > deadline:
                    break
                time.sleep(0.02)  # gloo's thread leaves its call every 10 ms
            yield told
        finally:
            started.kill()


@pytest.mark.parametrize(("runs", "told"), [("2", [RUNS, RUNS]), ("0", []), ("1", ["python"])])
def test_threads_without_names_are_told_by_what_they_do(runs: str, told: list[str]) -> None:
    with names_in("", runs) as found:
        assert [name if name in (LOOP, RUNS, STORE) else "python" for name in found] == ["python", STORE, LOOP, *told]


def test_where_gloo_has_names_those_count() -> None:
    with names_in("gloo_tcp_loop", "2") as found:
        assert found.count(LOOP) == 1 and RUNS not in found and STORE not in found
