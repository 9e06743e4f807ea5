"""Which lock on a file a process waits for, and who has it: /proc/locks (proc_locks(5)) tells of the kernel's own."""

from __future__ import annotations

import os
import time
from dataclasses import replace

from distdoctor.inspection import proc_files
from distdoctor.model.facts import FileLock, JobProcess, JobThread

_CALLS = ("flock", "fcntl")
"""Those in which a process waits for a lock; its stack tells of one who asks again and again."""


def with_lock(one: JobProcess) -> JobProcess:
    """The process with the lock for which its main thread waits."""
    main = one.main
    found = _waited_for(one.pid, main) if main is not None else None
    return one if main is None or found is None else replace(one, threads=(replace(main, lock=found), *one.threads[1:]))


def _waited_for(pid: int, main: JobThread) -> FileLock | None:
    given = next((frame.given for frame in main.frames if frame.given is not None and frame.given.lock), None)
    if main.call in _CALLS and main.reads.startswith("/"):
        return FileLock(main.reads, _holders(pid, main.reads))
    if given is None:
        return None
    path = os.path.join(proc_files.link(pid, "cwd") or "/", given.lock)
    if not given.soft:
        return FileLock(path, _holders(pid, path))
    try:
        return FileLock(path, age=round(max(0.0, time.time() - os.stat(f"/proc/{pid}/root{path}").st_mtime), 1))
    except OSError:
        return None


def _holders(pid: int, path: str) -> dict[int, str]:
    """The processes that have a lock on the file, with their names."""
    try:
        found = os.stat(f"/proc/{pid}/root{path}")
    except OSError:
        return {}
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    lines = [line.split() for line in (proc_files.text("self", "../locks") or "").splitlines()]
    pids = [int(words[4]) for words in lines if len(words) > 5 and words[5] == place and words[4].isdecimal()]
    return {one: (proc_files.text(one, "comm", 64) or "").strip() for one in dict.fromkeys(pids) if one > 0}
