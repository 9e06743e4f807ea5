"""Tests of where no namespaces can be had, tests that need them are skipped and say so; none fails."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.namespaces import ENV, ROOT, entry

NO_MORE = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"'
"""Run inside a user namespace: what follows can make no namespace of any kind, as in most containers."""


def users_of_namespaces() -> Iterator[str]:
    """The tests of the lab, and of all others those that call for namespaces by name, themselves or by a function or
    fixture of their file: the rest of such a file is the same with and without."""
    calls = re.compile(r"^from tests\.helpers\.namespaces import .*\b(lines_of|entry)\b", re.MULTILINE)
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        if path.parent.name == "lab":
            yield str(path)
        elif path != Path(__file__) and calls.search(text := path.read_text()):
            yield from (f"{path}::{test}" for test in _tests_that_use({"lines_of", "entry"}, ast.parse(text)))


def _tests_that_use(names: set[str], module: ast.Module) -> list[str]:
    """The test functions and classes of a file in which one of these names stands, or what uses it does."""
    words = {one.name: _words(one) for one in module.body if isinstance(one, ast.FunctionDef | ast.ClassDef)}
    users: set[str] = set()
    while more := {one for one, said in words.items() if said & (names | users)} - users:
        users |= more
    return [one for one in words if one in users and one.startswith(("test", "Test"))]


def _words(code: ast.AST) -> set[str]:
    """The names in it, its parameters and its strings: a fixture may be asked for by each."""
    parts = [*ast.walk(code)]
    names = {one.id for one in parts if isinstance(one, ast.Name)} | {
        one.arg for one in parts if isinstance(one, ast.arg)
    }
    return names | {one.value for one in parts if isinstance(one, ast.Constant) and isinstance(one.value, str)}


@pytest.mark.long
@pytest.mark.timeout(300)
def test_without_namespaces_their_tests_are_skipped(tmp_path: Path) -> None:
    enter = [*entry("--user", tools=("setpriv",)), "sh", "-c", NO_MORE, "sh"]
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "inner")]
    done = subprocess.run(
        [*enter, *tests, *users_of_namespaces()], cwd=ROOT, env=ENV, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]
    assert re.search(r"[1-9]\d* passed, [1-9]\d* skipped", done.stdout), done.stdout[-400:]
    assert "no namespaces here: " in done.stdout and "no lab here: " in done.stdout
