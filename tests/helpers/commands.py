"""The program as a user starts it, and what it says."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from distdoctor.model.launch_settings import LAUNCH_VARIABLES

ROOT = Path(__file__).resolve().parents[2]


def environment(**changes: str) -> dict[str, str]:
    kept = {
        k: v for k, v in os.environ.items() if k not in LAUNCH_VARIABLES and not k.startswith(("PET_", "TORCHELASTIC"))
    }
    return {**kept, "PYTHONPATH": str(ROOT), "PYTHONDONTWRITEBYTECODE": "1", **changes}


def doctor(*arguments: str, cwd: Path | None = None, **variables: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "distdoctor", *arguments],
        capture_output=True,
        text=True,
        env=environment(**variables),
        cwd=cwd,
        timeout=120,
        check=False,
    )
