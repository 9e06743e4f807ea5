"""What the threads of a process are called: those without names of their own by what they do, in real processes."""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from distdoctor.hang import proc
from distdoctor.hang.proc import LOOP, RUNS, STORE

AS_GLOO = """
import ctypes, select, socket, sys, threading
named, runs = sys.argv[1], int(sys.argv[2])
epoll, held, runs_as_named = select.epoll(), threading.Lock(), threading.Event()
server = socket.create_server(("127.0.0.1", 0))
held.acquire()

def serve():
    waits = select.poll()
    waits.register(server, select.POLLIN)
    waits.poll()

def loop():
    if named: ctypes.CDLL(None).prctl(15, named.encode(), 0, 0, 0)
    runs_as_named.set()
    while True: epoll.poll(0.01, 64)

for target in (held.acquire, serve, loop, *runs * [held.acquire]):
    threading.Thread(target=target, daemon=True).start()
runs_as_named.wait()
print(1, flush=True)
threading.Event().wait()
"""
"""The threads of a rank as up to torch 2.9: one of somebody else's, the store's, gloo's, those that run collectives."""


TOLD = (LOOP, RUNS, STORE)
SETTLES_WITHIN = 60.0


def names_in(expected: list[str], *words: str) -> list[str]:
    """The names of the threads of such a process, but for the main one, in the order in which they were begun, once
    they are as expected: each thread gets to its call when it has a processor, and gloo's leaves it every 10 ms."""
    with subprocess.Popen([sys.executable, "-c", AS_GLOO, *words], stdout=subprocess.PIPE) as started:
        try:
            assert started.stdout is not None and started.stdout.readline()
            deadline = time.monotonic() + SETTLES_WITHIN
            while True:
                names = sorted(proc.thread_names(started.pid).items())
                told = [name if name in TOLD else "python" for tid, name in names if tid != started.pid]
                if told == expected or time.monotonic() > deadline:
                    return told
                time.sleep(0.02)
        finally:
            started.kill()


@pytest.mark.parametrize(("runs", "told"), [("2", [RUNS, RUNS]), ("0", []), ("1", ["python"])])
def test_threads_without_names_are_told_by_what_they_do(runs: str, told: list[str]) -> None:
    expected = ["python", STORE, LOOP, *told]
    assert names_in(expected, "", runs) == expected


def test_where_gloo_has_names_those_count() -> None:
    expected = ["python", "python", LOOP, "python", "python"]
    assert names_in(expected, "gloo_tcp_loop", "2") == expected
