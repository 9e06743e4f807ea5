"""Tests of which NCCL the loader may take instead of torch's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from distdoctor.ranks.torch_failure import nccl_libraries
from tests.helpers.standin_nvml import COMPILER


def test_they_come_in_the_order_of_the_loader(tmp_path: Path) -> None:
    old, other, site = tmp_path / "old", tmp_path / "other", tmp_path / "site"
    for folder in (old, other, site):
        folder.mkdir()
    (old / "libnccl.so.2").touch()
    (other / "libnothing.so").touch()
    for name in ("nvidia_nccl_cu12-2.21.5", "nvidia_nccl_cu13-2.28.3", "nvidia_cublas-1"):
        (site / f"{name}.dist-info").mkdir()
    env = {"LD_PRELOAD": "/x/libnccl.so.2.20 /x/libm.so", "LD_LIBRARY_PATH": f"{other}:{old}::/nowhere"}
    assert list(nccl_libraries(env, [str(site), "/nowhere"])) == [
        {"name": "/x/libnccl.so.2.20", "by": "LD_PRELOAD", "without": "/x/libm.so"},
        {"name": f"{old}/libnccl.so.2", "by": "LD_LIBRARY_PATH", "without": f"{other}:/nowhere"},
        {"name": "nvidia-nccl-cu12 2.21.5"},
        {"name": "nvidia-nccl-cu13 2.28.3"},
    ]


def test_without_any_there_is_none(tmp_path: Path) -> None:
    assert list(nccl_libraries({"LD_LIBRARY_PATH": f"{tmp_path}", "LD_PRELOAD": ""}, [str(tmp_path)])) == []


def loaded_by(code: str, tmp_path: Path) -> str:
    """Return what a process says that has loaded a library of NCCL's name, which answers so."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    library = tmp_path / "libnccl.so.2"
    source = f"int ncclGetVersion(int *version) {{ {code} }}"
    command = [COMPILER, "-shared", "-fPIC", "-x", "c", "-", "-o", str(library), "-Wl,-soname,libnccl.so.2"]
    subprocess.run(command, input=source, text=True, check=True)
    return asked(f"import ctypes; ctypes.CDLL({str(library)!r})")


def asked(before: str) -> str:
    code = f"{before}\nfrom distdoctor.ranks.torch_failure import loaded_version\nprint(loaded_version())"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_the_version_is_that_of_the_library_that_is_loaded(tmp_path: Path) -> None:
    assert loaded_by("*version = 22907; return 0;", tmp_path) == "(2, 29, 7)"


def test_the_version_as_it_was_counted_before(tmp_path: Path) -> None:
    assert loaded_by("*version = 2708; return 0;", tmp_path) == "(2, 7, 8)"


def test_a_library_that_does_not_say(tmp_path: Path) -> None:
    assert loaded_by("return 1;", tmp_path) == "()"


def test_none_is_loaded_for_the_question() -> None:
    assert asked("") == "()"
