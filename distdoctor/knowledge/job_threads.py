"""What the threads and sockets of a rank, and what runs below it, show of what it does."""

from __future__ import annotations

from collections.abc import Iterable

from distdoctor.knowledge.job_movement import sleeps
from distdoctor.model.durations import age_said
from distdoctor.model.facts.job import SERVES, FileLock, JobProcess, JobThread, Socket

_COMPILERS = frozenset(
    ["cc1", "cc1plus", "g++", "gcc", "c++", "clang", "clang++", "nvcc", "cicc", "ptxas", "ninja", "as"]
)
_SEVERAL = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait")
"""Calls that wait for one of several files."""
_SIGNALS = ("pause", "rt_sigsuspend", "rt_sigtimedwait")
_CALLS = dict.fromkeys(_SIGNALS, "waits for a signal") | dict.fromkeys(_SEVERAL, "waits for something to read")


def threads_of(one: JobProcess, name: str) -> list[JobThread]:
    """Its threads of this name."""
    return [thread for thread in one.threads if thread.name.startswith(name)]


def hosts_store(one: JobProcess) -> bool:
    """Whether a TCPStore is served by this process."""
    return bool(threads_of(one, "pt_tcpstore"))


def may_be_between_tries(one: JobProcess) -> bool:
    """Whether it sleeps and has no connection at all, and no stack tells where: as a client of a store does that it
    does not reach."""
    return one.main is not None and not one.main.frames and sleeps(one.main) and not one.sockets


def in_flight(one: JobProcess) -> bool:
    """Whether gloo runs a collective in it."""
    return any(is_futex(thread) and thread.timed for thread in threads_of(one, "pt_gloo_runloop"))


def dialling(one: JobProcess, ports: Iterable[int]) -> Iterable[Socket]:
    """Its connections that are not answered, but for those to the stores."""
    return (s for s in one.sockets or () if s.state == "SYN_SENT" and s.remote_port not in set(ports))


def serves(thread: JobThread) -> bool:
    """Whether it waits until somebody connects to a port."""
    return thread.reads.startswith(SERVES)


def awaits_orders(one: JobProcess) -> bool:
    """Whether its main thread waits until something comes by a pipe or a connection, or by one of several."""
    main = one.main
    if main is None:
        return False
    by_one = main.call in ("read", "recvfrom", "recvmsg") and main.reads.startswith(("pipe:", "socket:"))
    return by_one or main.call in _SEVERAL


def is_futex(thread: JobThread) -> bool:
    return thread.call == "futex" or (not thread.call and thread.waits_in.startswith("futex"))


def compiles(below: Iterable[JobProcess]) -> bool:
    return any(one.name in _COMPILERS for one in below)


def who_has(lock: FileLock | None) -> str:
    """Who has a lock on a file, as far as that is known, in a clause."""
    if lock is None:
        return ""
    if lock.age is not None:
        return f", a file that was made {age_said(lock.age)} ago"
    holders = ", ".join([f"pid {pid} ({name or 'which has ended'})" for pid, name in lock.holders.items()][:4])
    return f", which {holders} {'has' if len(lock.holders) == 1 else 'have'}" if holders else ""


def waiting(main: JobThread) -> str:
    """What the system call says of what a thread waits for."""
    if main.lock is not None and main.call not in ("flock", "fcntl"):
        return f"{main.lock.path}{who_has(main.lock)}"
    if sleeps(main):
        return "sleeps"
    if serves(main):
        return f"waits for {main.reads}"
    if main.reads.startswith("socket:") and " to " in main.reads:
        return f"{main.call} on a connection to {main.reads.partition(' to ')[2]}"
    if main.reads.startswith(("/dev/pts/", "/dev/tty")) and main.call == "read":
        return f"waits for somebody to type at {main.reads}"
    if main.reads.startswith("pipe:") and main.call == "write":
        return f"writes to {main.reads}, which is full"
    if main.reads and main.call:
        return f"{main.call} on {main.reads}{who_has(main.lock)}"
    if main.call in ("wait4", "waitid"):
        return "waits for a process"
    if main.call == "flock":
        return "waits for a lock on a file"
    if is_futex(main):
        return "waits for a lock"
    if main.waits_in in ("pipe_read", "anon_pipe_read", "fifo_open", "wait_for_partner"):
        return "waits for a pipe"
    return _CALLS.get(main.call) or main.waits_in or main.call
