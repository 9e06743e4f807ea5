"""Processes of an earlier run: started by a launcher that is gone, still there, perhaps still holding a port."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping

import psutil

from distdoctor.model.facts import Leftover
from distdoctor.model.launch_settings import MASTER_ADDR, MASTER_PORT, RANK, WORLD_SIZE
from distdoctor.probes.proc import listening

MAX_FOUND = 16
TOGETHER_SECONDS = 60.0
"""Between the starts of two ranks that somebody starts one by one, each by a line of its own (``docker exec``)."""
_OF_THE_JOB = [setting.variables[0] for setting in (WORLD_SIZE, MASTER_ADDR, MASTER_PORT)]


def probe(port: int) -> tuple[Leftover, ...]:
    """The ranks whose launcher is gone (their parent is not a process with a rank's or launcher's look), of this
    user, in this network namespace; those that listen on ``port`` first. None is found where no file is
    left to look with."""
    try:
        return _left_over(port)
    except (psutil.Error, OSError):  # without /proc there is no process, not even this one
        return ()


def _left_over(port: int) -> tuple[Leftover, ...]:
    found = []
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
            if process.status() == psutil.STATUS_ZOMBIE or _beside(own, process, environ):
                continue
        except (psutil.Error, OSError):
            continue
        info = process.info
        ports = tuple(sorted({number for _, number in listening(process.pid)}))
        age = round(max(0.0, time.time() - (info["create_time"] or 0.0)), 1)
        user = info["username"] or ""
        found.append(Leftover(process.pid, info["name"] or "", user, age, ports, environ.get("RANK")))
    found.sort(key=lambda one: (port not in one.ports, one.pid))
    return tuple(found[:MAX_FOUND])


def _launched_by_init(chain: list[psutil.Process]) -> bool:
    """Whether process 1 is our own launcher, as torchrun is where it is a container's command: ``chain`` is this
    process and those above it."""
    try:
        return any("RANK" in process.environ() for process in chain if process.ppid() == 1)
    except psutil.Error:
        return False


def _beside(own: psutil.Process, process: psutil.Process, environ: Mapping[str, str]) -> bool:
    """Whether the process is another rank of this process's own job, started at the same time: without a common
    launcher (each by hand in a container, by ssh and nohup) each looks like one that was left."""
    rank = RANK.variables[0]
    if rank not in os.environ or environ[rank] == os.environ[rank]:
        return False
    alike = all(environ.get(name) == os.environ.get(name) for name in _OF_THE_JOB)
    return alike and abs(process.create_time() - own.create_time()) < TOGETHER_SECONDS


def _orphan(process: psutil.Process, launched_by_init: bool) -> bool:
    """Whether the process was left by its launcher: adopted by init or by a subreaper of the system."""
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
