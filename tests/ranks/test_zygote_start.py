"""How the process that imports torch is started where a sandbox forbids a part of it."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.namespaces import ENV

FORBIDDEN = """
import ctypes, errno, os, platform, struct, sys
if platform.machine() != "x86_64":
    sys.exit("skip")
LOAD, EQUAL, RETURN, ALLOW, REFUSE, MEMFD_CREATE = 0x20, 0x15, 0x06, 0x7FFF0000, 0x00050000, 319
rows = [(LOAD, 0, 0, 0), (EQUAL, 0, 1, MEMFD_CREATE), (RETURN, 0, 0, REFUSE | errno.EPERM), (RETURN, 0, 0, ALLOW)]
code = b"".join(struct.pack("HBBI", *row) for row in rows)
kept = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxP", len(rows), ctypes.addressof(kept))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program, 0, 0) == 0, os.strerror(ctypes.get_errno())
try:
    os.memfd_create("any")
    sys.exit("it is not forbidden")
except PermissionError:
    pass
from distdoctor.ranks.zygote_start import nameless_file
file = nameless_file("what is printed")
os.write(file, b"said")
print(os.pread(file, 10, 0).decode(), os.fstat(file).st_nlink)
"""
"""linux/seccomp.h: a filter that answers memfd_create() with EPERM and lets all else pass."""


def test_a_sandbox_without_memfd_create() -> None:
    done = subprocess.run(
        [sys.executable, "-c", FORBIDDEN], capture_output=True, text=True, env=ENV, timeout=60, check=False
    )
    if done.stderr.strip() != "skip":
        assert done.stdout.split() == ["said", "0"], done.stderr
