"""Programs run in namespaces of their own, where they may set up networks and files that reach nothing else."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache
from pathlib import Path

import pytest

from tests.helpers.programs import PATH, missing

ROOT = Path(__file__).resolve().parents[2]
ENV = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": PATH}


@lru_cache
def _entry(kinds: tuple[str, ...]) -> tuple[list[str], str]:
    """The command prefix that enters new namespaces of these kinds, empty where there are none; then the reason.

    Without a user namespace only where root needs it: in one, root cannot read a user's clone that is closed to others.
    """
    if absent := missing(["unshare"]):
        return [], absent
    said = ""
    for user in (["--user", "--map-root-user"], *([[]] if os.geteuid() == 0 else [])):
        command = ["unshare", *user, *kinds]
        usable = ["sh", "-c", 'test -x "$0" && test -r "$1"', sys.executable, str(ROOT / "pyproject.toml")]
        tried = subprocess.run([*command, *usable], capture_output=True, text=True, env=ENV, check=False, timeout=20)
        if tried.returncode == 0:
            return command, ""
        said = said or tried.stderr.strip() or f"{ROOT} cannot be read there"
    return [], f"no namespaces here: {said}"


def entry(*kinds: str, tools: tuple[str, ...] = ()) -> list[str]:
    """The command prefix that enters new namespaces of these kinds (``--net``, ``--mount``, ``--pid``).

    Skips the test where there are none or a tool is missing.
    """
    command, why_not = _entry(kinds)
    if reason := why_not or missing(tools):
        pytest.skip(reason)
    return command


def lines_of(code: str, *kinds: str, tools: tuple[str, ...] = (), cwd: Path | None = None) -> list[str]:
    """Return what the Python ``code`` prints in new namespaces of these kinds.

    Skips the test where there are none or a tool is missing; fails it where the code itself fails.
    """
    done = subprocess.run(
        [*entry(*kinds, tools=tools), sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env=ENV,
        cwd=cwd,
        timeout=150,  # some start torch several times, beside all other tests; pytest's own end is after 180
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
