"""Folders that jobs write to, on disks that are full, read-only or slow, and the locks of builds."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path

from distdoctor.probes import folders
from distdoctor.probes.look_up import ASKER
from tests.helpers.namespaces import lines_of

_SHOW = """
import asyncio, json, os, subprocess
from dataclasses import asdict
from distdoctor.probes import folders
from distdoctor.probes.look_up import ASKER
def sh(line): subprocess.run(line, shell=True, check=True)
sh("mount -t tmpfs -o size=64k,nr_inodes=100 lab /mnt; mkdir /mnt/full /mnt/none /mnt/closed")
sh("mount -t tmpfs -o size=64k lab /mnt/full; head -c 1m /dev/zero > /mnt/full/fill 2>/dev/null || true")
sh("mount -t tmpfs -o nr_inodes=1 lab /mnt/none; mount -t tmpfs -o ro lab /mnt/closed")
env = {"HOME": "/mnt/full", "HF_HOME": "/mnt/none", "TORCH_HOME": "/mnt/closed", "TMPDIR": "/mnt",
       "TRITON_CACHE_DIR": "/mnt/full/../full", "XDG_CACHE_HOME": "/mnt/not-there"}
os.chdir("/mnt")
found = asyncio.run(folders.probe(env))
print(json.dumps([asdict(one) for one in found]))
print(json.dumps(sorted(os.listdir("/mnt") + os.listdir("/mnt/full"))))
ASKER.stop()
"""


def test_full_disks_are_told_by_what_a_write_ends_with() -> None:
    found, left = lines_of(_SHOW, "--mount", tools=("mount",))
    seen = {one["use"]: one for one in json.loads(found)}
    errors = {use: one["error"] for use, one in seen.items()}
    assert errors == {"TMPDIR": "", "HOME": "ENOSPC", "XDG_CACHE_HOME": "", "TORCH_HOME": "EROFS", "HF_HOME": "ENOSPC"}
    assert seen["HOME"]["free"] == 0 and seen["HF_HOME"]["free_files"] == 0
    assert {one["filesystem"] for one in seen.values()} == {"tmpfs"}
    assert seen["TMPDIR"]["free"] == 64 << 10  # nothing is left of what was tried
    assert json.loads(left) == ["closed", "fill", "full", "none"]


def test_a_lock_is_held_as_long_as_its_build_lives(tmp_path: Path) -> None:
    for build in ("alive", "killed"):
        (tmp_path / build).mkdir()
    (tmp_path / "killed" / "lock").touch()
    os.utime(tmp_path / "killed" / "lock", (time.time() - 5000,) * 2)
    # As torch/utils/file_baton.py does it.
    descriptor = os.open(tmp_path / "alive" / "lock", os.O_CREAT | os.O_EXCL)
    try:
        found = {
            Path(one.path).parent.name: one for one in folders.build_locks({"TORCH_EXTENSIONS_DIR": str(tmp_path)})
        }
    finally:
        os.close(descriptor)
    assert found["alive"].held and not found["killed"].held
    assert 4999 < found["killed"].age < 5100 and found["alive"].age < 100


def test_a_lock_in_the_home(tmp_path: Path) -> None:
    build = tmp_path / "torch_extensions" / "py311_cpu" / "fused"
    build.mkdir(parents=True)
    (build / "lock").touch()
    (one,) = folders.build_locks({"XDG_CACHE_HOME": str(tmp_path)})
    assert one.path == str(build / "lock")


def test_a_folder_that_does_not_answer_costs_no_more_than_its_time(tmp_path: Path) -> None:
    # Reading a FIFO's folder is quick; what stands still is the process that is asked.
    async def asked() -> float:
        began = time.monotonic()
        reply = await ASKER.ask("folder", str(tmp_path), 0.0001)
        assert reply.timed_out
        return time.monotonic() - began

    try:
        assert asyncio.run(asked()) < 5
    finally:
        ASKER.stop()
