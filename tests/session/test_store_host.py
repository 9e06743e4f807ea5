"""The store's process where others hold connections to it: that it has no descriptor left is seen from outside."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from types import SimpleNamespace
from typing import cast

import pytest

from distdoctor.ranks.supervisor import Child
from distdoctor.session.rendezvous.store_host import descriptors_exhausted

LIMIT = 32
OPENS = (
    "import os, sys; [os.open('/dev/null', 0) for _ in range(int(sys.argv[1]))]; print(flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize(("free", "none_left"), [(0, True), (10, False)])
def test_how_many_are_open_is_told_where_none_is_left(free: int, none_left: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OPENS, str(LIMIT - 3 - free)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (LIMIT, LIMIT)),  # noqa: PLW1509
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdout.readline()
        child = cast(Child, SimpleNamespace(pid=process.pid))
        assert len(os.listdir(f"/proc/{process.pid}/fd")) == LIMIT - free
        assert descriptors_exhausted(child) == ((LIMIT, LIMIT) if none_left else None)
        process.stdin.close()


def test_of_one_that_has_ended_nothing_is_known() -> None:
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert descriptors_exhausted(cast(Child, SimpleNamespace(pid=process.pid))) is None
