"""Who of a job has the other end of a pipe at which a rank waits: proc_pid_fd(5), proc_pid_fdinfo(5)."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from distdoctor.inspection import proc_files
from distdoctor.model.facts import JobProcess, JobThread

_OTHER = {"read": (os.O_WRONLY, os.O_RDWR), "readv": (os.O_WRONLY, os.O_RDWR),
          "write": (os.O_RDONLY, os.O_RDWR), "writev": (os.O_RDONLY, os.O_RDWR)}  # fmt: skip
"""How its other end is open, by the call in which a process waits."""


def with_other_ends(processes: Sequence[JobProcess]) -> list[JobProcess]:
    """The processes; of a rank whose main thread waits at a pipe also who else of these has its other end open."""
    return [_with_other_ends(one, processes) if one.role == "rank" else one for one in processes]


def _with_other_ends(one: JobProcess, processes: Iterable[JobProcess]) -> JobProcess:
    main = one.main
    path = _pipe(main) if main is not None else ""
    if main is None or not path:
        return one
    modes = _OTHER[main.call]
    others = (other.pid for other in processes if other is not one)
    found = tuple(pid for pid in others if any(mode in modes for mode in _modes(pid, path)))
    return replace(one, threads=(replace(main, other_ends=found), *one.threads[1:]))


def _pipe(main: JobThread) -> str:
    """The pipe, or the named one, at which it waits, as the links in /proc/PID/fd say; empty where it waits at none. No
    file is touched, which may be on a server that does not answer: the kernel tells what is a pipe by where it waits.
    """
    if main.call not in _OTHER:
        return ""
    if main.reads.startswith("pipe:"):
        return main.reads.partition(" ")[0]
    return main.reads if "pipe" in main.waits_in else ""


def _modes(pid: int, path: str) -> Iterator[int]:
    """How a process has it open: O_RDONLY, O_WRONLY or O_RDWR, of each descriptor."""
    for number in proc_files.names(pid, "fd"):
        if proc_files.link(pid, f"fd/{number}") == path:
            for line in (proc_files.text(pid, f"fdinfo/{number}", 4096) or "").splitlines():
                word, _, value = line.partition(":")
                if word == "flags":
                    yield int(value, 8) & os.O_ACCMODE
