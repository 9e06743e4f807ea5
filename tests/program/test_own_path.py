"""distdoctor's own imports, started in folders whose files have the names of modules that it needs."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("random", "json", "typing", "re", "dataclasses", "asyncio", "rich", "typer", "queue", "socket", "attr", "_x")


def started(folder: Path, *words: str, python: tuple[str, ...] = ("-m", "distdoctor"), **env: str) -> str:
    """Return what the command prints on stdout; it must end well."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **env}
    done = subprocess.run(
        [sys.executable, *python, *words], cwd=folder, env=variables, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder where the module of every name is broken."""
    for name in NAMES:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('not the real one')\n")
    return tmp_path


def test_files_of_the_working_folder_hide_nothing_from_it(folder: Path) -> None:
    assert "gloo/loopback-address" in started(folder, "list")
    assert '"id": "gloo/loopback-address"' in started(folder, "list", "--json")


def test_nor_does_pythonpath_once_it_runs(folder: Path) -> None:
    """But for what is loaded before its first line runs (here re and typing): no Python starts well there."""
    for name in ("re", "typing"):
        (folder / f"{name}.py").unlink()
    assert "gloo/loopback-address" in started(ROOT, "list", PYTHONPATH=f"{folder}:{ROOT}")


@pytest.mark.parametrize("flag", ["-E", "-s", "-P"])
def test_with_the_interpreters_own_flags(folder: Path, flag: str) -> None:
    if flag == "-P" and sys.version_info < (3, 11):
        pytest.skip("-P is new in Python 3.11")
    where = ROOT if flag == "-E" else folder  # -E ignores the PYTHONPATH by which it is found elsewhere
    assert "gloo/loopback-address" in started(where, "list", python=(flag, "-m", "distdoctor"))


def test_the_order_afterwards(tmp_path: Path) -> None:
    code = "import sys; from distdoctor.own_path import settle; settle(); print(*sys.path, sep='\\n')"
    entries = started(tmp_path, python=("-c", code), PYTHONPATH=f"{tmp_path / 'a'}:{ROOT}").split("\n")[:-1]
    assert "" not in entries and str(tmp_path) not in entries
    assert entries[-2:] == [str(tmp_path / "a"), str(ROOT)]
    assert entries[0].startswith((sys.base_prefix, sys.prefix))


REPLACED = """
import socket
class Guarded(socket.socket):
    def connect(self, address):
        raise OSError("only through the proxy")
def lookup(*arguments, **more):
    raise OSError("no look-ups")
"""
WAYS = {
    "class": "socket.socket = Guarded",
    "method": "socket.socket.connect = Guarded.connect",
    "function": "socket.getaddrinfo = lookup",
}


@pytest.mark.parametrize("way", WAYS)
def test_what_a_sitecustomize_makes_of_the_socket_module_is_undone(tmp_path: Path, way: str) -> None:
    """torch connects without Python, and trains where every connection of Python's is forbidden."""
    (tmp_path / "sitecustomize.py").write_text(REPLACED + WAYS[way])
    asked = (
        "import socket; server = socket.create_server(('127.0.0.1', 0)); one = socket.socket(); "
        "one.connect(server.getsockname()); print(socket.getaddrinfo('127.0.0.1', 1)[0][4][0])"
    )
    code = f"from distdoctor.own_path import settle; settle(); {asked}"
    assert started(tmp_path, python=("-c", code), PYTHONPATH=f"{tmp_path}:{ROOT}") == "127.0.0.1\n"
