"""The file behind --init-method file://."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from distdoctor.probes.host.files import filesystem, lock_error, probe_init_file


@pytest.mark.parametrize("method", [None, "", "env://", "tcp://host:1"])
def test_other_methods_have_no_file(method: str | None) -> None:
    assert probe_init_file(method) is None


def test_a_file_not_there_yet(tmp_path: Path) -> None:
    found = probe_init_file(f"file://{tmp_path}/store")
    assert found is not None
    assert (found.path, found.exists, found.folder_exists, found.writable) == (f"{tmp_path}/store", False, True, True)
    assert (found.size, found.inode, found.device) == (0, None, tmp_path.stat().st_dev)


def test_one_of_an_earlier_run(tmp_path: Path) -> None:
    path = tmp_path / "store"
    path.write_bytes(b"12345")
    os.utime(path, (path.stat().st_atime, path.stat().st_mtime - 3600))
    found = probe_init_file(f"file://{path}")
    assert found is not None
    assert (found.exists, found.size, found.inode) == (True, 5, path.stat().st_ino)
    assert 3599 < found.age < 3700


def test_no_folder(tmp_path: Path) -> None:
    found = probe_init_file(f"file://{tmp_path}/none/store")
    assert found is not None and (found.exists, found.folder_exists, found.writable) == (False, False, False)


@pytest.mark.parametrize("name", ["a%20b", "a b", "ä"])
def test_the_path_is_read_as_torch_reads_it(tmp_path: Path, name: str) -> None:
    """torch takes the URL's path as it is."""
    (tmp_path / name).touch()
    found = probe_init_file(f"file://{tmp_path}/{name}")
    assert found is not None and found.exists


def test_a_query_is_no_part_of_the_path(tmp_path: Path) -> None:
    found = probe_init_file(f"file://{tmp_path}/store?rank=0&world_size=2")
    assert found is not None and found.path == f"{tmp_path}/store"


def test_the_file_system_is_that_of_the_longest_mount_point() -> None:
    assert filesystem("/proc/self/status") == "proc"
    assert filesystem("/proc") == "proc"
    assert filesystem("/procedure") == filesystem("/")


def test_a_file_can_be_locked_where_there_are_locks(tmp_path: Path) -> None:
    assert asyncio.run(lock_error(f"file://{tmp_path}/store")) == ""
    assert list(tmp_path.iterdir()) == []
    assert asyncio.run(lock_error("env://")) == ""
