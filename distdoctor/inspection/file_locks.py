"""Which lock on a file a process waits for, and who has it: /proc/locks (proc_locks(5)) tells of the kernel's own."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from distdoctor.inspection import proc_files
from distdoctor.inspection.syscalls import SLEEP
from distdoctor.model.facts import FileLock, JobProcess, JobThread

_CALLS = ("flock", "fcntl")
"""Those in which a process waits for a lock; its stack tells of one who asks again and again."""


def with_lock(one: JobProcess) -> JobProcess:
    """The process with the lock for which its main thread waits."""
    main = one.main
    found = _waited_for(one.pid, main) if main is not None else None
    return one if main is None or found is None else replace(one, threads=(replace(main, lock=found), *one.threads[1:]))


def _waited_for(pid: int, main: JobThread) -> FileLock | None:
    """The lock. No file is touched that may be on a server which does not answer: who is inside of flock(2) is told by
    the kernel's list, and who sleeps between two tries has just opened the file."""
    if main.call in _CALLS and main.reads.startswith("/"):
        return FileLock(main.reads, _holders(lambda waiting, lock: waiting and lock.pid == pid))
    given = next((frame.given for frame in main.frames if frame.given is not None and frame.given.lock), None)
    if given is None or main.call != SLEEP:
        return None
    path = os.path.join(proc_files.link(pid, "cwd") or "/", given.lock)
    try:
        found = os.stat(f"/proc/{pid}/root{path}")
    except OSError:
        return None if given.soft else FileLock(path)
    if given.soft:
        return FileLock(path, age=round(max(0.0, time.time() - found.st_mtime), 1))
    place = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
    return FileLock(path, _holders(lambda waiting, lock: not waiting and lock.place == place))


@dataclass(frozen=True)
class _Lock:
    number: str
    pid: int
    place: str


def _holders(meant: Callable[[bool, _Lock], bool]) -> dict[int, str]:
    """The processes that have a lock, with their names, of those that are meant, or that keep these waiting."""
    held, numbers = [], set()
    for line in (proc_files.text("self", "../locks") or "").splitlines():
        words = line.split()
        waiting = words[1:2] == ["->"]
        words = [words[0], *words[2:]] if waiting else words
        if len(words) < 6 or not words[4].isdecimal():
            continue
        lock = _Lock(words[0], int(words[4]), words[5])
        held += [] if waiting else [lock]
        numbers |= {lock.number} if meant(waiting, lock) else set()
    pids = dict.fromkeys(lock.pid for lock in held if lock.number in numbers and lock.pid > 0)
    return {pid: (proc_files.text(pid, "comm", 64) or "").strip() for pid in pids}
