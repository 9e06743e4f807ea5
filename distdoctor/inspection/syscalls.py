"""The names of the few system calls in which a rank is seen to wait, by their numbers on this machine.

Numbers: arch/x86/entry/syscalls/syscall_64.tbl and include/uapi/asm-generic/unistd.h (arm64, riscv) of Linux.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence

FUTEX, SLEEP = "futex", "clock_nanosleep"
WITH_FILE = frozenset(
    {
        "read", "write", "readv", "writev", "pread64", "pwrite64", "fsync", "fdatasync", "flock", "fcntl", "getdents64",
        "recvfrom", "recvmsg", "sendto", "connect", "accept", "ioctl", "fstat",
    }
)  # fmt: skip
"""Those whose first argument is the number of an open file."""
_X86 = {
    0: "read", 1: "write", 3: "close", 4: "stat", 5: "fstat", 6: "lstat", 7: "poll", 16: "ioctl", 17: "pread64",
    18: "pwrite64", 19: "readv", 20: "writev", 23: "select", 24: "sched_yield", 34: "pause", 35: "nanosleep",
    42: "connect", 43: "accept", 44: "sendto", 45: "recvfrom", 47: "recvmsg", 61: "wait4", 72: "fcntl", 73: "flock",
    74: "fsync", 75: "fdatasync", 128: "rt_sigtimedwait", 130: "rt_sigsuspend", 202: FUTEX,
    217: "getdents64", 219: "restart_syscall", 230: "clock_nanosleep",
    232: "epoll_wait", 247: "waitid", 257: "openat", 262: "newfstatat", 270: "pselect6", 271: "ppoll",
    281: "epoll_pwait", 288: "accept", 332: "statx",
}  # fmt: skip
_GENERIC = {
    22: "epoll_pwait", 25: "fcntl", 29: "ioctl", 32: "flock", 56: "openat", 57: "close", 61: "getdents64", 63: "read",
    64: "write", 65: "readv", 66: "writev", 67: "pread64", 68: "pwrite64", 72: "pselect6", 73: "ppoll",
    79: "newfstatat", 80: "fstat", 82: "fsync", 83: "fdatasync", 95: "waitid", 98: FUTEX, 101: "nanosleep",
    115: "clock_nanosleep", 124: "sched_yield", 128: "restart_syscall", 133: "rt_sigsuspend", 137: "rt_sigtimedwait",
    202: "accept", 203: "connect", 206: "sendto", 242: "accept",
    207: "recvfrom", 212: "recvmsg", 260: "wait4", 291: "statx",
}  # fmt: skip
_NAMES = _X86 if platform.machine() == "x86_64" else _GENERIC


def plain_name_of(number: str) -> str:
    """The name of the call, else its number; empty for -1, which is no call."""
    return "" if int(number) < 0 else _NAMES.get(int(number), number)


def name_of(number: str, first: str = "") -> str:
    """The same, by what it does. ``first``: its first argument, in hex."""
    name = plain_name_of(number)
    # To wait for no file at all is to sleep: so does Python's time.sleep() until 3.10 (Modules/timemodule.c).
    return SLEEP if name in ("select", "pselect6") and first == "0x0" else name


def restarted(waits_in: str) -> tuple[str, bool | None]:
    """Which call it is that a debugger interrupted and the kernel began again (restart_syscall(2)), by where it sleeps,
    and whether it is a futex with a time limit: only those are begun again so."""
    if waits_in.startswith("futex"):
        return FUTEX, True
    if "nanosleep" in waits_in:
        return SLEEP, None
    return ("poll", None) if "poll" in waits_in else ("restart_syscall", None)


def poll_limit(words: Sequence[str]) -> float | None:
    """Seconds after which poll(2) gives up, by the words of /proc/PID/syscall; None without a limit."""
    if len(words) < 4:
        return None
    milliseconds = int(words[3], 16) & 0xFFFFFFFF  # an int: the upper half of the register may hold anything
    return milliseconds / 1000 if milliseconds < 1 << 31 else None
