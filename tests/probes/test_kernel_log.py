"""The kernel's log: its records of late, and which of them are known."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from distdoctor.probes.host import processes
from tests.helpers.namespaces import ROOT

TEXT = """<4>[  100.000000] nf_conntrack: nf_conntrack: table full, dropping packet
<6>[ 1000.500000] lan: port 2(p2) entered disabled state
<4>[ 1001.000000][  T12] nf_conntrack: table full in netns 4026532001, dropping packet
<3>[ 1002.000000] Out of memory: Killed process 4711 (python) total-vm:1kB, anon-rss:1kB
 a line that is none
<3>[ 1003.000000] nfs: server filer1 not responding, still trying
<3>[ 1004.000000] nfs: server filer1 OK
"""


def test_what_was_written_and_when() -> None:
    records = list(processes.kernel_records(TEXT, 1010.0, 5000.0))
    assert [text.split()[0] for _, text in records] == ["nf_conntrack:", "lan:", "nf_conntrack:", "Out", "nfs:", "nfs:"]
    assert [at for at, _ in records] == [4090.0, 4990.5, 4991.0, 4992.0, 4993.0, 4994.0]


STUB = r"""
#include <stdio.h>
#include <time.h>
int klogctl(int type, char *text, int size) {
    struct timespec now; clock_gettime(CLOCK_MONOTONIC, &now);
    return snprintf(text, size, "<4>[%5ld.%06ld] nfs: server filer1 not responding\n", now.tv_sec, now.tv_nsec / 1000);
}
"""
REFUSED = "int klogctl(int type, char *text, int size) { return -1; }"


@pytest.mark.parametrize(("stub", "found"), [(STUB, ["nfs: server filer1 not responding"]), (REFUSED, None)])
def test_it_is_read_where_the_kernel_gives_it(stub: str, found: list[str] | None, tmp_path: Path) -> None:
    (tmp_path / "stub.c").write_text(stub)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "stub.so", tmp_path / "stub.c"], check=True)
    read = "from distdoctor.probes.host.processes import read_kernel_log; import json; "
    program = f"{read}print(json.dumps(read_kernel_log()))"
    env = {**os.environ, "LD_PRELOAD": str(tmp_path / "stub.so")}
    run = subprocess.run([sys.executable, "-c", program], env=env, cwd=ROOT, capture_output=True, text=True, check=True)
    records = json.loads(run.stdout)
    assert (None if records is None else [text for _, text in records]) == found
    if records:
        assert abs(records[0][0] - time.time()) < 30
