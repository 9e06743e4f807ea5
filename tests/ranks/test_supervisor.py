"""The zygote and its children as real processes: called, watched, killed, and gone afterwards."""

from __future__ import annotations

import asyncio
import importlib.metadata
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Iterator
from pathlib import Path

import pytest

from distdoctor.ranks.supervisor import Child, Died
from tests.helpers.namespaces import ROOT
from tests.helpers.running import Running


@pytest.fixture
def own() -> Iterator[Running]:
    """A zygote that the test may break."""
    running = Running()
    yield running
    running.close()


def alive(pid: int) -> bool:
    """Return whether the process is there and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def gone(pid: int | None) -> bool:
    """Return whether the process ends soon."""
    assert pid is not None
    deadline = time.monotonic() + 10
    while alive(pid):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def store_of_one(running: Running, child: Child, port: int, timeout: float = 10.0, world: int = 1) -> Awaitable[object]:
    return child.call(
        "store", host="127.0.0.1", port=port, prefix=f"p{child.number}", rank=0, world=world, timeout=timeout
    )


def test_torch_is_what_is_installed(shared: Running) -> None:
    torch = shared.do(shared.zygote.torch())
    assert torch.version is not None and torch.error is None
    assert torch.version.partition("+")[0] == importlib.metadata.version("torch").partition("+")[0]
    assert "gloo" in torch.backends
    assert torch.path is not None and (Path(torch.path) / "__init__.py").is_file()
    assert torch.seconds is not None and 0.1 < torch.seconds < 60


def test_a_child_answers_one_call_after_the_other_and_errors_come_as_text(shared: Running) -> None:
    child = shared.child()
    for _ in range(3):
        assert shared.do(child.call("gpu"))["ok"] is True
    answer = shared.do(child.call("no such call"))
    assert (answer["ok"], answer["error"]) == (False, "KeyError: 'no such call'")
    answer = shared.do(child.call("gpu", more=1))
    assert answer["ok"] is False and answer["error"].startswith("TypeError")
    child.close()
    assert gone(child.pid)


def test_variables_are_laid_over_those_of_the_parent(shared: Running) -> None:
    """gloo itself reads them: set, unset, and left as they are."""
    host = shared.child()
    port = shared.do(host.call("store_host", port=0, timeout=10.0))["port"]
    outcomes = []
    for env in ({"GLOO_SOCKET_IFNAME": "lo"}, {"GLOO_SOCKET_IFNAME": "nosuch1"}, {"GLOO_SOCKET_IFNAME": None}, {}):
        child = shared.child(dict(env))
        assert shared.do(store_of_one(shared, child, port)) is not None
        outcomes.append(shared.do(child.call("gloo", prefix=f"g{child.number}", timeout=5.0)))
        child.close()
    host.close()
    over, wrong, unset, untouched = outcomes
    assert over["ok"] and over["address"] == "127.0.0.1"
    assert not wrong["ok"] and "nosuch1" in wrong["error"]
    assert unset["ok"]
    assert not untouched["ok"] and "nosuch0" in untouched["error"]
    assert "GLOO_SOCKET_IFNAME" not in os.environ


def test_a_call_that_does_not_return_ends_with_a_kill(shared: Running) -> None:
    host, child = shared.child(), shared.child()
    port = shared.do(host.call("store_host", port=0, timeout=10.0))["port"]

    async def wait() -> str:
        call = asyncio.ensure_future(store_of_one(shared, child, port, timeout=300.0, world=2))
        await asyncio.sleep(0.3)
        assert not call.done()
        child.kill()
        with pytest.raises(Died) as died:
            await call
        return str(died.value)

    assert shared.do(wait()) == "the process was ended by signal 9"
    assert child.exit_status == -9 and gone(child.pid)
    with pytest.raises(Died):
        shared.do(child.call("gpu"))
    child.close()
    assert shared.do(host.call("gpu"))["ok"], "the others live on"
    host.close()


def test_a_child_that_crashes_is_reported_with_what_it_printed(shared: Running) -> None:
    child = shared.child()

    async def crash() -> str:
        await asyncio.get_running_loop().sock_sendall(child.channel, b"this is no JSON")
        with pytest.raises(Died) as died:
            await child.call("gpu")
        return str(died.value)

    assert shared.do(crash()) == "the process ended with status 70"
    assert "JSONDecodeError" in child.output()
    child.close()
    assert child.output() == ""


def test_a_child_ended_by_somebody_else_is_noticed(shared: Running) -> None:
    child = shared.child()
    assert child.pid is not None
    os.kill(child.pid, signal.SIGSEGV)
    with pytest.raises(Died, match="signal 11"):
        shared.do(child.call("gpu"))
    child.close()


def test_a_child_ends_when_its_channel_closes_although_later_ones_live(shared: Running) -> None:
    """No child holds another's channel."""
    first = shared.child()
    later = [shared.child() for _ in range(2)]
    first.close()
    assert gone(first.pid)
    assert all(shared.do(child.call("gpu"))["ok"] for child in later)
    for child in later:
        child.close()


def test_no_child_holds_anothers_sockets(shared: Running) -> None:
    """The port of a killed store host is free although a child forked after it lives."""
    host = shared.child()
    port = shared.do(host.call("store_host", port=0, timeout=10.0))["port"]
    later = shared.child()
    host.kill()
    shared.do(host.exited.wait())
    with socket.create_server(("", port)):
        pass
    sockets = [os.readlink(entry) for entry in Path(f"/proc/{later.pid}/fd").iterdir() if entry.is_symlink()]
    assert len([name for name in sockets if name.startswith("socket:")]) == 1, sockets
    host.close()
    later.close()


def test_a_kill_reaches_a_zygote_that_is_busy(shared: Running) -> None:
    """Its queue is full for a while: what is sent then must not get lost."""
    child, busy = shared.child(), shared.zygote.process.pid
    os.kill(busy, signal.SIGSTOP)
    wake = threading.Timer(0.5, os.kill, (busy, signal.SIGCONT))
    wake.start()
    try:
        for number in range(2000):
            shared.zygote.send({"kill": 1_000_000 + number})
        child.kill()
    finally:
        wake.join()
    assert gone(child.pid)
    child.close()


def test_names_are_seen_in_ps(shared: Running) -> None:
    child = shared.child()
    assert Path(f"/proc/{child.pid}/comm").read_text().strip() == "distdoctor:try"
    child.close()


def test_the_death_of_the_zygote_is_reported_and_takes_its_children_with_it(own: Running) -> None:
    child = own.child()
    os.kill(own.zygote.process.pid, signal.SIGKILL)
    assert gone(child.pid)
    with pytest.raises(Died):
        own.do(child.call("gpu"))
    with pytest.raises(Died, match="gone"):
        for _ in range(3):
            own.zygote.spawn("distdoctor:no")
            time.sleep(0.1)
    child.kill()  # to nobody: no error


def test_when_it_is_stopped_nothing_is_left() -> None:
    own = Running()
    children = [own.child() for _ in range(3)]
    port = own.do(children[0].call("store_host", port=0, timeout=10.0))["port"]
    pids = [own.zygote.process.pid, *(child.pid for child in children)]
    before = len(os.listdir("/proc/self/fd"))
    own.zygote.stop()
    assert not any(alive(pid) for pid in pids if pid is not None), "they are gone when it returns"
    with socket.create_server(("", port)):
        pass
    assert len(os.listdir("/proc/self/fd")) < before
    own.do(asyncio.sleep(0))
    own.loop.close()


_SUPERVISOR = """
import asyncio, os, sys, time
from distdoctor.ranks.supervisor import Zygote
async def main():
    zygote = Zygote()
    zygote.listen()
    await zygote.torch()
    child = zygote.spawn("distdoctor:try")
    await child.call("gpu")
    print(zygote.process.pid, child.pid, flush=True)
    time.sleep(60)
asyncio.run(main())
"""


def test_all_die_with_the_supervisor() -> None:
    """Also where it has no time to say so: kill -9."""
    supervisor = subprocess.Popen(
        [sys.executable, "-c", _SUPERVISOR],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert supervisor.stdout is not None
    pids = [int(word) for word in supervisor.stdout.readline().split()]
    assert len(pids) == 2 and all(alive(pid) for pid in pids)
    supervisor.kill()
    supervisor.communicate()
    assert all(gone(pid) for pid in pids)


def test_ctrl_c_of_the_terminal_is_left_to_the_supervisor(shared: Running) -> None:
    """A terminal signals the whole process group: the zygote must live to be told what to end."""
    child = shared.child()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        os.kill(shared.zygote.process.pid, number)
    time.sleep(0.1)
    assert shared.do(child.call("gpu"))["ok"]
    child.close()
    shared.child().close()
