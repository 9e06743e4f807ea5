"""A sandbox that forbids one system call, made by the process that it holds."""

from __future__ import annotations

_FORBID = """
import ctypes, errno, os, platform, struct, sys
if platform.machine() != "x86_64":
    print("skip")
    sys.exit(0)
LOAD, EQUAL, RETURN, ALLOW, REFUSE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000
rows = [(LOAD, 0, 0, 0), (EQUAL, 0, 3, {number}), (LOAD, 0, 0, 16), (EQUAL, 0, 1, {argument})]
if {argument} < 0:  # whatever it is called with
    rows = [rows[0], (EQUAL, 0, 1, {number})]
rows += [(RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
kept = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *row) for row in rows))
program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(kept))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
"""


def forbid(number: int, argument: int = -1) -> str:
    """To be put before a program, with the number of the call on x86-64: from then on it ends with EPERM, or only where
    its first argument is ``argument`` (linux/seccomp.h: a filter that lets all else pass). Elsewhere the program prints
    ``skip``."""
    return _FORBID.format(number=number, argument=argument)
