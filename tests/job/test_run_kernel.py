"""``distdoctor run``: what the kernel killed for want of memory, of the job's own processes."""

from __future__ import annotations

import socket
import subprocess
from pathlib import Path

import pytest

from tests.job.test_run import python, run

KERNEL = """
#include <stdio.h>
#include <stdlib.h>
int klogctl(int type, char *text, int size) {
    FILE *file = fopen(getenv("KERNELS_LOG"), "r");
    return file ? (int)fread(text, 1, size, file) : -1;
}
"""
OUT_OF_MEMORY = """
import os, time
text = f"Out of memory: Killed process {os.getpid() + OFF} (python) total-vm:1kB, anon-rss:1kB"
with open(os.environ["KERNELS_LOG"], "w") as file:
    print(f"<3>[{time.clock_gettime(time.CLOCK_MONOTONIC) - AGO:12.6f}] {text}", file=file)
print("Killed", flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize(("off", "ago", "named"), [(0, 0, True), (1, 0, False), (0, 90, False)])
def test_the_kernel_is_asked_of_the_jobs_own_processes(tmp_path: Path, off: int, ago: int, named: bool) -> None:
    """Not of somebody else's, nor of what had the same number before."""
    (tmp_path / "kernel.c").write_text(KERNEL)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "kernel.so", tmp_path / "kernel.c"], check=True)
    program = OUT_OF_MEMORY.replace("OFF", str(off)).replace("AGO", str(ago))
    done = run(*python(program), LD_PRELOAD=str(tmp_path / "kernel.so"), KERNELS_LOG=str(tmp_path / "log"))
    said = done.stderr.decode()
    assert (
        "process/killed-by-oom" in said and ("The kernel killed a process because memory ran out" in said) == named
    ), said
    assert (f"the kernel's log of {socket.gethostname()}:" in said) == named
    assert ("since the job began: a program sent signal 9" in said) == (ago > 0)
