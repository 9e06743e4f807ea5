"""Python code run in namespaces of its own, where it may set up networks and files that reach nothing else."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
PATH = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def lines_of(code: str, *kinds: str, tools: tuple[str, ...] = (), cwd: Path | None = None) -> list[str]:
    """What ``code`` prints in new namespaces of these kinds (``--net``, ``--mount``, ``--pid``).

    Skips the test where there are none or a tool is missing; fails it where the code itself fails.
    """
    missing = [tool for tool in ("unshare", *tools) if shutil.which(tool, path=PATH) is None]
    if missing:
        pytest.skip(f"not installed: {', '.join(missing)}")
    enter = ["unshare", "--user", "--map-root-user", *kinds]
    tried = subprocess.run([*enter, "true"], capture_output=True, text=True, check=False, timeout=20)
    if tried.returncode:
        pytest.skip(f"no namespaces here: {tried.stderr.strip()}")
    done = subprocess.run(
        [*enter, sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PATH": PATH},
        cwd=cwd,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()
