"""What ranks of the lab's hung jobs wait for by themselves, further: services, helpers and locks of the system.

Each is called on all ranks, with whether the rank is one of those that its step names.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Dataset

from tests.lab.hang.holds import FOLDER, read_configuration


def no_name_server(mine: bool) -> None:
    """These ranks look up a name, and the server of names says nothing."""
    if mine:
        silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        silent.bind(("127.0.0.1", 53))
        Path("/etc/resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:30 attempts:5\n")
        socket.getaddrinfo("data.example", 80)


def database_locked(mine: bool) -> None:
    """A process that does nothing holds the lock of a database into which these ranks write."""
    if mine:
        code = (
            "import sqlite3, sys, time; d = sqlite3.connect(sys.argv[1], isolation_level=None); "
            "d.execute('create table t (a)'); d.execute('begin exclusive'); print(1); time.sleep(1e5)"
        )
        place = str(FOLDER / "runs.db")
        holder = subprocess.Popen([sys.executable, "-u", "-c", code, place], stdout=subprocess.PIPE)
        assert holder.stdout is not None and holder.stdout.readline()
        sqlite3.connect(place, timeout=3600).execute("insert into t values (1)")


def _killed_with(lock: object) -> None:
    lock.acquire()  # type: ignore[attr-defined]
    os.kill(os.getpid(), signal.SIGKILL)


def holder_killed(mine: bool) -> None:
    """A process was killed while it held a lock that these ranks want, too."""
    if mine:
        context = multiprocessing.get_context("fork")
        lock = context.Lock()
        other = context.Process(target=_killed_with, args=(lock,))
        other.start()
        other.join()
        with lock:
            pass


def manager_stopped(mine: bool) -> None:
    """These ranks ask a dictionary that another process keeps for them, which was stopped."""
    if mine:
        manager = multiprocessing.get_context("fork").Manager()
        shared = manager.dict()
        os.kill(manager._process.pid, signal.SIGSTOP)  # type: ignore[attr-defined]
        shared["step"] = 1


def long_expression(mine: bool) -> None:
    """A regular expression that takes these ranks longer than anybody waits."""
    if mine:
        re.match(r"(a+)+$", "a" * 60 + "b")


def sleep_to_debug(mine: bool) -> None:
    """These ranks fail, and sleep so that somebody may look."""
    if mine:
        try:
            raise ValueError("a label is out of range")
        except ValueError:
            time.sleep(3600)


def helper_silent(mine: bool) -> None:
    """These ranks wait for the answer of a helper of theirs that hangs."""
    if mine:
        near, far = socket.socketpair()
        code = "import sys, time; time.sleep(1e5)"
        helper = subprocess.Popen([sys.executable, "-c", code], pass_fds=[far.fileno()])
        near.sendall(b"init")
        near.recv(100)
        helper.wait()


class Behind(Dataset[torch.Tensor]):
    """Data that lies behind a pipe to which nobody writes."""

    def __len__(self) -> int:
        """So many."""
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        read_configuration("end")
        return torch.ones(4)


def spawned_loader(mine: bool) -> None:
    """A worker of the data loader that was spawned, not forked, reads what does not come."""
    if mine:
        for _ in DataLoader(Behind(), num_workers=1, multiprocessing_context="spawn"):
            pass


class Dies(Dataset[torch.Tensor]):
    """Data at which the worker is killed, as for want of memory."""

    def __len__(self) -> int:
        """So many."""
        return 4

    def __getitem__(self, index: int) -> torch.Tensor:
        """The sample."""
        os.kill(os.getpid(), signal.SIGKILL)
        return torch.ones(4)


def worker_lost(mine: bool) -> None:
    """A worker of the data loader was killed, and what would tell of it is caught: the loop tries again (as trainers
    do that go on after a bad sample)."""
    if mine:
        batches = iter(DataLoader(Dies(), num_workers=1))
        try:
            next(batches)
        except RuntimeError:
            threading.Event().wait()


ALONE: dict[str, Callable[[bool], None]] = {
    "dns": no_name_server,
    "sqlite": database_locked,
    "lock-holder": holder_killed,
    "manager": manager_stopped,
    "regex": long_expression,
    "debug-sleep": sleep_to_debug,
    "unix": helper_silent,
    "spawn-loader": spawned_loader,
    "worker-lost": worker_lost,
}
