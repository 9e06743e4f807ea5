"""Processes of an earlier run, probes in threads with a time limit, and the kernel's log.

A left-over process was started by a launcher that is gone, and perhaps still holds a port.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import psutil

from distdoctor.model.facts import Leftover
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
from distdoctor.probes.host.proc import listening
from distdoctor.probes.host.process_room import threads_forbidden

MAX_FOUND = 16
TOGETHER_SECONDS = 60.0
"""Limit between the starts of two ranks that somebody starts separately, each by a line of its own (``docker
exec``)."""
_OF_THE_JOB = [setting.variables[0] for setting in (WORLD_SIZE, MASTER_ADDR, MASTER_PORT)]


def probe_leftovers(port: int) -> tuple[Leftover, ...]:
    """Return the ranks whose launcher is gone (their parent does not look like a rank or launcher), of this user, in
    this network namespace; those that listen on ``port`` first. Empty without a free descriptor to look with."""
    try:
        return _left_over(port)
    except (psutil.Error, OSError):  # without /proc there is no process, not even this one
        return ()


def _left_over(port: int) -> tuple[Leftover, ...]:
    leftovers = []
    above = psutil.Process().parents()
    ours = {os.getpid(), *(p.pid for p in above)}
    own = psutil.Process()
    launcher = _launched_by_init([own, *above])
    namespace = _netns("self")
    for process in psutil.process_iter(["pid", "ppid", "name", "username", "create_time"]):
        if process.pid in ours or _netns(process.pid) != namespace:
            continue
        try:
            environ = process.environ()
            if "RANK" not in environ or "WORLD_SIZE" not in environ or not _orphan(process, launcher):
                continue
            if process.status() == psutil.STATUS_ZOMBIE or _of_own_job(own, process, environ):
                continue
        except (psutil.Error, OSError):
            continue
        info = process.info
        ports = tuple(sorted({number for _, number in listening(process.pid)}))
        age = round(max(0.0, time.time() - (info["create_time"] or 0.0)), 1)
        user = info["username"] or ""
        leftovers.append(Leftover(process.pid, info["name"] or "", user, age, ports, environ.get("RANK")))
    leftovers.sort(key=lambda process: (port not in process.ports, process.pid))
    return tuple(leftovers[:MAX_FOUND])


def _launched_by_init(chain: list[psutil.Process]) -> bool:
    """Return whether process 1 is our own launcher, as torchrun is if it is a container's command. ``chain`` is this
    process and those above it."""
    try:
        return any("RANK" in process.environ() for process in chain if process.ppid() == 1)
    except psutil.Error:
        return False


def _of_own_job(own: psutil.Process, process: psutil.Process, environ: Mapping[str, str]) -> bool:
    """Return whether the process is another rank of this process's own job, started at the same time.

    Without a common launcher (each started by hand in a container, by ssh and nohup) each looks like a left-over.
    """
    rank = RANK.variables[0]
    if rank not in os.environ or environ[rank] == os.environ[rank]:
        return False
    alike = all(environ.get(name) == os.environ.get(name) for name in _OF_THE_JOB)
    return alike and abs(process.create_time() - own.create_time()) < TOGETHER_SECONDS


def _orphan(process: psutil.Process, launched_by_init: bool) -> bool:
    """Return whether the process was left by its launcher: adopted by init or by a subreaper of the system."""
    try:
        parent = process.parent()
        if parent is None or parent.pid == 1:
            return not launched_by_init
        return parent.name() in ("systemd", "init", "tini", "dumb-init", "containerd-shim", "docker-init")
    except psutil.Error:
        return False


def _netns(pid: int | str) -> str:
    try:
        return os.readlink(f"/proc/{pid}/ns/net")
    except OSError:
        return ""


# Work in a thread that can be left behind.


T = TypeVar("T")


async def in_time(function: Callable[[], T], seconds: float) -> T | None:
    """Return ``function()``, or None after ``seconds``: a file system may never answer."""
    try:
        value: T | None = await in_thread(function, seconds)
    except asyncio.TimeoutError:
        return None
    return value


async def in_thread(function: Callable[[], T], seconds: float) -> T:
    """Return ``function()``, run in a daemon thread. Raises asyncio.TimeoutError after ``seconds``; the thread is then
    left behind. In a sandbox that forbids threads it raises at once.

    The thread cannot keep the process alive, as those of an executor would.
    """
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def settle(value: T | None, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(value)  # type: ignore[arg-type]
            else:
                future.set_exception(error)

    def run() -> None:
        value, error = None, None
        try:
            value = function()
        except Exception as err:
            error = err
        try:
            loop.call_soon_threadsafe(settle, value, error)
        except RuntimeError:  # the loop is closed: nobody waits for this any more
            pass

    try:
        threading.Thread(target=run, daemon=True, name="distdoctor:probe").start()
    except RuntimeError:
        if not threads_forbidden():
            raise
        raise asyncio.TimeoutError from None
    return await asyncio.wait_for(future, seconds)


# Log of this host's kernel, as far back as the kernel keeps it.


READ_ALL = 3
"""SYSLOG_ACTION_READ_ALL of syslog(2): the last bytes of the log, which stay in it."""
MOST_BYTES = 256 << 10
KERNEL_LOG_SECONDS = 0.5
"""Limit of reading it."""
_RECORD = re.compile(r"<\d+>\[ *(\d+\.\d+)\](?:\[ *[TC]\d+\])? (.*)")
"""Record with the times that printk adds (kernel/printk/printk.c, print_prefix), in seconds since boot; and, with
CONFIG_PRINTK_CALLER, its writer."""


def read_kernel_log() -> tuple[tuple[float, str], ...] | None:
    """Return (seconds since the epoch by this host's clock, text) of the records in its last MOST_BYTES.

    None if it may not be read (kernel.dmesg_restrict, a container).
    """
    library = ctypes.CDLL(None)
    if not hasattr(library, "klogctl"):
        return None
    buffer = ctypes.create_string_buffer(MOST_BYTES)
    length = library.klogctl(READ_ALL, buffer, MOST_BYTES)
    if length < 0:
        return None
    text = buffer.raw[:length].decode(errors="replace")
    return tuple(kernel_records(text, time.clock_gettime(time.CLOCK_MONOTONIC), time.time()))


def kernel_records(text: str, up: float, now: float) -> Iterator[tuple[float, str]]:
    """Yield the records of the log's ``text`` that have a time, ``up`` seconds after boot."""
    for line in text.splitlines():
        record = _RECORD.match(line)
        if record is not None:
            yield now - max(0.0, up - float(record[1])), record[2]
