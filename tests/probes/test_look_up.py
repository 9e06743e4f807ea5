"""The process that asks for names: where it gets no processor, is ended, or is left."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from distdoctor.probes import resolver
from distdoctor.probes.resolver import Asker, Reply
from tests.helpers.namespaces import lines_of

_LOOKS_UP_FOR_EVER = """
import asyncio, os, socket, subprocess, sys, time
from pathlib import Path
from distdoctor.probes.resolver import ASKER
def sh(line): subprocess.run(line, shell=True, check=True)
def below(pid): return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
open("resolv.conf", "w").write("nameserver 127.0.0.1\\n")
open("nsswitch.conf", "w").write("hosts: files dns\\n")
sh("ip link set lo up && mount --bind resolv.conf /etc/resolv.conf && mount --bind nsswitch.conf /etc/nsswitch.conf")
silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
silent.bind(("127.0.0.1", 53))
if os.fork() == 0:
    asyncio.run(ASKER.ask("addresses", "gpu07.cluster.example", 30.0))
    os._exit(0)
def until(true):
    end = time.monotonic() + 10
    while not true() and time.monotonic() < end: time.sleep(0.02)
    return true()
(user,) = below(os.getpid())
print("looks up", until(lambda: [1 for asker in below(user) if below(asker)]))
(asker,) = below(user)
(child,) = below(asker)
os.kill(user, 9)
os.wait()
def gone(pid):
    try: return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except OSError: return True
print("gone", until(lambda: gone(asker) and gone(child)))
"""


def test_nothing_is_left_of_a_look_up_whose_user_is_killed(tmp_path: Path) -> None:
    lines = lines_of(_LOOKS_UP_FOR_EVER, "--net", "--mount", "--pid", "--fork", "--mount-proc", cwd=tmp_path)
    assert lines == ["looks up [1]", "gone True"]


def test_what_waits_for_a_processor_is_no_slow_look_up() -> None:
    """An asker with one sixtieth of a processor beside what wants all of it."""
    own, all_of_them = Asker(), os.sched_getaffinity(0)
    spinner = None
    try:
        os.sched_setaffinity(0, {min(all_of_them)})
        own.start()
        assert own._process is not None
        assert asyncio.run(own.ask("addresses", "localhost", 20)).found  # its Python has started
        os.setpriority(os.PRIO_PROCESS, own._process.pid, 19)
        spinner = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        os.sched_setaffinity(0, all_of_them)
        started = time.monotonic()
        replies = [asyncio.run(own.ask("addresses", "localhost", 20)) for _ in range(2)]
        spent = time.monotonic() - started
    finally:
        os.sched_setaffinity(0, all_of_them)
        if spinner is not None:
            spinner.kill()
            spinner.wait()
        own.stop()
    assert all(reply.found for reply in replies)
    taken = [reply.seconds for reply in replies if reply.seconds is not None]
    assert len(taken) == len(replies) and sum(taken) < spent / 2, (taken, spent)


def test_without_a_process_for_it_names_are_looked_up_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object, **__: object) -> None:
        raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    monkeypatch.setattr(subprocess, "Popen", none_left)

    async def ask() -> list[Reply]:
        asker = Asker()
        return [await asker.ask("addresses", name, 5.0) for name in ("127.0.0.1", "a..b")]

    found, none = asyncio.run(ask())
    assert found == Reply(("127.0.0.1",)) and none.error and not none.timed_out


def test_a_question_that_waits_for_a_processor_is_answered_when_it_has_one() -> None:
    """The process that would ask is stopped for longer than an answer may take."""

    async def ask() -> Reply:
        asker = Asker()
        await asker.ask("addresses", "127.0.0.1", 5.0)
        assert asker._process is not None
        number = asker._process.pid
        os.kill(number, signal.SIGSTOP)
        threading.Timer(0.8, os.kill, (number, signal.SIGCONT)).start()
        try:
            return await asker.ask("addresses", "127.0.0.1", 0.4)
        finally:
            asker.stop()

    found = asyncio.run(ask())
    assert (found.found, found.timed_out) == (("127.0.0.1",), False)


IGNORING = """
import asyncio, signal
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
from distdoctor.probes.resolver import Asker

async def main():
    asker = Asker()
    for _ in range(4):
        print(await asker.ask("of_store", "127.0.0.1", 5.0))
        await asyncio.sleep(0.2)
    print(asker._process.poll())
    asker.stop()

asyncio.run(main())
"""


def test_names_are_looked_up_below_a_shell_that_ignores_sigchld() -> None:
    """It hands that on: the process that asks waited for its children in vain, and ended; the name had no address."""
    done = subprocess.run([sys.executable, "-c", IGNORING], capture_output=True, text=True, timeout=60, check=False)
    *replies, status = done.stdout.splitlines()
    assert len(replies) == 4 and all("found=('127.0.0.1',), error=None" in reply for reply in replies), done.stderr
    assert status == "None", "it runs until it is stopped"


def test_who_ends_without_an_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """That it ended says nothing of the name."""
    real, asked = resolver._answer, list[int]()

    async def answer(channel: socket.socket, seconds: float) -> Reply:
        asked.append(1)
        return Reply(error=resolver.LOST) if len(asked) == 1 else await real(channel, seconds)

    monkeypatch.setattr(resolver, "_answer", answer)
    asker = Asker()
    try:
        reply = asyncio.run(asker.ask("of_store", "127.0.0.1", 10.0))
        assert (reply.found, reply.error, len(asked)) == (("127.0.0.1",), None, 2)
        asked[:] = [0, 0, 0]
        monkeypatch.setattr(resolver, "TRIES", 0)
        assert asyncio.run(asker.ask("of_store", "127.0.0.1", 10.0)).found == ("127.0.0.1",)
    finally:
        asker.stop()
