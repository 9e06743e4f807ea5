"""Processes of an earlier run: started by a launcher that is gone, still there, perhaps still holding a port."""

from __future__ import annotations

import os
import time

import psutil

from distdoctor.model.facts import Leftover
from distdoctor.probes.proc import listening

MAX_FOUND = 16


def probe(port: int) -> tuple[Leftover, ...]:
    """The ranks whose launcher is gone (their parent is not a process with a rank's or launcher's look), of this
    user, in this network namespace; those that listen on ``port`` first."""
    found = []
    above = psutil.Process().parents()
    ours = {os.getpid(), *(p.pid for p in above)}
    launcher = _launched_by_init([psutil.Process(), *above])
    namespace = _netns("self")
    for process in psutil.process_iter(["pid", "ppid", "name", "username", "create_time"]):
        if process.pid in ours or _netns(process.pid) != namespace:
            continue
        try:
            environ = process.environ()
            if "RANK" not in environ or "WORLD_SIZE" not in environ or not _orphan(process, launcher):
                continue
            if process.status() == psutil.STATUS_ZOMBIE:
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
