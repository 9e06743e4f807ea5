"""Folders that jobs write to, on disks that are full, read-only or slow."""

from __future__ import annotations

import asyncio
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from distdoctor.probes import resolver_worker
from distdoctor.probes.host import files
from distdoctor.probes.resolver import ASKER, Reply
from tests.helpers.namespaces import lines_of

_SHOW = """
import asyncio, json, os, subprocess
from dataclasses import asdict
from distdoctor.probes.host import files
from distdoctor.probes.resolver import ASKER
def sh(line): subprocess.run(line, shell=True, check=True)
sh("mount -t tmpfs -o size=64k,nr_inodes=100 lab /mnt; mkdir /mnt/full /mnt/none /mnt/closed")
sh("mount -t tmpfs -o size=64k lab /mnt/full; head -c 1m /dev/zero > /mnt/full/fill 2>/dev/null || true")
sh("mount -t tmpfs -o nr_inodes=1 lab /mnt/none; mount -t tmpfs -o ro,noexec lab /mnt/closed")
env = {"HOME": "/mnt/full", "HF_HOME": "/mnt/none", "TORCH_HOME": "/mnt/closed", "TMPDIR": "/mnt",
       "TRITON_CACHE_DIR": "/mnt/full/../full", "XDG_CACHE_HOME": "/mnt/not-there"}
os.chdir("/mnt")
found = asyncio.run(files.probe_folders(env))
print(json.dumps([asdict(one) for one in found]))
print(json.dumps(sorted(os.listdir("/mnt") + os.listdir("/mnt/full"))))
ASKER.stop()
"""


def test_full_disks_are_told_by_what_a_write_ends_with() -> None:
    found, left = lines_of(_SHOW, "--mount", tools=("mount",))
    seen = {one["use"]: one for one in json.loads(found)}
    errors = {use: one["error"] for use, one in seen.items()}
    assert errors == {"TMPDIR": "", "HOME": "ENOSPC", "XDG_CACHE_HOME": "", "TORCH_HOME": "EROFS", "HF_HOME": "ENOSPC"}
    assert [use for use, one in seen.items() if one["noexec"]] == ["TORCH_HOME"]
    assert seen["HOME"]["free"] == 0 and seen["HF_HOME"]["free_files"] == 0
    assert {one["filesystem"] for one in seen.values()} == {"tmpfs"}
    assert seen["TMPDIR"]["free"] == 64 << 10  # nothing is left of what was tried
    assert json.loads(left) == ["closed", "fill", "full", "none"]


_STUCK = """
import asyncio, json, os, subprocess
from distdoctor.probes.host import files, files
from distdoctor.probes.resolver import ASKER
server = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
subprocess.run(["mount", "-t", "fuse", "-o", options, "stuck", "/mnt"], pass_fds=[server], check=True)
files.FOLDER_SECONDS = files.SECONDS = 0.3
env = {"HF_HOME": "/mnt/hub", "TMPDIR": "/tmp", "XDG_CACHE_HOME": "/mnt/cache"}
found = asyncio.run(files.probe_folders(env))
locks = asyncio.run(files.probe_build_locks({"self": env}))
print(json.dumps({one.use: one.error for one in found}))
print(locks, flush=True)
ASKER.stop()
"""


_DEAD = """
import os, subprocess
from distdoctor.probes import resolver_worker
server = os.open("/dev/fuse", os.O_RDWR)
options = f"fd={server},rootmode=40000,user_id=0,group_id=0"
subprocess.run(["mount", "-t", "fuse", "-o", options, "dead", "/mnt"], pass_fds=[server], check=True)
os.close(server)
print(resolver_worker.folder("/mnt")[0], resolver_worker.folder("/mnt/hub")[0])
"""


@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="no FUSE here")
def test_a_mount_whose_server_has_ended() -> None:
    assert lines_of(_DEAD, "--mount", tools=("mount",)) == ["ENOTCONN ENOTCONN"]


@pytest.mark.skipif(not os.access("/dev/fuse", os.W_OK), reason="no FUSE here")
def test_a_file_system_that_is_stuck_holds_nothing_up() -> None:
    """One of FUSE's whose server does not say a word: whoever looks a path up there waits without end."""
    found, rest = lines_of(_STUCK, "--mount", tools=("mount",))
    errors = json.loads(found)
    assert errors.pop("HF_HOME") == errors.pop("XDG_CACHE_HOME") == "timeout" and not any(errors.values())
    assert rest == "None"


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


def test_what_keeps_a_folder_from_being_made(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/scratch/cleared")
    (tmp_path / "file").write_text("")
    cleared, file, hub = (str(tmp_path / name) for name in ("link", "file", "new/hub"))
    for path in (cleared, f"{cleared}/hub"):
        assert resolver_worker.folder(path)[0] == "EEXIST" and resolver_worker.folder(path)[4:] == [
            cleared,
            "/scratch/cleared",
        ]
    assert (resolver_worker.folder(file)[0], resolver_worker.folder(f"{file}/hub")[0]) == ("EEXIST", "ENOTDIR")
    assert (resolver_worker.folder(hub)[0], resolver_worker.folder(hub)[4:]) == ("", [str(tmp_path), ""])
    assert not (tmp_path / "new").exists()
    for path, error in ((cleared, FileExistsError), (file, FileExistsError), (f"{file}/hub", NotADirectoryError)):
        with pytest.raises(error):
            os.makedirs(path, exist_ok=True)


def test_a_cache_below_the_home_is_told_where_it_is_a_link(tmp_path: Path) -> None:
    (tmp_path / ".triton").mkdir()
    (tmp_path / ".cache").symlink_to(tmp_path / "gone")
    env = {"HOME": str(tmp_path), "TMPDIR": "/tmp"}
    assert [use for use, _ in files.named_folders(env)] == ["TMPDIR", "HOME", "HOME/.cache", "."]
    assert "HOME/.cache" not in [use for use, _ in files.named_folders({**env, "XDG_CACHE_HOME": "/x"})]


def test_locks_are_tried_where_something_locks_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In HF_HOME and torch.compile's cache; in HOME where downloads are, and no variable names another place."""
    asked: list[str] = []
    real = ASKER.ask

    async def ask(what: Any, of: str, seconds: float, hurry: bool = False) -> Reply:
        if what == "lock":
            asked.append(of)
            return Reply(timed_out=True) if of == str(data) else Reply(("ENOLCK",))
        return await real(what, of, seconds, hurry)

    monkeypatch.setattr(ASKER, "ask", ask)
    home, hub, cache, data = (tmp_path / name for name in ("home", "hub", "cache", "data"))
    for folder in (home, hub, cache, data):
        folder.mkdir()
    env = {"HOME": str(home), "TMPDIR": str(tmp_path)}
    try:
        assert not any(one.lock_error for one in asyncio.run(files.probe_folders(env))) and asked == []
        (home / ".cache/huggingface").mkdir(parents=True)
        assert {one.use for one in asyncio.run(files.probe_folders(env)) if one.lock_error} == {"HOME"}
        env |= {"HF_HOME": str(hub / "not-there"), "TORCHINDUCTOR_CACHE_DIR": str(cache)}
        found = {one.use for one in asyncio.run(files.probe_folders(env)) if one.lock_error}
        assert found == {"HF_HOME", "TORCHINDUCTOR_CACHE_DIR"}
        assert sorted(asked) == sorted(map(str, (home, hub, cache)))  # they are asked side by side
        env = {
            "HF_DATASETS_CACHE": str(data),
            "HF_HUB_CACHE": str(cache),
            "VLLM_CACHE_ROOT": str(hub),
            "TMPDIR": "/tmp",
        }
        errors = {one.use: one.lock_error for one in asyncio.run(files.probe_folders(env)) if one.lock_error}
        assert errors == {"HF_DATASETS_CACHE": "timeout", "HF_HUB_CACHE": "ENOLCK"}
    finally:
        ASKER.stop()


def test_what_torch_compile_keeps_is_told_where_it_is_another_users(monkeypatch: pytest.MonkeyPatch) -> None:
    closed = {"/scratch/torchinductor_ann_b", "/tmp/torchinductor_ann"}
    monkeypatch.setattr(files, "_closed", lambda path: path in closed)
    assert ("TMPDIR/torchinductor_ann", "/tmp/torchinductor_ann") in files.named_folders({"USER": "ann"})
    odd = {"LOGNAME": "ann:b", "USER": "ann", "TMPDIR": "/scratch"}
    assert ("TMPDIR/torchinductor_ann_b", "/scratch/torchinductor_ann_b") in files.named_folders(odd)
    for env in ({"USER": "bob"}, {"USER": "ann", "TORCHINDUCTOR_CACHE_DIR": "/x"}):
        assert not any(use.startswith("TMPDIR/") for use, _ in files.named_folders(env))
    closed.add("/tmp")  # Python takes another folder then
    assert not any(use.startswith("TMPDIR/") for use, _ in files.named_folders({"USER": "ann"}))
