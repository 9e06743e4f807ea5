"""Tests of how the process that imports torch is started where a sandbox forbids a part of it."""

from __future__ import annotations

import subprocess
import sys

from tests.helpers.namespaces import ENV
from tests.helpers.sandbox import forbid

MEMFD_CREATE = 319
WRITTEN = """
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


def test_a_sandbox_without_memfd_create() -> None:
    code = forbid(MEMFD_CREATE) + WRITTEN
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=ENV, timeout=60, check=False
    )
    assert done.stdout.split() in (["said", "0"], ["skip"]), done.stderr
