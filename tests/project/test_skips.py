"""Where no namespaces can be had, tests that need them are skipped and say so; none fails."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.namespaces import ENV, ROOT, entry

NO_MORE = 'echo 0 > /proc/sys/user/max_user_namespaces && exec setpriv --bounding-set=-all --inh-caps=-all -- "$@"'
"""Run inside a user namespace: what follows can make no namespace of any kind, as in most containers."""


def users_of_namespaces() -> list[str]:
    """The test files that call for namespaces by name."""
    calls = re.compile(r"^from tests\.helpers\.namespaces import .*\b(lines_of|entry)\b", re.MULTILINE)
    files = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    return [str(p) for p in files if p.parent.name == "lab" or calls.search(p.read_text())]


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
