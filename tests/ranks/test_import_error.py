"""Tests of whose code failed in an import, of packages that fail for real."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import pytest

from distdoctor.ranks import torch_info
from distdoctor.ranks.torch_failure import further
from tests.helpers.namespaces import lines_of


def failing(folder: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], name: str) -> dict[str, Any]:
    for file, text in files.items():
        (folder / file).parent.mkdir(exist_ok=True)
        (folder / file).write_text(text)
    monkeypatch.syspath_prepend(str(folder))
    with pytest.raises(Exception) as caught:
        importlib.import_module(name)
    return further(caught.value, str(caught.value), {}, None)


def test_the_package_that_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a_torch.py": "import a_numpy\n", "a_numpy/__init__.py": 'raise ImportError("multiarray")\n'}
    found = failing(tmp_path, monkeypatch, files, "a_torch")
    assert (found["package"], found["package_file"]) == ("a_numpy", str(tmp_path / "a_numpy/__init__.py"))


def test_the_package_that_lacks_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"a_torch2.py": "from a_typing import deprecated\n", "a_typing.py": ""}
    found = failing(tmp_path, monkeypatch, files, "a_torch2")
    assert (found["package"], found["package_file"]) == ("a_typing", str(tmp_path / "a_typing.py"))


def test_what_it_was_raised_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = 'try:\n    import a_missing\nexcept ImportError as err:\n    raise RuntimeError("no extension") from err\n'
    found = failing(tmp_path, monkeypatch, {"a_plugin.py": text}, "a_plugin")
    assert found["cause"] == "ModuleNotFoundError: No module named 'a_missing'"


_CLOSED = """
import os, subprocess
from distdoctor.ranks import torch_info
from distdoctor.ranks.torch_failure import further
lines = "mount -t tmpfs lab /mnt; mkdir /mnt/a /mnt/b; mount -t tmpfs -o noexec lab /mnt/a"
lines += "; touch /mnt/a/libx.so.1 /mnt/b/libx.so.1"
subprocess.run(lines, shell=True, check=True)
text = "libx.so.1: failed to map segment from shared object"
for folder in ("/mnt/a", "/mnt/b", "/mnt/a:/mnt/a"):
    print(further(OSError(text), text, {"LD_LIBRARY_PATH": folder}, None)["noexec"])
"""


def test_a_library_on_a_file_system_with_noexec() -> None:
    assert lines_of(_CLOSED, "--mount", tools=("mount",)) == ["['/mnt/a/libx.so.1']", "[]", "['/mnt/a/libx.so.1']"]


def test_a_line_that_the_process_prints_again_and_again_is_kept_once() -> None:
    printed = "<frozen zipimport>\n" + "MemoryError: \n" * 30 + "MemoryError\n"
    assert torch_info.ended(1, printed, 1.0).failure.said == "<frozen zipimport> MemoryError"  # type: ignore[union-attr]
